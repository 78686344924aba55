"""Features of candidates for the next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import added_up, largest
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.retrieval.sequences import recency, transitions
from pam_retriever.retrieval.sequences.bilinear import Bilinear
from pam_retriever.retrieval.sequences.recency import Recency
from pam_retriever.retrieval.sequences.repeats import Repeats
from pam_retriever.retrieval.sequences.steps import LastSteps
from pam_retriever.retrieval.sequences.transitions import Found, Occurrences
from pam_retriever.types import Bools, Float32, Float64, Int64

FULL_BELOW = 512  # with more memories, the evidence proposes candidates
PROPOSED = 80  # number of candidates that each source proposes
ALIKE, ALIKE_WIDTH, LOOKED_UP = 12, 0.1, 48  # experienced memories that look like the newest step
UNSEEN = 0.1  # assumed number of occurrences of a memory that was never experienced
REPEATS_READ = 8  # last occurrences of a memory, of which any may have followed itself
FADING = 0.6  # factor per earlier step, in the mean of the last steps
STEPS_IN_MEAN = 3
THROUGH = 20  # memories from which the second step starts

CAME_WIDTH = 0.1  # width of the kernel around each memory that came next
HIDDEN = 0.2  # share of the memories that ``fit`` hides; with this share of unexperienced memories, ``coverage`` is 0
CONTENT = ("like_last", "like_steps", "like_change", "like_expected", "bilinear", "like_came")
# sources whose strongest memories are candidates; the other sources cover the same memories
PROPOSERS = (
    "order_1",
    "came_before",
    "aligned",
    "after_earlier",
    "around",
    "neighbours_after",
    "neighbours_before",
    "second_step",
    "alike",
)

SOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("first order", ("order_1", "came_next", "came_once", "came_share", "came_latest", "came_before", "order_1:late")),
    ("longer contexts", ("order_2", "order_3", "order_4")),
    ("earlier steps", ("aligned", "after_earlier", "later", "around", "ahead")),
    ("session neighbours", ("neighbours_after", "neighbours_before")),
    ("second step", ("second_step",)),
    ("look-alikes", ("alike",)),
    ("popularity", ("popular", "popular:late")),
    ("content", (*CONTENT, "like_steps:late")),
    ("repeats", Repeats.features),
    ("never experienced", ("never",)),
    ("sum of shares", ("blend",)),
)
FEATURES = tuple(feature for _, features in SOURCES for feature in features)
TIMES = ("came_latest", "came_before", "aligned", "after_earlier", "later", "around", "ahead")  # counts
WEIGHED = ("neighbours_after", "neighbours_before", "second_step", "alike")  # weighted counts
# the shares that ``blend`` sums to one feature
SHARES = (
    "any",
    "popular",
    *recency.FEATURES,
    *(f"order_{order}" for order in range(1, transitions.ORDER + 1)),
    *TIMES,
    *WEIGHED,
    "like_last",
    "like_steps",
    "own",
)


@dataclass(frozen=True)
class QuestionEvidence:
    """Questions, with the evidence of their steps for all memories, before candidates are chosen.

    Attributes:
        steps: Q questions.
        found: the values of each source.
        vectors: (5, Q, d) the newest step, the mean of the last steps, the change between the last two, the mean of the
            memories that followed the newest step, and the output of the bilinear model for it.
        near: for each question the memories similar to the first and to the last of these vectors.
        came: the memories that directly followed the newest step, with shares.
    """

    steps: LastSteps
    found: dict[str, Found]
    vectors: Float32
    near: list[Int64]
    came: Found


class NextEvidence:
    """Evidence for the next step from one set of experience.

    Args:
        graph: the graph of the experience.
        similar: the vectors of the memories.
        few: sorted rows of all allowed memories, if there are few enough to make all candidates; else None.
        allowed: sorted rows of the memories that may be answers and evidence; None for all.
        history: (S,) the memories of the stored steps, the newest last; None for the last steps of the graph.
        bilinear: the bilinear model of earlier experience; None before a fit.

    Attributes:
        answers: number of memories that may be answers.
    """

    def __init__(
        self,
        graph: CooccurrenceGraph,
        similar: AnnIndex,
        few: Int64 | None = None,
        allowed: Rows | None = None,
        history: Int64 | None = None,
        bilinear: Bilinear | None = None,
    ) -> None:
        self._bilinear = bilinear
        self._graph, self._similar, self._few, self._allowed = graph, similar, few, allowed
        self._history = graph.newest(recency.RECENT) if history is None else history
        if allowed is not None:
            self._history = np.where(holds(allowed, self._history), self._history, -1)
        self._memories = max(len(similar), 1)
        self.answers = self._memories if allowed is None else len(allowed)

    def experienced(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` was experienced."""
        return self._graph.experienced(rows)

    def work(self, steps: LastSteps) -> Int64:
        """Returns the number (Q,) of occurrences that are read for each question."""
        often: Int64 = np.minimum(self._graph.counts(steps.rows), transitions.LATEST).sum(axis=1)
        return often

    def repeats(self) -> bool:
        """Whether any of the latest memories directly followed itself."""
        rows = np.unique(self._history[self._history >= 0])
        owner, at = self._graph.occurrences(rows, REPEATS_READ)
        return bool((self._graph.beside(at, 1)[:, 0] == rows[owner]).any())

    @staticmethod
    def repeated(questions: QuestionEvidence) -> Bools:
        """Returns whether the newest step of each question (Q,) is known to have followed itself."""
        query, row, _ = questions.found["order_1"]
        repeated = np.zeros(len(questions.steps), bool)
        repeated[query[row == questions.steps.rows[query, 0]]] = True
        return repeated

    @staticmethod
    def followers(questions: QuestionEvidence) -> list[Found]:
        """Returns the memories that followed the last step, the last two, three and four, with counts."""
        return [questions.found[f"order_{order}"] for order in range(1, transitions.ORDER + 1)]

    @property
    def coverage(self) -> float:
        """The value, at most 0, to add to the score of a memory that was never experienced.

        If few memories were never experienced, they are unlikely to come next. If many were not, all of them together
        have the probability of the fifth that ``fit`` hides, whatever their number.
        """
        never = 1 - min(self._graph.memories / self._memories, 1.0)
        odds = max(never / max(1 - never, 1e-9), 1e-3) / (HIDDEN / (1 - HIDDEN))
        return float(min(2 * np.log(odds), -np.log(odds)))

    def ask(self, steps: LastSteps) -> QuestionEvidence:
        """Computes the evidence of the steps of questions."""
        graph, count, allowed = self._graph, len(steps), self._allowed
        seen = Occurrences.of(graph, steps.rows, allowed)
        context = seen.context()
        newest = seen.back == 0
        found = {f"order_{n}": seen.count(context >= n, seen.after()) for n in range(1, transitions.ORDER + 1)}
        found["came_before"] = seen.count(newest, seen.before())
        found["came_latest"] = _latest(seen)
        found["aligned"] = _sum([seen.count(seen.back == n, seen.after(n + 1)) for n in range(1, transitions.REACH)])
        earlier = [_weighed(seen.count(seen.back == n, seen.after()), transitions.AGED**n) for n in range(1, 10)]
        found["after_earlier"] = _sum(earlier)
        found["later"] = _sum([seen.count(newest, seen.after(n)) for n in range(2, transitions.REACH + 1)])
        every = np.ones(len(seen.at), bool)
        found["around"] = _sum(
            [seen.count(every, seen.after(n)) for n in range(1, transitions.REACH + 1)]
            + [seen.count(every, seen.before(n)) for n in range(1, transitions.REACH + 1)]
        )
        found["ahead"] = seen.ahead(graph, allowed)
        found["neighbours_after"], found["neighbours_before"] = transitions.session_neighbours(graph, seen, count)
        first = transitions.strongest(transitions.shares(found["order_1"], count), THROUGH)
        found["second_step"] = transitions.onward(graph, first, allowed)
        vectors = self._vectors(steps, first)
        near, cosine = self._look_up(vectors)
        found["alike"] = self._after_look_alikes(steps, near[0], cosine[0])
        return QuestionEvidence(
            steps, found, vectors, [np.concatenate(rows) for rows in zip(*near, strict=True)], first
        )

    def _vectors(self, steps: LastSteps, first: Found) -> Float32:
        last, before = steps.vectors[:, 0], steps.vectors[:, 1]
        weight = (FADING ** np.arange(STEPS_IN_MEAN)).astype(np.float32)
        mean = np.einsum("qld,l->qd", steps.vectors[:, :STEPS_IN_MEAN], weight)
        expected = np.zeros_like(last)
        query, row, share = first
        rows, position = np.unique(row, return_inverse=True)
        if len(rows):
            np.add.at(expected, query, share[:, None] * self._similar.keys(rows)[position])
        likely = np.zeros_like(last) if self._bilinear is None else self._bilinear.after(unit(mean))
        return np.stack([last, unit(mean), unit(last - before), unit(expected), likely])

    def _look_up(self, vectors: Float32) -> tuple[Int64, Float32]:
        """Returns rows and cosines (2, Q, n) of the memories most like the newest step, and like the expected one.

        The bilinear model says what is expected; before a fit, the memories that followed the newest step. Where
        neither says anything, the vector is zero. Every memory is equally like zero, and sorting them all takes
        seconds and gigabytes, so the newest step takes its place.
        """
        expected = vectors[3 if self._bilinear is None else 4]
        expected = np.where(expected.any(axis=1, keepdims=True), expected, vectors[0])
        questions = np.concatenate([vectors[0], expected])
        cosine, near = self._similar.search(questions, min(LOOKED_UP, self._memories), self._allowed)
        return near.reshape(2, -1, near.shape[1]), cosine.reshape(2, -1, near.shape[1])

    def _after_look_alikes(self, steps: LastSteps, near: Int64, cosine: Float32) -> Found:
        usable = self.experienced(near) & (near != steps.rows[:, :1])
        usable &= np.cumsum(usable, axis=1) <= ALIKE
        best = np.where(usable, cosine, -np.inf).max(axis=1, keepdims=True, initial=-1e30)
        mass = np.where(usable, np.exp(np.minimum(cosine - best, 0) / ALIKE_WIDTH), 0)
        mass /= np.maximum(mass.sum(axis=1, keepdims=True), 1e-9)
        query, position = np.nonzero(usable)
        return transitions.onward(
            self._graph,
            (query, near[query, position], mass[query, position].astype(np.float32)),
            self._allowed,
        )

    # ---- candidates

    def pools(self, questions: QuestionEvidence, more: Sequence[Int64] | None = None) -> tuple[Pools, Bools]:
        """Returns candidates of each question, and which of them were proposed.

        Args:
            questions: Q questions.
            more: Q lists of further candidates, which count as not proposed.
        """
        count = len(questions.steps)
        if self._few is not None:
            size = int(self._few.max(initial=0)) + 1
            return Pools.of([self._few] * count, size), np.ones(count * len(self._few), bool)
        proposals = [
            transitions.first_of(found, count, PROPOSED) for found in map(questions.found.__getitem__, PROPOSERS)
        ]
        everywhere, lists = self._everywhere(), []
        for at, of_one in enumerate(zip(*proposals, strict=True)):
            rows = np.concatenate([*of_one, questions.near[at], everywhere, questions.steps.rows[at]])
            lists.append(rows[rows >= 0] if self._allowed is None else rows[holds(self._allowed, rows)])
        added = np.concatenate(more) if more else np.empty(0, np.int64)
        size = 1 + max(int(rows.max(initial=0)) for rows in (*lists, added))
        pools = Pools.of(lists, size)
        if more is None:
            return pools, np.ones(len(pools), bool)
        wider = Pools.of([np.concatenate(both) for both in zip(lists, more, strict=True)], size)
        return wider, np.isin(wider.keys, pools.keys)

    def _everywhere(self) -> Int64:
        """Returns the memories that were experienced most often, and last. Excluded memories take no place of these."""
        if self._allowed is None:
            return np.concatenate([self._graph.most_experienced(PROPOSED), self._graph.newest(PROPOSED)])
        rows = np.asarray(self._allowed)
        rows = rows[self.experienced(rows)]
        often = rows[largest(self._graph.counts(rows), min(PROPOSED, len(rows)))]
        return np.concatenate([often, self._history[self._history >= 0][-PROPOSED:]])

    def nearest(self, questions: QuestionEvidence, n: int) -> list[Int64]:
        """Returns for each question the ``n`` memories most like its newest step."""
        _, near = self._similar.search(questions.vectors[0], n, self._allowed)
        return [rows[rows >= 0] for rows in near]

    # ---- features

    def score(self, questions: QuestionEvidence, pools: Pools) -> Float32:
        """Returns (P, F - 1 + S): the features of each candidate except the last (``SOURCES``), and its ``SHARES``.

        ``blend`` computes the last feature from the shares. A share of 1 is the share by chance.
        """
        count, row = len(questions.steps), pools.row
        raw = {name: pools.add_up(*found).astype(np.float64) for name, found in questions.found.items()}
        totals = {name: transitions.total(found, count)[pools.cue] for name, found in questions.found.items()}
        times = self._graph.counts(row)
        popular = (times + np.float64(UNSEEN)) / (len(self._graph) + UNSEEN * self._memories)
        scale = self._memories
        columns: dict[str, Float64 | Float32] = {"popular": np.log(popular * scale)}
        shares = {"any": np.full(len(row), 1 / scale), "popular": popular}
        share = popular
        for order in range(1, transitions.ORDER + 1):  # each backed off by its kinds (Witten and Bell 1991)
            name = f"order_{order}"
            kinds = np.maximum(np.bincount(questions.found[name][0], minlength=count)[pools.cue], 1)
            longer = (raw[name] + kinds * share) / (totals[name] + kinds)
            columns[name] = np.log(longer * scale) if order == 1 else np.log(longer / share)
            shares[name] = share = longer
        columns["came_next"] = (raw["order_1"] > 0).astype(np.float64)
        columns["came_once"] = (raw["order_1"] == 1).astype(np.float64)
        columns["came_share"] = log_share(raw["order_1"] / np.maximum(totals["order_1"], 1))
        for name in TIMES:
            columns[name] = log_share(raw[name] / (totals[name] + 1))
        for name in WEIGHED:
            columns[name] = log_share(raw[name])
        columns |= self._content(questions, pools)
        late = np.log(np.maximum(questions.steps.lengths, 1))[pools.cue]
        for name in ("order_1", "popular", "like_steps"):
            columns[f"{name}:late"] = columns[name] * late
        columns |= Repeats(questions.steps).columns(pools)
        columns["never"] = (times == 0).astype(np.float64)
        shares |= {name: raw[name] / np.maximum(totals[name], 1e-9) for name in (*TIMES, *WEIGHED)}
        shares |= Recency(self._history, questions.steps).columns(pools)
        times_here = (questions.steps.rows[pools.cue] == pools.row[:, None]).sum(axis=1)
        shares["own"] = times_here / np.maximum((questions.steps.rows >= 0).sum(axis=1), 1)[pools.cue]
        stands_for = self._stands_for(questions, pools)
        for name in ("like_last", "like_steps"):  # a step is not a look-alike of itself
            alike = np.where(times_here > 0, -np.inf, columns[name] / CAME_WIDTH)
            shares[name] = _softmax(alike, pools, stands_for)
        both = [columns[name] for name in FEATURES[:-1]] + [shares[name] * scale for name in SHARES]
        return np.stack(both, axis=1).astype(np.float32)

    def likeness(self, questions: QuestionEvidence, pools: Pools) -> Float32:
        """Returns the cosine (P,) of each candidate and the newest step."""
        rows, position = np.unique(pools.row, return_inverse=True)
        cosine: Float32 = (questions.vectors[0] @ self._similar.keys(rows).T)[pools.cue, position]
        return cosine

    def _stands_for(self, questions: QuestionEvidence, pools: Pools) -> Float64:
        """Returns the number (P,) of memories for which each candidate stands in a sum over all.

        A candidate that was looked up by its content stands for itself. The others are a sample of all other memories.
        So the share of an answer that is unlike the steps does not depend on the number of candidates.
        """
        count = len(questions.steps)
        query, row = np.repeat(np.arange(count), [len(rows) for rows in questions.near]), np.concatenate(questions.near)
        found = row >= 0  # an approximate search may find fewer
        near = pools.add_up(query[found], row[found], np.ones(int(found.sum()), np.float32)) > 0
        others = np.add.reduceat(~near, pools.starts, dtype=np.int64)
        rest = self.answers - np.add.reduceat(near, pools.starts, dtype=np.int64)
        return np.where(near, 1.0, np.maximum(rest / np.maximum(others, 1), 1.0)[pools.cue])

    def _content(self, questions: QuestionEvidence, pools: Pools) -> dict[str, Float64]:
        rows, position = np.unique(pools.row, return_inverse=True)
        keys = self._similar.keys(rows)
        cosines = ((vectors @ keys.T)[pools.cue, position] for vectors in questions.vectors)
        found = {name: cosine.astype(np.float64) for name, cosine in zip(CONTENT, cosines, strict=False)}
        return found | {"like_came": _like_one_of(questions.came, self._similar, keys, pools, position)}


