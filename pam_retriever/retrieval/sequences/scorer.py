"""Next-step recall: from the last steps of trajectories to hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import plain_cues, read_filters
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.results import bounded, to_hits
from pam_retriever.retrieval.sequences.features import FULL_BELOW, NextEvidence, QuestionEvidence
from pam_retriever.retrieval.sequences.mixture import NextMixture
from pam_retriever.retrieval.sequences.steps import batches, read_steps
from pam_retriever.retrieval.sequences.transitions import strongest
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Float32, Hits, Int64

OTHERS = 5  # memories reported in ``Hit.others``
UNLIKELY = np.float32(-1e9)  # the score of a memory that is no answer


@dataclass(frozen=True)
class NextSettings:
    """The settings of ``recall_next``.

    Attributes:
        k: number of hits.
        where: metadata filter of hits and evidence.
        cue_where: metadata filter of the steps of the question; None for ``where``, {} for all.
        min_score: smallest score.
        explain: fill ``Hit.evidence`` and ``Hit.others``.
    """

    k: int
    where: Mapping[str, Any] | None = None
    cue_where: Mapping[str, Any] | None = None
    min_score: float | None = None
    explain: bool = False


def next_hits(
    view: View, mixture: NextMixture, trajectories: Sequence[Sequence[str | Float32]], settings: NextSettings
) -> list[Hits]:
    """Returns the hits for the next step of each trajectory.

    Args:
        view: a view of the index.
        mixture: the weights.
        trajectories: trajectories; see ``read_steps``.
        settings: the settings of the call.

    Raises:
        InvalidInput, UnknownId: a trajectory is invalid.
    """
    allowed, among = read_filters(view, settings.where, settings.cue_where)
    steps = read_steps(view, trajectories, among)
    if not len(view.similar) or (allowed is not None and not len(allowed)):
        return [Hits() for _ in trajectories]
    evidence = NextEvidence(view.links, view.similar, _few(view, allowed), allowed, bilinear=mixture.bilinear)
    hits: list[Hits] = []
    for batch in batches(evidence.work(steps) + min(settings.k, len(view.similar))):
        some = steps.take(batch)
        evidence_of_some = evidence.ask(some)
        found = _score(evidence, mixture, evidence_of_some, settings)
        of_some = to_hits(view, plain_cues(some.vectors[:, 0]), found, explain=False)
        hits += _explained(view, evidence_of_some, of_some) if settings.explain else of_some
    return hits


def _few(view: View, allowed: Rows | None) -> Int64 | None:
    """Returns all allowed memories, if there are few enough to make each a candidate; else None."""
    if allowed is not None:
        return np.asarray(allowed) if len(allowed) <= FULL_BELOW else None
    return view.database.memories.rows() if len(view.similar) <= FULL_BELOW else None


def _score(
    evidence: NextEvidence, mixture: NextMixture, evidence_of_some: QuestionEvidence, settings: NextSettings
) -> list[Candidates]:
    """Returns the best candidates of each question.

    If fewer than ``k`` are proposed, the memories most like the newest step follow them. They change no share of a
    proposed one, so the best hits are the same for every ``k``.
    """
    pools, _ = evidence.pools(evidence_of_some)
    found = _ranked(evidence, mixture, evidence_of_some, pools, np.ones(len(pools), bool))
    wanted = min(settings.k + 1, evidence.answers)  # one may be no answer
    if np.diff(pools.starts, append=len(pools)).min() < wanted:
        wider, proposed = evidence.pools(evidence_of_some, evidence.nearest(evidence_of_some, wanted))
        more = _ranked(evidence, mixture, evidence_of_some, wider, ~proposed)
        bounded = "scores", "association", "confidence"
        found = [one.followed_by(others, bounded) for one, others in zip(found, more, strict=True)]
    return [one.best(settings.k, settings.min_score) for one in found]


def _ranked(
    evidence: NextEvidence,
    mixture: NextMixture,
    evidence_of_some: QuestionEvidence,
    pools: Pools,
    chosen: Bools,
) -> list[Candidates]:
    """Returns the chosen pairs (P,) of each question that may be answers, best first."""
    known = evidence.experienced(evidence_of_some.steps.rows[:, 0])
    scores = mixture.score(evidence.score(evidence_of_some, pools), pools, known, evidence.coverage)
    closed = _no_answer(evidence, mixture, evidence_of_some, pools, known)
    scores = np.where(closed, UNLIKELY, scores)
    never = ~evidence.experienced(pools.row)
    share, confidence = mixture.confidence(scores, pools, known, evidence.followers(evidence_of_some), never)
    likeness = evidence.likeness(evidence_of_some, pools)
    order = np.lexsort((pools.row, -share, pools.cue))
    order = order[(chosen & ~closed)[order]]
    cuts = np.searchsorted(pools.cue[order], np.arange(1, len(evidence_of_some.steps)))
    columns = pools.row[order], share[order], likeness[order], np.ones(len(order), np.int64), confidence[order]
    return [
        Candidates(rows, score, similarity, score, hops, sure)
        for rows, score, similarity, hops, sure in zip(*(np.split(column, cuts) for column in columns), strict=True)
    ]


def _no_answer(
    evidence: NextEvidence, mixture: NextMixture, questions: QuestionEvidence, pools: Pools, known: Bools
) -> Bools:
    """Returns the pairs (P,) of the newest step with itself, where nothing says that a step repeats.

    ``fit`` learns how often a step repeats, if there are enough steps. Recency and content say that every step does.
    """
    rows = questions.steps.rows
    repeats = mixture.knows_repeats(known) | ((rows[:, 1] == rows[:, 0]) & (rows[:, 0] >= 0))
    repeats |= evidence.repeated(questions)
    closed: Bools = (pools.row == rows[pools.cue, 0]) & ~repeats[pools.cue]
    return np.zeros_like(closed) if closed.any() and evidence.repeats() else closed


def _explained(view: View, evidence_of_some: QuestionEvidence, hits: list[Hits]) -> list[Hits]:
    """Returns the hits with the occurrences at which they followed the newest step, and the other followers."""
    query, row, times = strongest(evidence_of_some.found["order_1"], OTHERS + 1)
    names = view.database.memories.contents(np.unique(row))
    explained = []
    for at, of_one in enumerate(hits):
        last = int(evidence_of_some.steps.rows[at, 0])
        rows = view.database.memories.rows_of(of_one.ids)
        evidence = view.database.trajectories.evidence(np.array([last]), 1, repeats=True) if last >= 0 else {}
        mine = np.flatnonzero(query == at)
        mine = mine[np.argsort(-times[mine], kind="stable")]
        came = [(names[row[one]][0], round(float(times[one]))) for one in mine.tolist()]
        proofs = [bounded([one for one in evidence.get(rows[hit.id], ()) if one.offset == 1]) for hit in of_one]
        explained.append(
            Hits(
                replace(
                    hit,
                    evidence=shown,
                    more_evidence=more,
                    others=tuple(one for one in came if one[0] != hit.id)[:OTHERS],
                )
                for hit, (shown, more) in zip(of_one, proofs, strict=True)
            )
        )
    return explained
