"""Arguments and results: Trajectory, Record, Hit, Evidence, FitReport."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from pam_retriever.display import ShownHits, ShownReport, report_text
from pam_retriever.errors import shortened
from pam_retriever.evaluation import Validation

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Times = Float64
Metadata = Mapping[str, object]
Array = npt.NDArray[np.generic]  # of any dtype
Time = float | date | datetime  # numbers in your own unit, or dates, which become seconds since 1970
Recipe = Literal["fast", "best", "paper"]
Familiarity = Literal["none", "log", "difference"]
Direction = Literal["after", "before"]


@dataclass(frozen=True)
class Trajectory:
    """Memories in the order in which they were experienced: a session, a path, a document.

    Give either ``ids`` of memories that are in the index, or ``vectors`` of shape (T, dim),
    which are then added as new memories.

    Attributes:
        ids: T ids, in order. An id may occur more than once.
        vectors: (T, dim) float; new memories, in order.
        timestamps: T times that never fall, or None: datetimes or dates (UTC without an offset), or numbers in your own
            unit, the same in the whole index. ``recall(decay=...)`` and ``prune`` use them; a datetime counts in
            seconds. A memory without a time gets the date of its first step, in UTC.
        salience: T finite numbers >= 0, the weight of each state in training; None for 1 each. The weight of a pair is
            the geometric mean of both (Dury 3.4).
        id: the id of the trajectory; None for a new uuid4. A stored trajectory with this id is replaced. If the new
            steps begin with the stored steps, only the later steps are added.
    """

    ids: Sequence[str] | None = None
    vectors: npt.ArrayLike | None = None
    timestamps: Sequence[Time] | None = None
    salience: Sequence[float] | None = None
    id: str | None = None


@dataclass(frozen=True)
class TrajectoryRecord:
    """A stored trajectory.

    Attributes:
        id: the id of the trajectory.
        ids: the ids of its memories that are still stored, in order.
        timestamps: the times of these steps, with None for no time; None if no step has one. A datetime is in seconds
            since 1970.
        length: number of positions, including the positions of deleted memories between others.
    """

    id: str
    ids: tuple[str, ...]
    timestamps: tuple[float | None, ...] | None
    length: int


@dataclass(frozen=True, eq=False)
class Record:
    """A stored memory.

    Attributes:
        id: the user's id.
        vector: (dim,) float32, as it was added.
        text: the text, or None.
        metadata: the stored metadata.
        time: a datetime with its offset, or a number if the times of the index are numbers; None without one.
    """

    id: str
    vector: Float32
    text: str | None
    metadata: dict[str, Any]
    time: datetime | float | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        same = (self.id, self.text, self.metadata, self.time) == (other.id, other.text, other.metadata, other.time)
        return same and np.array_equal(self.vector, other.vector)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return (
            f"Record(id={self.id!r}, text={shortened(self.text)}, metadata={self.metadata!r}, "
            f"vector=<{len(self.vector)} floats>)"
        )


@dataclass(frozen=True)
class Evidence:
    """Positions of cue and hit in one trajectory in which they were experienced together.

    Attributes:
        trajectory: id of the trajectory.
        cue_id: the stored memory that the query was recognised as.
        cue_position: the position of this memory in the trajectory, from 0.
        hit_position: the position of the hit.
        offset: ``hit_position - cue_position``: positive if the hit came after the cue.
        hop: the supported step of the hit's path, from 1. Above 1, the cue is the previous memory on the path.
    """

    trajectory: str
    cue_id: str
    cue_position: int
    hit_position: int
    offset: int
    hop: int = 1


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A time that supports a hit, and that the question or the text of the hit names.

    Attributes:
        expression: the words.
        start: the first instant, UTC, and ``end`` the first instant after the time; None without a bound.
        meaning: the days, for example "2023-07-01 to 2023-07-31".
        source: "question" or "text".
        said_at: the time of the memory.
    """

    expression: str
    start: datetime | None
    end: datetime | None
    meaning: str
    source: Literal["question", "text"]
    said_at: datetime | None

    def __str__(self) -> str:
        date = "" if self.said_at is None else f", said on {self.said_at:%Y-%m-%d}"
        return f'"{self.expression}" -> {self.meaning}{date}'


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text that led to a hit.

    Attributes:
        source: name or id of the memory with this text; None for the question.
        name: the words in the text.
        way: "asked" (the question names the hit), "names" or "second step" (the source names it), "named by" (it names
            the source), "shares" (both have these words).
        start: position of these words, in characters.
        source_id: the id of the source; None for the question.
    """

    source: str | None
    name: str
    way: str
    start: int
    source_id: str | None

    def __repr__(self) -> str:
        if self.way == "named by":
            return f'names "{self.source}"'
        verb = "shares" if self.way == "shares" else "names"
        return f'{"the question" if self.source is None else chr(34) + self.source + chr(34)} {verb} "{self.name}"'


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer to a query.

    Attributes:
        id: the user's id.
        score: hits are sorted by it, the largest first. In mode "association" the share of the memory in the
            associations of the cue, from 0 to 1; else the weighted mean of the channels.
        text: the stored text, or None.
        metadata: the stored metadata.
        similarity: cosine of query and memory.
        association: the score of the predictor alone: in mode "association" its share, else the weighted mean of
            the association channels, in [-1, 1]. None without association.
        hop: number of steps of association from the query; 0 for plain similarity.
        evidence: trajectories and positions at which cue and hit were experienced together, filled by ``explain=True``;
            with several hops, for each step of the path. An empty tuple, or a step without an entry, means that the hit
            was predicted, not experienced. At most 100 for a step, the nearest first. None without ``explain=True``.
        confidence: a probability, or None. After a ``fit`` on trajectories, in mode "association" with a single hop:
            that hit and cue were experienced together, or would be if one of them was never experienced. With feedback:
            that the hit serves the request. In ``recall_next``: that it comes next.
        lexical: the score by words (BM25, with part of the neighbours' words), at most 1; None for a
            query without words.
        path: ids of the memories between cue and hit, in order; empty for a single hop, and for hops
            through the continuum.
        times: the times in the question and in the hit's text that support the hit, filled by ``explain=True``.
        mentions: the names in texts that led to the hit, filled by ``explain=True`` if memories have names.
        sources: the part of each source, by name, the largest first, filled by ``explain=True``: in the score, or with
            feedback in the log odds, up to a constant of the question. None in modes that do not separate sources.
        others: of ``recall_next``: other memories after the newest step, with counts in its last 1,000 occurrences.
        more_evidence: number of entries that ``evidence`` leaves out.
    """

    id: str
    score: float
    text: str | None
    metadata: dict[str, Any]
    similarity: float
    association: float | None = None
    hop: int = 0
    evidence: tuple[Evidence, ...] | None = None
    confidence: float | None = None
    lexical: float | None = None
    path: tuple[str, ...] = ()
    times: tuple[NamedTime, ...] | None = None
    mentions: tuple[Mention, ...] | None = None
    sources: dict[str, float] | None = None
    others: tuple[tuple[str, int], ...] | None = None
    more_evidence: int = 0

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        association = "" if self.association is None else f", association={self.association:.3f}"
        more = f" and {self.more_evidence:,} more" if self.more_evidence else ""
        lexical = "" if self.lexical is None else f", lexical={self.lexical:.3f}"
        evidence = "" if self.evidence is None else f", evidence={list(self.evidence)!r}"
        path = f", path={self.path!r}" if self.path else ""
        times = f", times={[str(time) for time in self.times]}" if self.times else ""
        mentions = f", mentions={list(self.mentions)!r}" if self.mentions else ""
        parts = ", ".join(f"{name!r}: {part:.2f}" for name, part in (self.sources or {}).items())
        sources = f", sources={{{parts}}}" if parts else ""
        return (
            f"Hit(id={self.id!r}, score={self.score:.3f}, text={shortened(self.text)}, "
            f"similarity={self.similarity:.3f}{association}{lexical}, hop={self.hop}{path}{evidence}{more}{times}"
            f"{mentions}{sources})"
        )