def _like_one_of(came: Found, similar: AnnIndex, keys: Float32, pools: Pools, position: Int64) -> Float64:
    """Returns the similarity (P,) of each candidate to the memories that came next, weighted by their shares."""
    query, row, share = came
    mass = np.zeros(len(pools))
    starts = np.searchsorted(query, np.arange(len(pools.starts) + 1))
    rows, at = np.unique(row, return_inverse=True)
    sources = similar.keys(rows) if len(rows) else np.empty((0, keys.shape[1]), np.float32)
    for one, pairs in enumerate(pools.of_cues()):
        mine = slice(starts[one], starts[one + 1])
        cosine = keys[position[pairs]] @ sources[at[mine]].T
        mass[pairs] = np.exp((cosine - 1) / CAME_WIDTH) @ share[mine]
    return np.log1p(1_000 * mass) / 10


def _softmax(scores: Float64, pools: Pools, stands_for: Float64) -> Float64:
    """Returns the share (P,) of each candidate, which stands for this many (P,); 0 if all scores are -inf."""
    best = np.maximum.reduceat(scores, pools.starts)[pools.cue]
    odds = np.exp(scores - np.where(np.isfinite(best), best, 0))
    share: Float64 = odds / np.maximum(np.add.reduceat(odds * stands_for, pools.starts), 1e-9)[pools.cue]
    return share


def _latest(seen: Occurrences) -> Found:
    """Returns the memories that followed the newest step, with more weight on recent occurrences."""
    there = (seen.back == 0) & (seen.after() >= 0)
    query = seen.query[there]
    age = np.searchsorted(query, query, side="right") - np.arange(len(query)) - 1
    return added_up(query, seen.after()[there], 0.5 ** (age / 2))


def _sum(found: list[Found]) -> Found:
    """Returns the sum of several values."""
    query, row, value = (np.concatenate(column) for column in zip(*found, strict=True))
    return added_up(query, row, value)


def _weighed(found: Found, weight: float) -> Found:
    return found[0], found[1], (weight * found[2]).astype(np.float32)
