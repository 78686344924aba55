"""Recall without words before ``fit``, in an index with feedback."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.first_mentions import in_turn
from pam_retriever.retrieval.linked import LinkScorer, PastUse
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Int64


class BeforeFitScorer:
    """Answers each cue by what is known of it, so that feedback on other memories changes nothing.

    A memory that was experienced is answered by its links, and any other cue from past requests. If all links of a
    memory were also used together with it, past requests know all of them, and weigh them better. The mentions of a
    memory come first, unless it was used and never experienced: past requests weigh its mentions, too.

    Args:
        links: the scorer by links; None without experience.
        mentions: the scorer by mentions; None without names.
        past_use: past requests.
        view: a view of the index.
        min_score: drop hits with a lower score.
    """

    def __init__(
        self,
        links: LinkScorer | None,
        mentions: Scorer | None,
        past_use: PastUse,
        view: View,
        min_score: float | None = None,
    ) -> None:
        self._links, self._mentions, self._past_use = links, mentions, past_use
        self._view, self._min_score = view, min_score

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        own = self._past_use.recognised(cues, k)
        experienced = self._view.links.experienced(own)
        experienced[experienced] = ~self._covered(own[experienced], cues.visible)
        named = np.zeros(len(own), bool)
        if self._mentions is not None:
            named = (own >= 0) & (experienced | ~self._past_use.used(own))
        if not named.any() and (experienced.all() or not experienced.any()):  # one scorer answers all at once
            scorer = self._links if experienced.any() and self._links is not None else self._past_use
            return [one.best(k, self._min_score) for one in scorer.score(cues, k, allowed)]
        found = []
        for at, linked in enumerate(experienced.tolist()):
            scorer = self._links if linked and self._links is not None else self._past_use
            [one] = scorer.score(cues.only(at), k, allowed)
            if self._mentions is not None and named[at]:
                [first] = self._mentions.score(cues.only(at), k, allowed)
                one = in_turn(first, one)
            found.append(one.best(k, self._min_score))
        return found

    def _covered(self, rows: Int64, visible: Rows | None) -> Bools:
        """Returns whether all ``visible`` links of each of ``rows`` (R,) served a request together with it."""
        owner, linked, _ = self._view.links.of(rows, self._view.window)
        if visible is not None:
            seen = holds(visible, linked)
            owner, linked = owner[seen], linked[seen]
        (by, used, _), _ = self._past_use.used_with(rows, visible)
        size = int(max(linked.max(initial=0), used.max(initial=0))) + 1
        together = np.isin(owner * size + linked, by * size + used)
        covered: Bools = np.bincount(owner, ~together, len(rows)) == 0
        return covered
