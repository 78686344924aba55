"""The second step along links in recall: over visible memories, and to visible memories."""

from __future__ import annotations

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.second_step import second_step
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Familiarity, Int64


def visible_second_step(
    view: View, linked: Links, own: Int64, visible: Rows | None, familiarity: Familiarity = "none"
) -> Links:
    """Returns query, row and share of the memories that are linked to the links of often experienced cues.

    Args:
        view: a view of the index. A view with a direction has no second step: a memory two steps later is no answer.
        linked: query, row and strength of the links of the cues, sorted by query.
        own: (Q,) the row of each cue, which is no answer; -1 for none.
        visible: sorted rows of the memories that count; None for all.
        familiarity: the scale that lowers the weight of pairs that co-occur by chance.
    """
    if view.links.direction is not None:
        return linked[0][:0], linked[1][:0], linked[2][:0]
    if visible is not None:
        seen = holds(visible, linked[1])
        linked = linked[0][seen], linked[1][seen], linked[2][seen]

    def is_end(query: Int64, row: Int64) -> Bools:
        other: Bools = row != own[query]
        return other if visible is None else other & holds(visible, row)

    return second_step(view.links, linked, view.window, familiarity, is_end)
