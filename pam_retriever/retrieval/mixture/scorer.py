"""A scorer: recall by the mixture of all evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import union
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.model.noise import SAME
from pam_retriever.retrieval.candidates import Candidates, Tiers
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.first_mentions import MENTIONED
from pam_retriever.retrieval.linked import EXPERIENCE, Linked
from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS
from pam_retriever.retrieval.mixture.influence import OF_FIT
from pam_retriever.retrieval.mixture.learnt_requests import LearntRequests
from pam_retriever.retrieval.mixture.logit import ranked, softmax
from pam_retriever.retrieval.mixture.mixture import UNUSED, kinds, united
from pam_retriever.retrieval.mixture.pools import Cues as MixtureCues
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.retrieval.timeline import QuestionTimes
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Float32, Int64

LEAD = 0.01  # log odds between the last linked memory and the first other one, if these would rank in another order


class MixtureScorer:
    """Recall by the mixture. Scores are probabilities among the candidates; confidence is the probability of use.

    Args:
        view: a view of the index.
        feedback: past use.
        min_score: smallest probability.
        without: names of sources to leave out.
        times: the time that words such as "yesterday" are relative to; None for the clock.
        others: names of sources of other scorers, which ``without`` may contain.
        worded: whether the questions are in words.
    """

    def __init__(
        self,
        view: View,
        feedback: FeedbackEvidence,
        min_score: float | None = None,
        without: frozenset[str] = frozenset(),
        times: QuestionTimes | None = None,
        others: Sequence[str] = (),
        worded: bool = False,
    ) -> None:
        self._view, self._feedback_evidence, self._min_score = view, feedback, min_score
        self._now = None if times is None else times.now
        self._owners = feedback.evidence.owners
        check_without(without, tuple(dict.fromkeys((*self._owners, LearntRequests.name, *others))))
        self._mixture, self._names = feedback.mixture_for(worded), MENTIONED not in without
        self._left_out = np.array([owner in without for owner in self._owners])
        if UNUSED in without:
            self._mixture = replace(self._mixture, reserves=False)

    def score(self, cues: Cues, k: int | None, allowed: Rows | None, linked: Linked | None = None) -> list[Candidates]:
        """See ``Scorer``. The memories ``linked`` to a cue rank before all others."""
        corpus, evidence = self._feedback_evidence.corpus, self._feedback_evidence.evidence
        count = len(corpus) if allowed is None else len(allowed)
        k = count if k is None else k
        few = count <= FULL_BELOW  # then all memories are candidates
        tiers = Tiers(count if few else PROPOSALS, k, count, self._min_score)
        with self._feedback_evidence.turn:
            questions = replace(
                corpus.cues(cues.given, cues.texts, cues.own),
                direction=self._view.links.direction,
                texts=cues.texts,
                nows=[self._now] * len(cues),
                allowed=allowed,
            )
            own = cues.own if cues.texts is not None else self.recognised(cues)
            for n in tiers.sizes():
                proposed = None if few else united([source.propose(questions, n) for source in evidence.sources])
                found = self._candidates(questions, own, allowed, n, linked, proposed)
                tiers.add(self._best_of(questions, found, n, k, linked))
        return [replace(one, association=one.scores) for one in tiers.best()]

    def recognised(self, cues: Cues) -> Int64:
        """Returns the row (Q,) of each cue that is a stored memory, or equals one; -1 for the others."""
        if np.all(cues.own >= 0):
            return cues.own
        own, corpus = cues.own.copy(), self._feedback_evidence.corpus
        with self._feedback_evidence.turn:
            # the same look-up as that of the candidates, so it is done once
            found = corpus.nearest(cues.given, PROPOSALS, cues.among)
        for at in np.flatnonzero(own < 0).tolist():
            nearest = corpus.rows[found[at][:1]]
            if len(nearest) and float(self._view.similar.keys(nearest)[0] @ cues.given[at]) >= SAME:
                own[at] = nearest[0]
        return own

    def used(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (R,) served a request; False for -1, and for one that only did not help."""
        at = self._feedback_evidence.corpus.positions(rows)
        known: Bools = (at >= 0) & np.append(self._feedback_evidence.log.served, False)[at]
        return known

    def used_with(self, rows: Int64, allowed: Rows | None) -> tuple[Links, Int64]:
        """Returns the shares (sum 1 each) of the memories that served the same requests as each of ``rows`` (R,).

        Also returns the number (R,) of these requests. Only ``allowed`` memories count; None for all.
        """
        corpus = self._feedback_evidence.corpus
        with self._feedback_evidence.turn:
            owner, request, other = self._feedback_evidence.log.used_with(corpus.positions(rows))
        other = corpus.rows[other]
        if allowed is not None:
            seen = holds(allowed, other)
            owner, request, other = owner[seen], request[seen], other[seen]
        requests = np.unique(np.stack([owner, request], axis=1), axis=0)[:, 0]
        share = (1 / np.bincount(owner, minlength=len(rows))[owner]).astype(np.float32)
        return (owner, other, share), np.bincount(requests, minlength=len(rows))

    def _best_of(
        self, questions: MixtureCues, found: list[Int64], n: int, k: int, linked: Linked | None
    ) -> list[Candidates]:
        """Returns at most ``k`` and ``n`` of the candidates ``found`` for each question, by their positions."""
        corpus, evidence, mixture = self._feedback_evidence.corpus, self._feedback_evidence.evidence, self._mixture
        if not all(len(some) for some in found):  # a pool must not be empty
            if len(questions) == 1:
                return [_nothing()]
            each = [(np.array([at]), None if linked is None else linked.only(at)) for at in range(len(questions))]
            return [
                one
                for some, (at, its_linked) in zip(found, each, strict=True)
                for one in self._best_of(questions.take(at), [some], n, k, its_linked)
            ]
        pools, kind = Pools.of(found, len(corpus)), kinds(questions, evidence.served)
        features = evidence.score(questions, pools)
        if self._left_out.any():  # also from what recall without feedback says of never-used memories
            features = np.where(self._left_out, np.float32(0), features)
        influence = evidence.influence(questions, mixture.reach)
        scores = mixture.score(features, pools, kind, influence)
        lead = self._lead(scores, pools, linked)
        scores = scores + lead
        order, rank = ranked(scores, pools.cue, pools.starts)
        first = rank <= min(k, n)
        order, rank = order[first], rank[first]
        share, cue = softmax(scores, pools.starts)[order], pools.cue[order]
        weighed = features[order] * mixture.weights_of(kind, influence)[cue]
        contributions = self._contributions(weighed, scores[order] - weighed.sum(axis=1), lead[order])
        confidence = mixture.confidence(share, rank, kind[cue], influence[cue, OF_FIT])
        return self._answers(questions, cue, corpus.rows[pools.row[order]], share, confidence, contributions)

    def _answers(
        self,
        questions: MixtureCues,
        cue: Int64,
        rows: Int64,
        share: Float32,
        confidence: Float32,
        contributions: Contributions,
    ) -> list[Candidates]:
        """Returns the memories ``rows`` (n,), their scores, and what explains them, for each ``cue`` (n,), sorted."""
        similarity = np.einsum("pd,pd->p", questions.vectors[cue], self._view.similar.keys(rows))
        columns = rows, share, similarity, np.ones(len(rows), np.int64), confidence, contributions.values
        ends = np.searchsorted(cue, np.arange(len(questions) + 1)).tolist()
        split: list[list[Any]] = [[column[start:end] for start, end in pairwise(ends)] for column in columns]
        by_name = self._mentions(questions, split[0])
        return [
            Candidates(rows, score, alike, score, hops, sure, None, None, ways, replace(contributions, values=parts))
            for rows, score, alike, hops, sure, parts, ways in zip(*split, by_name, strict=True)
        ]

    def _lead(self, scores: Float32, pools: Pools, linked: Linked | None) -> Float32:
        """Returns the values (P,) to add to the scores of linked memories, so that these rank first."""
        if linked is None or not len(linked.cue):
            return np.zeros_like(scores)
        first = np.isin(pools.keys, linked.cue * pools.size + self._feedback_evidence.corpus.positions(linked.rows))
        lowest = np.minimum.reduceat(np.where(first, scores, np.float32(np.inf)), pools.starts)
        highest = np.maximum.reduceat(np.where(first, np.float32(-np.inf), scores), pools.starts)
        more = np.where(highest >= lowest, highest - lowest + np.float32(LEAD), np.float32(0))
        lead: Float32 = more[pools.cue] * first
        return lead

    def _contributions(self, weighed: Float32, added: Float32, lead: Float32) -> Contributions:
        """Returns the part of each source, from features (n, F), the sum that is added (n,), and its part for links."""
        evidence = self._feedback_evidence.evidence
        values: Float32 = weighed @ evidence.of_owner
        values[:, evidence.distinct_owners.index(UNUSED)] += added - lead
        names = (*evidence.distinct_owners, EXPERIENCE)
        return Contributions(names, np.concatenate([values, lead[:, None]], axis=1), log_odds=True)

    def _mentions(self, questions: MixtureCues, rows: Sequence[Int64]) -> list[Int64 | None]:
        """Returns the mentions (n, ways, 2) of the hits of each question; None without mentions."""
        if not self._names:
            return [None] * len(questions)
        found = self._feedback_evidence.mentions.found(questions)
        return [None if one is None else one.ways(hits) for one, hits in zip(found, rows, strict=True)]

    def _candidates(
        self,
        questions: MixtureCues,
        own: Int64,
        allowed: Rows | None,
        n: int,
        linked: Linked | None,
        proposed: list[Int64] | None,
    ) -> list[Int64]:
        """Returns the positions that a filter allows for each question, without the question itself.

        Args:
            questions: Q of them.
            own: (Q,) their rows if they are stored memories; -1 for others.
            allowed: sorted rows to choose from; None for all.
            n: number of candidates from words, if there is a filter.
            linked: memories that are candidates in any case.
            proposed: the candidates of the sources; None for all memories.
        """
        corpus = self._feedback_evidence.corpus
        inside = np.arange(len(corpus)) if allowed is None else corpus.positions(np.asarray(allowed))
        found = [inside] * len(own) if proposed is None else proposed
        if proposed is not None and allowed is not None:
            # words rank all memories: the best allowed one may be far down
            by_words = [corpus.positions(corpus.lexicon.best(list(words), n, allowed)) for words in questions.words]
            pairs = zip(proposed, by_words, strict=True)
            found = [union(np.intersect1d(some, inside), more) for some, more in pairs]
        if linked is not None and len(linked.cue):
            rows = [linked.only(at).rows for at in range(len(own))]
            rows = rows if allowed is None else [some[holds(allowed, some)] for some in rows]
            found = [union(some, corpus.positions(more)) for some, more in zip(found, rows, strict=True)]
        return [some[some != itself] for some, itself in zip(found, corpus.positions(own).tolist(), strict=True)]


def _nothing() -> Candidates:
    empty: Float32 = np.empty(0, np.float32)
    return Candidates(np.empty(0, np.int64), empty, empty, empty, np.empty(0, np.int64), empty)
