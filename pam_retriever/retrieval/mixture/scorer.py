"""A scorer: recall by the mixture of all evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.mentions.source import Mentioned
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.mentioned import BEST, Mentioning, added_by
from pam_retriever.retrieval.mixture import pools as asked
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS
from pam_retriever.retrieval.mixture.knowledge import Knowledge
from pam_retriever.retrieval.mixture.logit import softmax
from pam_retriever.retrieval.mixture.mixture import NEVER_USED, Evidence, kinds, rank_in_pool
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.mixture.sources import PLAIN_UNIT
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

# relative to recall without feedback; chosen on the first halves of three sets (benchmarks/real/documents.py)
MENTIONS = 2.0
MENTIONED, UNUSED = "mentions", "never used"  # sources besides those of the evidence


class MixtureScorer:
    """Recall by the mixture. Scores are probabilities among the candidates; confidence is the probability of use.

    Args:
        view: of the index.
        knowledge: past use.
        min_score: smallest probability.
        without: names of sources to leave out.
    """

    def __init__(
        self,
        view: View,
        knowledge: Knowledge,
        min_score: float | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._view, self._knowledge, self._min_score = view, knowledge, min_score
        self._owners = _owners(knowledge.evidence)
        self._without = check_without(without, (*dict.fromkeys(self._owners), MENTIONED))
        self._mixture = knowledge.mixture
        if without:
            counts = np.array([owner not in without for owner in self._owners])
            weights = np.where(counts, self._mixture.weights, np.float32(0))
            self._mixture = replace(self._mixture, weights=weights, room=UNUSED not in without)

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """See ``Scorer``."""
        with self._knowledge.turn:
            return self._score(cues, k, allowed)

    def _score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        bank, evidence, mixture = self._knowledge.bank, self._knowledge.evidence, self._mixture
        questions = replace(bank.cues(cues.looks, cues.texts, cues.own), direction=self._view.links.direction)
        found = self._candidates(questions, cues, allowed, max(PROPOSALS, k or 0))
        mentioned = self._mentioned(cues, allowed)
        found = [self._and(some, of_one) for some, of_one in zip(found, mentioned, strict=True)]
        if not all(len(some) for some in found):  # a pool must not be empty
            if len(cues) == 1:
                return [_nothing()]
            return [one for at in range(len(cues)) for one in self._score(cues.only(at), k, allowed)]
        pools = Pools.of(found, len(bank))
        kind = kinds(questions, evidence.used)
        features, added = evidence.score(questions, pools), self._by_mentions(mentioned, pools, kind)
        scores = mixture.score(features, pools, kind) + added
        share, rank = softmax(scores, pools.starts), rank_in_pool(scores, pools)
        confidence = mixture.confidence(share, rank, kind[pools.cue])
        order = np.lexsort((rank, pools.cue))
        if k is not None:
            order = order[rank[order] <= k]
        if self._min_score is not None:
            order = order[share[order] >= self._min_score]
        rows = bank.rows[pools.row[order]]
        similarity = np.einsum("pd,pd->p", cues.looks[pools.cue[order]], self._view.similar.keys(rows))
        cuts = np.searchsorted(pools.cue[order], np.arange(1, len(cues)))
        weighed = features[order] * mixture.weights[kind[pools.cue[order]]]
        room = scores[order] - added[order] - weighed.sum(axis=1)
        said = self._contributions(weighed, added[order], room)
        columns = rows, share[order], similarity, np.ones(len(order), np.int64), confidence[order], said.values
        return [
            Candidates(rows, score, likeness, score, hops, sure, sources=Contributions(said.names, parts))
            for rows, score, likeness, hops, sure, parts in zip(
                *(np.split(column, cuts) for column in columns), strict=True
            )
        ]

    def _contributions(self, weighed: Float32, mentioned: Float32, room: Float32) -> Contributions:
        """Returns the part of each source, from features (n, F), mentions (n,) and room for unused memories (n,)."""
        owners = np.array(self._owners)
        columns = {name: weighed[:, owners == name].sum(axis=1) for name in dict.fromkeys(self._owners)}
        columns[UNUSED] = columns[UNUSED] + room
        return Contributions.of({**columns, MENTIONED: mentioned})

    def _mentioned(self, cues: Cues, allowed: Rows | None) -> list[Mentioned | None]:
        """Returns the mentions of each question with a text; None without mentions."""
        mentioning = Mentioning.of(self._view, self._knowledge.bank.lexicon)
        if mentioning is None or cues.texts is None or MENTIONED in self._without:
            return [None] * len(cues)
        bank = self._knowledge.bank
        near = bank.nearest(cues.looks, BEST, allowed)
        return [
            mentioning.from_question(looks, text, bank.rows[at], allowed)
            for looks, text, at in zip(cues.looks, cues.texts, near, strict=True)
        ]

    def _and(self, candidates: Int64, mentioned: Mentioned | None) -> Int64:
        """Returns the positions of candidates and of mentioned memories."""
        if mentioned is None:
            return candidates
        return np.union1d(candidates, self._knowledge.bank.positions(mentioned.rows))

    def _by_mentions(self, mentioned: list[Mentioned | None], pools: Pools, kind: Int64) -> Float32:
        """Returns the scores (P,) from mentions, on the scale and with the weight of recall without feedback."""
        added = np.zeros(len(pools), np.float32)
        mixture = self._knowledge.mixture
        weights = PLAIN_UNIT * mixture.weights[:, mixture.features.index("plain")]
        for at, one in enumerate(mentioned):
            if one is not None:
                inside = pools.cue == at
                rows = self._knowledge.bank.rows[pools.row[inside]]
                added[inside] = MENTIONS * max(float(weights[kind[at]]), 0) * added_by(one, rows)[0]
        return added

    def _candidates(self, questions: asked.Cues, cues: Cues, allowed: Rows | None, n: int) -> list[Int64]:
        """Returns the positions that a filter allows for each cue, without the cue itself."""
        bank, evidence = self._knowledge.bank, self._knowledge.evidence
        if allowed is None:
            found = evidence.propose(questions, n) if len(bank) > FULL_BELOW else [np.arange(len(bank))] * len(cues)
        else:
            inside = bank.positions(np.asarray(allowed))
            if len(inside) <= FULL_BELOW:
                found = [inside] * len(cues)
            else:
                near, proposed = bank.nearest(cues.looks, n, allowed), evidence.propose(questions, n)
                found = [np.union1d(a, np.intersect1d(b, inside)) for a, b in zip(near, proposed, strict=True)]
        own = bank.positions(cues.own).tolist()
        return [some[some != itself] for some, itself in zip(found, own, strict=True)]


def _owners(evidence: Evidence) -> tuple[str, ...]:
    """Returns for each feature the name of its source."""
    named = {feature: source.name for source in evidence.sources for feature in source.features}
    return tuple(named.get(feature.removeprefix(f"{NEVER_USED}:"), UNUSED) for feature in evidence.features)


def _nothing() -> Candidates:
    empty: Float32 = np.empty(0, np.float32)
    return Candidates(np.empty(0, np.int64), empty, empty, empty, np.empty(0, np.int64), empty)