class Hits(ShownHits, Sequence[Hit]):
    """The hits of one query, best first: a sequence of ``Hit``. A slice is ``Hits``, too."""

    __slots__ = ("_hits",)

    def __init__(self, hits: Iterable[Hit] = ()) -> None:
        self._hits = tuple(hits)

    @property
    def ids(self) -> list[str]:
        """The ids."""
        return [hit.id for hit in self._hits]

    @property
    def scores(self) -> Float32:
        """The scores (n,)."""
        return np.array([hit.score for hit in self._hits], np.float32)

    @property
    def texts(self) -> list[str | None]:
        """The texts."""
        return [hit.text for hit in self._hits]

    def to_dicts(self) -> list[dict[str, object]]:
        """Returns a dict per hit with its attributes; JSON can hold it."""
        return [asdict(hit, dict_factory=_plain) for hit in self._hits]

    @overload
    def __getitem__(self, at: int) -> Hit: ...

    @overload
    def __getitem__(self, at: slice) -> Hits: ...

    def __getitem__(self, at: int | slice) -> Hit | Hits:
        return Hits(self._hits[at]) if isinstance(at, slice) else self._hits[at]

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits)

    def __add__(self, other: Iterable[Hit]) -> Hits:
        return Hits((*self._hits, *other))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Hits | list | tuple):
            return self._hits == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._hits)

    def __repr__(self) -> str:
        lines = (f"  {hit.score:7.3f}  {hit.id!r}  {shortened(hit.text)}" for hit in self._hits)
        return "\n".join([f"Hits({len(self)})", *lines])


