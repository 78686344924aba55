"""Evidence of names and of times: memories that a question mentions, and memories of a time that it names.

Both are part of recall without feedback, next to the score of ``WordsAndNeighbours``. Here they are separate features,
so that feedback determines their weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import union
from pam_retriever.mentions.edges import PRIOR, WAYS, Mentioned
from pam_retriever.retrieval.first_mentions import MENTIONED
from pam_retriever.retrieval.lexical import best_of
from pam_retriever.retrieval.mentioned import BEST
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.sources import PLAIN_UNIT
from pam_retriever.retrieval.timeline import TimeEvidence
from pam_retriever.types import Float32, Int64

TIMES = "times"
BY_WAY = {f"mention:{way}": PRIOR[way] for way in WAYS}


class Mentions:
    """Memories that a question, its best hits or a stored memory mention, and memories that mention the hits.

    Args:
        corpus: the memories.
    """

    name, features = MENTIONED, tuple(BY_WAY)

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._last = LastAnswer[list[Mentioned | None]]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        scores = np.zeros((len(pools), len(self.features)), np.float32)
        for at, one in enumerate(self.found(cues)):
            if one is not None:
                mine = pools.of_cue(at)
                scores[mine] = np.float32(PLAIN_UNIT) * one.of(self._corpus.rows[pools.row[mine]])
        return scores

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        del n  # they are few, because a name of many memories is ignored
        none = np.empty(0, np.int64)
        return [none if one is None else self._corpus.positions(one.rows) for one in self.found(cues)]

    def found(self, cues: Cues) -> list[Mentioned | None]:
        """Returns the mentions for each cue; None without mentions."""
        return self._last.of(lambda: self._follow(cues), cues)

    def _follow(self, cues: Cues) -> list[Mentioned | None]:
        mentioning = self._corpus.mentioning()
        if mentioning is None:
            return [None] * len(cues)
        corpus = self._corpus
        found: list[Mentioned | None] = []
        has_text = cues.texts is not None and any(cues.texts)
        near = corpus.nearest(cues.vectors, BEST, cues.allowed) if has_text else []
        for at, row in enumerate(cues.rows.tolist()):
            text = cues.texts[at] if cues.texts is not None else None
            if row >= 0:
                found.append(mentioning.from_memory(cues.vectors[at], int(corpus.rows[row]), cues.allowed))
            elif text:
                by_words = corpus.lexicon.scores(list(cues.words[at]))
                best = union(corpus.rows[near[at]], best_of(by_words, BEST, cues.allowed))
                found.append(mentioning.from_question(cues.vectors[at], text, by_words, best, cues.allowed))
            else:
                found.append(None)
        return found


class Times:
    """Memories of the time that a question names, and memories whose text names it.

    Args:
        corpus: the memories.
    """

    name, features = TIMES, (TIMES,)

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._last = LastAnswer[list[TimeEvidence | None]]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        scores = np.zeros((len(pools), 1), np.float32)
        for at, time_evidence in enumerate(self._evidence(cues)):
            if time_evidence is not None:
                mine = pools.of_cue(at)
                scores[mine, 0] = np.float32(PLAIN_UNIT) * time_evidence.at(self._corpus.rows[pools.row[mine]])
        return scores

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        found = []
        for at, time_evidence in enumerate(self._evidence(cues)):
            then = np.empty(0, np.int64)
            if time_evidence is not None:
                then = time_evidence.best(cues.allowed)
                near = self._corpus.nearest(cues.vectors[at][None], n, then)[0]
                by_words = self._corpus.positions(self._corpus.lexicon.best(list(cues.words[at]), n, then))
                then = union(near, by_words)
            found.append(then)
        return found

    def _evidence(self, cues: Cues) -> list[TimeEvidence | None]:
        return self._last.of(lambda: self._read_evidence(cues), cues)

    def _read_evidence(self, cues: Cues) -> list[TimeEvidence | None]:
        timeline = self._corpus.timeline
        if timeline is None or cues.texts is None:
            return [None] * len(cues)
        nows = cues.nows or [None] * len(cues)
        return [
            timeline.evidence(timeline.periods(text, now, cues.allowed), cues.allowed) if text else None
            for text, now in zip(cues.texts, nows, strict=True)
        ]
