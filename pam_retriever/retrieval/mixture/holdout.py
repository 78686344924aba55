"""Held-out experience as questions: cues, candidates with features, and the used memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pam_retriever.retrieval.mixture.history import FirstUses, History
from pam_retriever.retrieval.mixture.logit import Choices, ranks
from pam_retriever.retrieval.mixture.mixture import Evidence, kinds
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses
from pam_retriever.store.feedback_fit import KINDS
from pam_retriever.types import Bools, Float32, Float64, Int64

PARTS, SHARE = 3, 0.2  # held-out parts, and the share of experience in each
QUESTIONS, STORED_CUES = 600, 200  # largest number per part
HIDDEN = 0.2  # share of the used memories that is hidden in a copy of every second question
FULL_BELOW = 512  # with more memories, the sources propose candidates
PROPOSALS = 50  # candidates per source
BATCH = 64  # questions whose features are in memory at once


EvidenceOf = Callable[[RequestLog], Evidence]


@dataclass(frozen=True)
class HeldOutQuestions:
    """Held-out questions of one kind, with the features of their candidates.

    Attributes:
        choices: the candidates; the pairs of a question are adjacent.
        row: (P,) the memory of each pair.
        reached: (P,) False for a used memory that no source proposed.
        uses: (Q,) number of used memories, with newcomers weighted as in ``FirstUses``.
        part: (Q,) the held-out part of each question.
        natural: (Q,) False for a copy in which memories are hidden.
        doubtful: (P,) mask of memories that may have been wanted although unused; see ``FirstUses``. None for none.
        influence: (Q, 3) how much the known requests count for each question before a fit; None if not known.
        newness: (P,) the feature "newness" of a hidden memory, if it had been added after the known requests; 0 for
            others. None for none.
    """

    choices: Choices
    row: Int64
    reached: Bools
    uses: Float64
    part: Int64
    natural: Bools
    doubtful: Bools | None = None
    influence: Float32 | None = None
    newness: Float32 | None = None

    def __len__(self) -> int:
        return len(self.part)

    def settled(self) -> HeldOutQuestions:
        """Returns the same questions without doubtful candidates; itself if there are none."""
        if self.doubtful is None or not self.doubtful.any():
            return self
        chosen = ~self.doubtful
        choices, row, reached = self.choices.only(chosen), self.row[chosen], self.reached[chosen]
        newness = None if self.newness is None else self.newness[chosen]
        return replace(self, choices=choices, row=row, reached=reached, doubtful=None, newness=newness)

    def only(self, features: Bools) -> HeldOutQuestions:
        """Returns the same questions with some of the features (F,)."""
        return replace(self, choices=replace(self.choices, features=self.choices.features[:, features]))

    def without_features(self) -> HeldOutQuestions:
        """Returns the same questions with no features: these are by far the most to copy."""
        return replace(self, choices=replace(self.choices, features=self.choices.features[:, :0]))

    def take(self, questions: Int64) -> HeldOutQuestions:
        """Returns the questions at these positions."""
        pairs = self.choices.pairs_of(questions)
        return HeldOutQuestions(
            self.choices.take(questions),
            self.row[pairs],
            self.reached[pairs],
            self.uses[questions],
            self.part[questions],
            self.natural[questions],
            None if self.doubtful is None else self.doubtful[pairs],
            None if self.influence is None else self.influence[questions],
            None if self.newness is None else self.newness[pairs],
        )


def parts(n: int, timed: bool, seed: int) -> Iterator[tuple[Int64, Int64]]:
    """Returns the known and the held-out requests for each part; the last part is the newest.

    With times, the requests before a part are known. Without times, parts are drawn at random, and the rest is known.
    """
    if timed:
        for part in range(PARTS):
            start, end = (round(n * (1 - SHARE * (PARTS - at))) for at in (part, part + 1))
            yield np.arange(start), np.arange(start, end)
        return
    order = np.random.default_rng(seed).permutation(n)
    size = round(n * SHARE)
    for part in range(PARTS):
        held = order[part * size : (part + 1) * size]
        yield np.setdiff1d(np.arange(n), held), np.sort(held)


def ask_held_out(history: History, evidence_of: EvidenceOf, seed: int) -> list[HeldOutQuestions | None]:
    """Returns the held-out questions of each kind; None if there are none."""
    random = np.random.default_rng(seed)
    questions: list[list[HeldOutQuestions]] = [[] for _ in KINDS]
    for part, (known, held) in enumerate(parts(len(history), history.timed, seed)):
        if not len(known) or not len(held):
            continue
        evidence = evidence_of(history.log(known))
        first_uses = FirstUses.of(history, evidence.used, held, random)
        for kind, found in ask_of(history, evidence, held, first_uses, random, part):
            questions[kind].append(found)
    return [join(found) if found else None for found in questions]


def ask_of(
    history: History,
    evidence: Evidence,
    held: Int64,
    first_uses: FirstUses,
    random: np.random.Generator,
    part: int = 0,
    most: int = QUESTIONS,
) -> Iterator[tuple[int, HeldOutQuestions]]:
    """Yields kinds and questions from at most ``most`` of the requests ``held``, with their features."""
    for kind, cues, wanted, existing, copies in _questions(history, evidence, held, random, most):
        found: list[HeldOutQuestions] = []
        copied: list[HeldOutQuestions] = []
        for start in range(0, len(cues), BATCH):
            at = np.arange(start, min(start + BATCH, len(cues)))
            there = None if existing is None else existing[at]
            batch = _Batch.of(evidence, cues.take(at), wanted.take(at), part, first_uses, there)
            found.append(batch.asked(evidence))
            if copies is not None:
                copied.append(batch.asked(evidence, copies.hidden, copies.chosen[at]))
        yield kind, join(found)
        if copied:
            yield kind, join(copied)


@dataclass(frozen=True)
class _Copies:
    """Copies of some questions, in which some memories are hidden.

    Attributes:
        chosen: (Q,) mask of the questions.
        hidden: (N,) mask of the memories.
    """

    chosen: Bools
    hidden: Bools


def _questions(
    history: History, evidence: Evidence, held: Int64, random: np.random.Generator, most: int
) -> Iterator[tuple[int, Cues, Uses, Int64 | None, _Copies | None]]:
    """Yields kind, cues, used memories, the number of memories at each, and copies; first requests that used any."""
    some = np.sort(random.permutation(held)[:most])
    some = some[np.diff(history.served.starts)[some] > 0]
    used = evidence.used
    if len(some):
        half = np.zeros(len(some), bool)
        half[random.permutation(len(some))[: (len(some) + 1) // 2]] = True
        copies = _Copies(half, used & (random.random(len(used)) < HIDDEN))
        existing = None if history.existing is None else history.existing[some]
        yield 0, history.cues(some), history.served.take(some), existing, copies
    cues, company = _stored_cues(history, held, random)
    if len(cues):
        kind = kinds(history.stored.take(cues), evidence.served)
        for at in (1, 2):
            mine = np.flatnonzero(kind == at)
            if len(mine):
                yield at, history.stored.take(cues[mine]), company.take(mine), None, None


def _stored_cues(history: History, held: Int64, random: np.random.Generator) -> tuple[Int64, Uses]:
    """Returns one memory of each of some held-out requests that used several, and the other memories."""
    served = history.served
    several = held[np.diff(served.starts)[held] > 1]
    cues, company = [], []
    for at in np.sort(random.permutation(several)[:STORED_CUES]).tolist():
        rows = served.rows[served.starts[at] : served.starts[at + 1]]
        cue = int(random.choice(rows))
        others = sorted(set(rows.tolist()) - {cue})
        if others:
            cues.append(cue)
            company.append(others)
    return np.array(cues, np.int64), Uses.of(company)


@dataclass(frozen=True)
class _Batch:
    """Questions of one kind with their candidates.

    Attributes:
        cues: the questions.
        pools: the candidates.
        reached: (P,) False for a used memory that no source proposed.
        target: (P,) the uses, divided among those of a question; first uses count less.
        uses: (Q,) the number of these.
        influence: (Q, 3) how much the known requests count for each question before a fit.
        part: the held-out part.
        first_uses: the memories whose first use is in this part.
        there: (P,) False for a memory that was added after the question.
    """

    cues: Cues
    pools: Pools
    reached: Bools
    target: Float32
    uses: Float64
    influence: Float32
    part: int
    first_uses: FirstUses
    there: Bools

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        cues: Cues,
        wanted: Uses,
        part: int,
        first_uses: FirstUses,
        existing: Int64 | None = None,
    ) -> _Batch:
        """Returns the candidates of questions that the memories ``wanted`` served.

        Args:
            evidence: the sources.
            cues: Q questions.
            wanted: the memories that served each.
            part: the held-out part.
            first_uses: the memories whose first use is in this part.
            existing: (Q,) the number of memories at each question; None for all.
        """
        question, row, weight = wanted.expand(np.arange(len(cues)))
        proposed = evidence.pools(cues, FULL_BELOW, PROPOSALS)
        pools, reached = proposed, np.ones(len(proposed), bool)
        if not proposed.is_full:
            lists = [
                np.concatenate([proposed.row[mine], row[question == at]]) for at, mine in enumerate(proposed.of_cues())
            ]
            pools = Pools.of(lists, len(evidence.used))
            reached = np.isin(pools.keys, proposed.keys)
        counts = np.where(first_uses.rows[row], first_uses.factor, 1.0)
        whole = np.bincount(question, weight, len(cues))
        target = pools.add_up(question, row, (weight * counts / whole[question]).astype(np.float32))
        uses = np.bincount(question, counts, len(cues)).astype(np.float64)
        there = np.ones(len(pools), bool)
        if existing is not None:  # not every number is stored, so what was just added may have been used
            there = (pools.row < existing[pools.cue]) | (target > 0)
        return cls(cues, pools, reached, target, uses, evidence.influence(cues), part, first_uses, there)

    def asked(self, evidence: Evidence, hidden: Bools | None = None, some: Bools | None = None) -> HeldOutQuestions:
        """Returns the questions with features; the sources keep what they say of the same cues.

        Args:
            evidence: the sources.
            hidden: (N,) mask of memories whose past use is hidden; None to hide none.
            some: (Q,) mask of the questions to return; None for all.
        """
        cues, pools, target, first_uses = self.cues, self.pools, self.target, self.first_uses
        features = evidence.score(cues, pools if hidden is None else replace(pools, hidden=hidden[pools.row]))
        absent = first_uses.rows[pools.row] & (target == 0)
        chosen = (pools.row != cues.rows[pools.cue]) & ~absent & self.there
        doubtful = first_uses.absent[pools.row] & (target == 0)
        share = np.bincount(pools.cue, target, len(cues)).astype(np.float32)
        target = (target / np.maximum(share, np.float32(1e-9))[pools.cue]).astype(np.float32)
        choices = Choices(features, pools.starts, target, share, np.zeros(len(pools), np.float32)).only(chosen)
        questions = HeldOutQuestions(
            choices,
            pools.row[chosen],
            self.reached[chosen],
            self.uses,
            np.full(len(cues), self.part),
            np.full(len(cues), hidden is None),
            doubtful[chosen],
            self.influence,
            None if hidden is None else hidden[pools.row[chosen]] * np.float32(evidence.newness),
        )
        wanted = share > 0
        return questions.take(np.flatnonzero(wanted if some is None else wanted & some))


def recall_at(scores: Float32, held_out: HeldOutQuestions, k: int) -> Float64:
    """Returns the share (Q,) of the used memories among the first ``k``, relative to the most that can be there."""
    found = (ranks(scores, held_out.choices.question, held_out.choices.starts) <= k) & held_out.reached
    share = np.bincount(held_out.choices.question, held_out.choices.target * found, len(held_out))
    recall: Float64 = np.minimum(share * held_out.uses / np.minimum(k, held_out.uses), 1.0)
    return recall


def ndcg_at(scores: Float32, held_out: HeldOutQuestions, k: int) -> Float64:
    """Returns the nDCG (Q,) of the first ``k``; the used memories of a question are equally relevant."""
    rank = ranks(scores, held_out.choices.question, held_out.choices.starts)
    found = (held_out.choices.target > 0) & held_out.reached & (rank <= k)
    gain = np.bincount(held_out.choices.question, found / np.log2(rank + 1), len(held_out))
    ideal = np.cumsum(1 / np.log2(np.arange(k) + 2))
    ndcg: Float64 = gain / ideal[np.minimum(held_out.uses, k).astype(np.int64) - 1]
    return ndcg


def join(found: Sequence[HeldOutQuestions]) -> HeldOutQuestions:
    """Joins the questions of several parts."""
    sizes = np.cumsum([0, *(len(one.row) for one in found[:-1])])
    choices = Choices(
        np.concatenate([one.choices.features for one in found]),
        np.concatenate([one.choices.starts + size for one, size in zip(found, sizes, strict=True)]),
        np.concatenate([one.choices.target for one in found]),
        np.concatenate([one.choices.weight for one in found]),
        np.concatenate([one.choices.offset for one in found]),
    )
    row, reached = np.concatenate([one.row for one in found]), np.concatenate([one.reached for one in found])
    uses, part = np.concatenate([one.uses for one in found]), np.concatenate([one.part for one in found])
    doubtful, newness = None, None
    if any(one.doubtful is not None for one in found):
        doubtful = np.concatenate([_none(one) if one.doubtful is None else one.doubtful for one in found])
    if any(one.newness is not None for one in found):
        newness = np.concatenate([_none(one) if one.newness is None else one.newness for one in found])
    natural = np.concatenate([one.natural for one in found])
    influences = [one.influence for one in found if one.influence is not None]
    influence = np.concatenate(influences) if len(influences) == len(found) else None
    return HeldOutQuestions(choices, row, reached, uses, part, natural, doubtful, influence, newness)


def _none(questions: HeldOutQuestions) -> Bools:
    return np.zeros(len(questions.row), bool)
