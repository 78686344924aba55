"""Recall without words before ``fit``, in an index with feedback."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.first_mentions import in_turn
from pam_retriever.retrieval.linked import Linked, LinkScorer, PastUse
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Int64


class BeforeFitScorer:
    """Answers each cue by its own links and requests, so that feedback on other memories changes nothing.

    A memory that was experienced is answered by its links, and any other cue from past requests. If all links of a
    memory were also used together with it, past requests know all of them, and rank them better: its links still come
    first, in the order of past requests. The mentions of a memory come first, unless it was used and past requests
    answer it: they weigh its mentions, too.

    Args:
        links: the scorer by links; None without experience.
        mentions: the scorer by mentions; None without names.
        past_use: past requests.
        view: a view of the index.
        min_score: drop hits with a lower score.
        ranks_links: whether past requests may rank links.
    """

    def __init__(
        self,
        links: LinkScorer | None,
        mentions: Scorer | None,
        past_use: PastUse,
        view: View,
        min_score: float | None = None,
        ranks_links: bool = True,
    ) -> None:
        self._links, self._mentions, self._past_use = links, mentions, past_use
        self._view, self._min_score, self._ranks_links = view, min_score, ranks_links and links is not None

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        own = self._past_use.recognised(cues)
        experienced = self._view.links.experienced(own)
        ranked, linked = self._ranked(own, experienced, cues.visible)
        by_links = experienced & ~ranked
        named = np.zeros(len(own), bool)
        if self._mentions is not None:
            named = (own >= 0) & (by_links | ~self._past_use.used(own))
        links, use = self._links, self._past_use
        if not named.any() and (by_links.all() or not by_links.any()):  # one scorer answers all at once
            all_by = links if by_links.any() else None
            found = use.score(cues, k, allowed, linked) if all_by is None else all_by.score(cues, k, allowed)
            return [one.best(k, self._min_score) for one in found]
        found = []
        for at, by in enumerate(by_links.tolist()):
            cue = cues.only(at)
            if by and links is not None:
                [one] = links.score(cue, k, allowed)
            else:
                [one] = use.score(cue, k, allowed, linked.only(at))
            if self._mentions is not None and named[at]:
                [first] = self._mentions.score(cue, k, allowed)
                one = in_turn(first, one)
            found.append(one.best(k, self._min_score))
        return found

    def _ranked(self, own: Int64, experienced: Bools, visible: Rows | None) -> tuple[Bools, Linked]:
        """Returns which cues (Q,) have only links that past requests rank, and the memories that are linked to these.

        Past requests rank the links of a cue if each of the ``visible`` ones served a request together with it.
        """
        ranked, asked = np.zeros(len(own), bool), np.flatnonzero(experienced)
        if not self._ranks_links or not len(asked):
            return ranked, Linked(np.empty(0, np.int64), np.empty(0, np.int64))
        owner, rows, _ = self._view.links.of(own[asked], self._view.window)
        if visible is not None:
            seen = holds(visible, rows)
            owner, rows = owner[seen], rows[seen]
        (by, used, _), _ = self._past_use.used_with(own[asked], visible)
        size = int(max(rows.max(initial=0), used.max(initial=0))) + 1
        together = np.isin(owner * size + rows, by * size + used)
        ranked[asked] = np.bincount(owner, ~together, len(asked)) == 0
        mine = ranked[asked[owner]]
        return ranked, Linked(asked[owner[mine]], rows[mine])
