"""Evaluates an index on your own questions: recall, MRR and nDCG, with bootstrap intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pam_retriever.errors import InvalidInput, UnknownId, counted

if TYPE_CHECKING:
    from pam_retriever.types import Float32, Float64  # at run time this import would be a cycle

DRAWS, FEWER_DRAWS = 2000, 1000  # of the bootstrap; the fewer for the many results of a fit
DRAWN_AT_ONCE = 20_000  # questions in memory at once, over several draws
SHARE = 0.95
MIXTURE = "mixture"  # the source of a result of all sources together
T = TypeVar("T")
Answers = TypeVar("Answers", bound=Collection[Hashable])


class Found(Protocol):
    """A hit; only its id is read."""

    @property
    def id(self) -> str: ...


class Recalls(Protocol):
    """A retriever to evaluate: ``PredictiveAssociativeIndex``, or any object with ``recall``."""

    def recall(self, query: npt.ArrayLike | str, k: int) -> Sequence[Found]:
        """Returns the best ``k`` hits for one query."""
        ...


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class ReliabilityBin:
    """Hits of similar confidence: their mean confidence, and the share of them that was used.

    Attributes:
        confidence: mean predicted probability.
        frequency: share of the hits that was used.
        count: number of hits.
    """

    confidence: float
    frequency: float
    count: int


@dataclass(frozen=True)
class Worth:
    """The result of one source, or of the mixture, on held-out questions of one kind.

    Attributes:
        kind: "question", "seen cue" or "unseen cue" of past requests; "next, ..." of the steps of trajectories.
        source: the name of the source, or "mixture"; "mixture, new requests" on the questions that resemble no past
            request (cosine below .85), if others do.
        questions: number of questions.
        recall: R@10.
        calibration_error: the expected calibration error of the confidence, for the mixture.
        log_loss: the mean log loss of the confidence, for the mixture.
        reliability: the reliability diagram, for the mixture: bins of equal size, by rising confidence.
    """

    kind: str
    source: str
    questions: int
    recall: Interval
    calibration_error: float | None = None
    log_loss: float | None = None
    reliability: tuple[ReliabilityBin, ...] = ()


@dataclass(frozen=True)
class Validation:
    """The results of each source and of the mixture on questions that were not used to fit the weights.

    Attributes:
        worths: one result for each kind of question and source; empty if there was too little experience to hold out.
    """

    worths: tuple[Worth, ...] = ()

    def mixture(self, kind: str = "question") -> Worth | None:
        """Returns the row of the mixture for a kind of question."""
        return next((row for row in self.worths if row.kind == kind and row.source == MIXTURE), None)

    def to_dict(self) -> dict[str, object]:
        """Returns the rows as dicts."""
        return {"worths": [asdict(row) for row in self.worths]}

    def __repr__(self) -> str:
        if not self.worths:
            return "Validation(too little experience to hold out)"
        lines = []
        for kind in dict.fromkeys(row.kind for row in self.worths):
            rows = [row for row in self.worths if row.kind == kind]
            lines.append(f"{kind}, {rows[0].questions} held out: R@10")
            width = max(len(row.source) for row in rows)
            for row in sorted(rows, key=lambda row: row.recall.mean):
                count = "" if row.questions == rows[0].questions else f" of {counted(row.questions, 'question')}"
                lines.append(f"  {row.source:<{width}} {row.recall}{count}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Evaluation:
    """Ranking metrics over a set of questions.

    Attributes:
        metrics: the metrics by name, for example "recall@5", "mrr@20" and "ndcg@10".
        per_question: (Q,) the value of each question, by the same names, for paired comparisons of two methods.
    """

    metrics: Mapping[str, Interval]
    per_question: Mapping[str, Float64]

    def __getitem__(self, name: str) -> Interval:
        if name not in self.metrics:
            raise InvalidInput(f"Got the metric {name!r}.", f"one of {list(self.metrics)}", "Choose one of them.")
        return self.metrics[name]

    @property
    def questions(self) -> int:
        """The number of questions."""
        return len(next(iter(self.per_question.values())))

    def to_dict(self) -> dict[str, object]:
        """Returns numbers that JSON can hold."""
        rows = {name: {"mean": m.mean, "low": m.low, "high": m.high} for name, m in self.metrics.items()}
        return {"questions": self.questions, "metrics": rows}

    def __repr__(self) -> str:
        width = max(len(name) for name in self.metrics)
        rows = "\n".join(f"  {name:<{width}} {metric}" for name, metric in self.metrics.items())
        return f"Evaluation of {counted(self.questions, 'question')}, mean [95 % interval]\n{rows}"


def evaluate(
    index: Recalls,
    questions: Sequence[npt.ArrayLike | str],
    relevant: Sequence[Collection[str]],
    *,
    ks: Sequence[int] = (5, 10, 20),
    recall: Callable[[npt.ArrayLike | str, int], Sequence[Found]] | None = None,
    seed: int = 0,
) -> Evaluation:
    """Queries an index with every question, and compares its hits with the relevant ids.

    Args:
        index: has ``recall(query, k=...)``.
        questions: Q queries, each a vector or an id, as ``recall`` takes them.
        relevant: the relevant ids of each question; at least one each. An id that is not in the index counts as not
            found; a warning names such ids.
        ks: depths of the metrics, each at least 1.
        recall: returns the hits of one question, in place of ``index.recall``, for example
            ``lambda query, k: index.search(query, k=k)``.
        seed: the seed of the bootstrap.

    Returns:
        recall@k, mrr and ndcg at each depth. recall@k is the share of the relevant ids among the first k hits; of more
        than k relevant ids only k can be there, so that k of them count as all.

    Raises:
        InvalidInput: the lengths differ, a question has no relevant id, a depth is below 1, an argument is of a wrong
            kind, or the answer to a question is no list of hits.
        UnknownId: a question in words, without ``recall``.
    """
    if not callable(getattr(index, "recall", None) if recall is None else recall):
        raise InvalidInput(
            f"Got index={index!r} and recall={recall!r}.", "an index, or a function", "Pass recall=lambda query, k: ..."
        )
    questions, relevant, ks = _checked(questions, relevant, ks, seed)
    deepest = max(ks)
    ask = (lambda query, k: index.recall(query, k=k)) if recall is None else recall
    try:
        ranked = [_ids(ask(query, deepest), at) for at, query in enumerate(questions)]
    except UnknownId as error:
        if recall is not None:
            raise
        fix = "For questions in words pass recall=lambda text, k: index.recall(text=text, k=k)."
        raise UnknownId(error.got, "vectors, or ids in the index", fix) from error
    _check_kinds(ranked, relevant)
    _warn_of_unknown(index, ranked, relevant)
    return evaluate_rankings(ranked, relevant, ks=ks, seed=seed)


def _ids(hits: Sequence[Found], at: int) -> list[str]:
    """Returns the ids of the hits of question ``at``."""
    found = list(hits) if isinstance(hits, Iterable) else None
    ids: list[Any] = [] if found is None else [getattr(hit, "id", None) for hit in found]
    if found is None or not all(id is not None and isinstance(id, Hashable) for id in ids):
        raise InvalidInput(
            f"The answer to question {at} is {hits!r:.60}.",
            "a list of hits, each with an id",
            "Pass one query per question, and a recall= that returns such a list.",
        )
    return ids


def _check_kinds(ranked: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> None:
    """Refuses relevant ids that no hit can equal, for example numbers if the ids of hits are strings."""
    kinds = {type(id) for row in ranked for id in row}
    for at, right in enumerate(relevant):
        for id in right:
            if kinds == {str} and not isinstance(id, str):
                raise InvalidInput(
                    f"Question {at} has the relevant id {id!r} ({type(id).__name__}).",
                    "strings, as the ids of the hits",
                    "Use str(id).",
                )


def _warn_of_unknown(index: Recalls, ranked: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> None:
    """Warns of relevant ids that no hit has and that are not in the index: they may be misspelt."""
    if not (hasattr(index, "recall") and isinstance(index, Container)):
        return
    found = {id for row in ranked for id in row}
    unknown = [id for id in dict.fromkeys(id for right in relevant for id in right) if not (id in found or id in index)]
    if unknown:
        warnings.warn(
            f"Got {counted(len(unknown), 'relevant id')} that the index does not have: {unknown[:5]}. "
            "They count as not found. Check their spelling, and that their memories were added.",
            stacklevel=3,
        )


def evaluate_rankings(
    ranked: Sequence[Sequence[Hashable]],
    relevant: Sequence[Collection[Hashable]],
    *,
    ks: Sequence[int] = (5, 10, 20),
    seed: int = 0,
) -> Evaluation:
    """Returns the metrics of given rankings.

    Args:
        ranked: the ids found for each question, best first, without duplicates; there may be fewer than ``max(ks)``.
        relevant: the relevant ids of each question; at least one each.
        ks: depths of the metrics, each at least 1.
        seed: the seed of the bootstrap.

    Raises:
        InvalidInput: the lengths differ, a question has no relevant id, an id is ranked twice, or a depth is below 1.
    """
    ranked, relevant, ks = _checked(ranked, relevant, ks, seed)
    for at, row in enumerate(ranked):
        if len(set(row)) < len(row):
            raise InvalidInput(f"Ranking {at} has an id twice.", "distinct ids", "Keep the first of each.")
    deepest = min(max(ks), max(1, *map(len, ranked)))
    hits = np.zeros((len(ranked), deepest), bool)
    for at, (row, right) in enumerate(zip(ranked, relevant, strict=True)):
        hits[at, : len(row)] = [id in right for id in row[:deepest]]
    counts = np.array([len(set(right)) for right in relevant])
    values: dict[str, Float64] = {}
    for k in sorted(set(ks)):
        values[f"recall@{k}"] = hits[:, :k].sum(axis=1) / np.minimum(k, counts)
    for k in sorted(set(ks)):
        values[f"mrr@{k}"] = np.where(hits[:, :k].any(axis=1), 1 / (hits[:, :k].argmax(axis=1) + 1), 0.0)
    discount = 1 / np.log2(np.arange(2, max(deepest, counts.max()) + 2))
    for k in sorted(set(ks)):
        ideal = np.cumsum(discount)[np.minimum(k, counts) - 1]
        values[f"ndcg@{k}"] = (hits[:, :k] * discount[: min(k, deepest)]).sum(axis=1) / ideal
    return Evaluation({name: interval(value, seed) for name, value in values.items()}, values)


def interval(values: Float64, seed: int = 0) -> Interval:
    """Returns the mean of values (Q,) and its 95 % bootstrap interval over questions (Efron 1979)."""
    random = np.random.default_rng(seed)
    count = len(values)
    at_once = max(DRAWN_AT_ONCE // count, 1)
    sizes = [min(at_once, DRAWS - start) for start in range(0, DRAWS, at_once)]
    means = np.concatenate([values[random.integers(0, count, (size, count))].mean(axis=1) for size in sizes])
    low, high = np.quantile(means, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def mean_interval(
    values: Float64, seed: int = 0, weights: Float64 | Float32 | None = None, ordered: bool = False
) -> Interval:
    """Returns the (weighted) mean over questions and its 95 % bootstrap interval.

    Args:
        values: (Q,) the values of the questions.
        seed: the seed of the bootstrap.
        weights: (Q,) the weights of the questions.
        ordered: whether the questions are in the order of time. Neighbours in time are correlated, so the bootstrap
            draws runs (circular block bootstrap, Politis and Romano 1992).
    """
    random, n = np.random.default_rng(seed), len(values)
    weights = np.ones(n) if weights is None else weights
    run = math.isqrt(n) if ordered else 1
    first = random.integers(0, n, (FEWER_DRAWS, -(-n // run)))
    drawn = ((first[:, :, None] + np.arange(run)) % n).reshape(FEWER_DRAWS, -1)[:, :n]
    means = (values * weights)[drawn].sum(axis=1) / np.maximum(weights[drawn].sum(axis=1), 1e-9)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(np.average(values, weights=weights)), float(low), float(high))


def _checked(
    given_questions: Sequence[T], relevant: Sequence[Answers], ks: Sequence[int], seed: int
) -> tuple[list[T], list[Answers], list[int]]:
    """Checks all arguments; returns the questions or rankings, the relevant ids, and the depths as lists."""
    from pam_retriever.validation import check_count, check_seed, read_list  # which needs the types, which need this

    # each may be a generator
    questions, answers = read_list("questions", given_questions), read_list("relevant", relevant)
    check_seed(seed)
    if not questions or len(questions) != len(answers):
        raise InvalidInput(
            f"Got {counted(len(questions), 'question')} and {counted(len(answers), 'set')} of relevant ids.",
            "as many of both, at least one",
            "Give the relevant ids of each question.",
        )
    for at, right in enumerate(answers):
        if isinstance(right, str) or not isinstance(right, Collection):
            raise InvalidInput(f"Question {at} has {right!r} as relevant ids.", "a set of ids", "Put it in a list.")
        if not len(right):
            raise InvalidInput(f"Question {at} has no relevant ids.", "at least one id for each", "Leave it out.")
        if not all(isinstance(id, Hashable) for id in right):
            raise InvalidInput(f"Question {at} has {right!r} as relevant ids.", "ids", "Use the strings of the index.")
    depths = [check_count("ks", k) for k in read_list("ks", ks)]
    if not depths:
        raise InvalidInput("Got no ks.", "depths of at least 1", "Use, for example, ks=(5, 10).")
    return questions, answers, depths