@dataclass(frozen=True)
class ScoringWeights:
    """The weights of the evidence in recall, for one kind of cue.

    Attributes:
        weights: the weights of the channels, as log odds per unit of score.
        mixture: weights of the channels, links of look-alikes, links of the channels' hits, and similarity; sum 1.
        calibration: slope and intercept of the log odds that cue and memory co-occurred, by the log share; then the
            change of each per unit of the lead of the best memory by the channels.
        appearance: weights of similarity and forward alone, the two channels of a memory that was never experienced.
        background: log of the mean odds of a memory that is not among the best, by ``weights`` and by ``appearance``.
    """

    weights: tuple[float, ...]
    mixture: tuple[float, float, float, float]
    calibration: tuple[float, ...]
    appearance: tuple[float, float]
    background: tuple[float, float]


@dataclass(frozen=True)
class Calibration:
    """The weights of the evidence in recall, as ``fit`` found them for two kinds of cues.

    Attributes:
        seen: the weights for cues that training saw.
        unseen: the weights for cues that training did not see, fitted on held-out cues.
        familiarity: the scale of a link's excess over chance; see ``FitConfig``.
        novelty: the share of the associates of a memory of new experience that are new, too (Good 1953).
        directions: in which memories differ, by which noise is recognised; see ``noise.pack``. None if not measured.
        second_step: the weight of links of links for a cue that was experienced often; see ``experience.second_step``.
    """

    seen: ScoringWeights
    unseen: ScoringWeights
    familiarity: Familiarity = "none"
    novelty: float = 0.0
    directions: str | None = field(default=None, repr=False)
    second_step: float = 0.0


@dataclass(frozen=True)
class FitReport(ShownReport):
    """The report of a ``fit``.

    Attributes:
        losses: mean loss of each pass over the experience.
        steps: optimiser steps.
        seconds: wall-clock time of the training.
        device: the device of the training, for example "cpu" or "cuda:0".
        precision: "float32" or "bfloat16".
        memories, trajectories: number of each in the training.
        associations: directed associations within the window.
        coverage: share of these that training could draw, from 0 to 1.
        parameters: trainable parameters of the predictor.
        config: the whole configuration, with the values chosen by the data.
        stopped_by: "passes" or "time_budget", whichever ended first.
        calibration: the weights of recall, for cues that training saw and for others.
        requests: number of past requests on which the weights of the evidence were fitted.
        finished: the time at which the fit ended, UTC.
        validation: the results of each source and of the mixture on held-out requests and steps.
        next_steps: number of held-out steps on which the weights of ``recall_next`` were fitted.
    """

    losses: tuple[float, ...]
    steps: int
    seconds: float
    device: str
    precision: str
    memories: int
    trajectories: int
    associations: int
    coverage: float
    parameters: int
    config: dict[str, object] = field(repr=False)
    stopped_by: str = "passes"
    calibration: Calibration | None = field(default=None, repr=False)
    requests: int = 0
    validation: Validation = field(default_factory=Validation)
    finished: datetime | None = None
    next_steps: int = 0

    @property
    def trust(self) -> Calibration | None:
        """The old name of ``calibration``."""
        warnings.warn("FitReport.trust is called calibration now.", DeprecationWarning, stacklevel=2)
        return self.calibration

    def __repr__(self) -> str:
        return report_text(self)


def _plain(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in items}
