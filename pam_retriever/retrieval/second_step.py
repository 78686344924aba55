"""Links in recall: to visible memories alone, and the second step along them."""

from __future__ import annotations

from collections.abc import Callable

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.second_step import LATEST, second_step
from pam_retriever.store.view import View
from pam_retriever.types import Familiarity, Int64


def visible_links(
    view: View, visible: Rows | None, familiarity: Familiarity = "none", latest: int | None = None
) -> Callable[[Int64], Links]:
    """Returns a function that returns the links of rows (R,) to visible memories; see ``CooccurrenceGraph.of``.

    A walk follows a number of links of each memory, and divides its mass among them. Hidden memories take no part.

    Args:
        view: a view of the index.
        visible: sorted rows of the memories that count; None for all.
        familiarity: the scale that lowers the weight of pairs that co-occur by chance.
        latest: number of steps per row that count; None for all.
    """

    def links_of(rows: Int64) -> Links:
        owner, linked, weight = view.links.of(rows, view.window, familiarity, latest)
        if visible is None:
            return owner, linked, weight
        seen = holds(visible, linked)
        return owner[seen], linked[seen], weight[seen]

    return links_of


def visible_second_step(
    view: View, linked: Links, own: Int64, visible: Rows | None, familiarity: Familiarity = "none"
) -> Links:
    """Returns query, row and share of the memories that are linked to the links of often experienced cues.

    Args:
        view: a view of the index. A view with a direction has no second step: a memory two steps later is no answer.
        linked: query, row and strength of the links of the cues to visible memories, sorted by query.
        own: (Q,) the row of each cue, which is no answer; -1 for none.
        visible: sorted rows of the memories that count; None for all.
        familiarity: the scale that lowers the weight of pairs that co-occur by chance.
    """
    if view.links.direction is not None:
        return linked[0][:0], linked[1][:0], linked[2][:0]
    return second_step(visible_links(view, visible, familiarity, LATEST), linked, view.window, own)
