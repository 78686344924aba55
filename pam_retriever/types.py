"""Arguments and results: Trajectory, Record, Hit, Evidence, FitReport."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from pam_retriever.display import ShownHits, ShownReport
from pam_retriever.errors import shortened
from pam_retriever.evaluation import Validation

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Times = Float64
Metadata = Mapping[str, object]
Array = npt.NDArray[np.generic]  # of any dtype
Time = float | date | datetime  # of your own unit, or seconds since 1970 for dates
Familiarity = Literal["none", "log", "difference"]
Direction = Literal["after", "before"]


@dataclass(frozen=True)
class Trajectory:
    """Memories in the order in which they were experienced: a session, a path, a document.

    Give either ``ids`` of memories that are in the index, or ``vectors`` of shape (T, dim),
    which are then added as new memories.

    Attributes:
        ids: T ids, in order. The same id may come more than once.
        vectors: (T, dim) float; new memories, in order.
        timestamps: T times that never fall, or None: datetimes or dates (UTC where they have no offset), or numbers
            of a unit of your own, the same in the whole index. ``recall(decay=...)`` and ``prune`` use them; a
            datetime counts in seconds. Memories without a time of their own have the date of their first step.
        salience: T finite numbers >= 0, how much each state counts in training; None for 1 each. Two
            states that met count the geometric mean of both, 0 where one is 0 (Dury 3.4).
        id: name of the trajectory. One that is there is replaced, or grows if this begins with the same steps. A new
            uuid4 if None.
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
        id: its name.
        ids: of the memories in it that are still there, in order.
        timestamps: of these, None where one has none; None where none has one. A datetime is seconds since 1970.
        length: how many positions it has, those of deleted memories between the others included.
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
        time: its time: a datetime with its offset, or a number if the times of the index are numbers; None without one.
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
    """One session in which cue and hit were experienced together, at one pair of positions.

    Attributes:
        trajectory: id of the trajectory.
        cue_id: the stored memory that the query was recognised as.
        cue_position: its position in the trajectory, from 0.
        hit_position: the position of the hit.
        offset: ``hit_position - cue_position``: positive if the hit came after the cue.
        hop: the step of the hit's path that this is evidence for, from 1. Above 1, "cue" above is the memory before
            it on the path.
    """

    trajectory: str
    cue_id: str
    cue_position: int
    hit_position: int
    offset: int
    hop: int = 1


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A time that speaks for a hit: named in the question, or in the text of the hit.

    Attributes:
        expression: the words.
        start: the first instant, UTC, and ``end`` the first after it; None for an open one.
        meaning: the days, such as "2023-07-01 to 2023-07-31".
        source: "question" or "text".
        said_at: when the memory was.
    """

    expression: str
    start: datetime | None
    end: datetime | None
    meaning: str
    source: Literal["question", "text"]
    said_at: datetime | None

    def __str__(self) -> str:
        said = "" if self.said_at is None else f", said on {self.said_at:%Y-%m-%d}"
        return f'"{self.expression}" -> {self.meaning}{said}'


@dataclass(frozen=True, slots=True)
class Mention:
    """A place in a text that names a memory, and so led to a hit.

    Attributes:
        source: name or id of the memory whose text this is; None for the question.
        name: the words of the text that name it.
        way: "asked" (the question names the hit), "names" or "second step" (the source names it), "named by" (it names
            the source), "shares" (both have these words).
        start: where they begin, in characters.
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
        score: hits are sorted by it, larger is closer. In mode "association" the share of the
            cue's experience that the memory takes, from 0 to 1; else the weighted mean of the channels.
        text: the stored text, or None.
        metadata: the stored metadata.
        similarity: cosine of query and memory.
        association: the score of the predictor alone: in mode "association" its share, else the weighted mean of
            the association channels, in [-1, 1]. None without association.
        hop: how many steps of association away the hit was found; 0 for plain similarity.
        evidence: sessions and positions at which the cue and the hit were experienced together, filled by
            ``explain=True``; for a hit of several hops, those of each step of its path. An empty tuple, or a step
            without an entry, means: predicted, not experienced. None without ``explain=True``.
        confidence: the probability, calibrated by ``fit``, that this was experienced with the cue; in
            mode "association", for a single hop.
        lexical: how well the words fit (BM25, neighbours' words counted in part), 1 for the best candidate;
            None where the query had no words.
        path: ids of the memories between cue and hit, in order; empty for a single hop, and for hops
            through the continuum.
        times: the times in the question that speak for it, and those in its text, filled by ``explain=True``.
        mentions: the texts that name it, or that it names, filled by ``explain=True`` where memories have names.
        sources: what each source of evidence adds, by name, filled by ``explain=True``: to the score, or with feedback
            to the log odds that the score follows from. None in modes that do not separate sources.
        others: other memories that came next, and how often, filled by ``recall_next(explain=True)``.
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

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        association = "" if self.association is None else f", association={self.association:.3f}"
        lexical = "" if self.lexical is None else f", lexical={self.lexical:.3f}"
        evidence = "" if self.evidence is None else f", evidence={list(self.evidence)!r}"
        path = f", path={self.path!r}" if self.path else ""
        times = f", times={[str(time) for time in self.times]}" if self.times else ""
        mentions = f", mentions={list(self.mentions)!r}" if self.mentions else ""
        return (
            f"Hit(id={self.id!r}, score={self.score:.3f}, text={shortened(self.text)}, "
            f"similarity={self.similarity:.3f}{association}{lexical}, hop={self.hop}{path}{evidence}{times}{mentions})"
        )


class Hits(ShownHits, Sequence[Hit]):
    """The hits of one query, best first: a sequence of ``Hit``; a slice of it is one, too."""

    __slots__ = ("_hits",)

    def __init__(self, hits: Iterable[Hit] = ()) -> None:
        self._hits = tuple(hits)

    @property
    def ids(self) -> list[str]:
        """The ids."""
        return [hit.id for hit in self._hits]

    @property
    def scores(self) -> Float32:
        """(n,) the scores."""
        return np.array([hit.score for hit in self._hits], np.float32)

    @property
    def texts(self) -> list[str | None]:
        """The texts."""
        return [hit.text for hit in self._hits]

    def to_dicts(self) -> list[dict[str, object]]:
        """A dict a hit, of its attributes; JSON can hold it."""
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
    """How recall weighs what it knows, for one kind of cue.

    Attributes:
        weights: of the channels, as log odds per unit of score.
        mixture: how much is said by the channels, by the links of look-alikes, by the links of what the
            channels name, and by looks alone; they add up to 1.
        calibration: slope and intercept of log share -> log odds that cue and memory met.
        appearance: of similarity and forward alone, the two channels that say something of a memory
            that was never experienced.
        background: what a memory scores that is not among the best, by ``weights`` and by ``appearance``: the
            logarithm of its mean odds.
    """

    weights: tuple[float, ...]
    mixture: tuple[float, float, float, float]
    calibration: tuple[float, float]
    appearance: tuple[float, float]
    background: tuple[float, float]


@dataclass(frozen=True)
class Calibration:
    """How recall weighs what it knows, as ``fit`` found it on cues of two kinds.

    Attributes:
        seen: for cues that training saw.
        unseen: for cues that were held out from it, and all others that it did not see.
        familiarity: the scale on which a link counts by how far it is above chance; as ``FitConfig``.
    """

    seen: ScoringWeights
    unseen: ScoringWeights
    familiarity: Familiarity = "none"


@dataclass(frozen=True)
class FitReport(ShownReport):
    """What a ``fit`` did.

    Attributes:
        losses: mean loss of each pass over the experience.
        steps: optimiser steps.
        seconds: wall-clock time of the training.
        device: where it ran, for example "cpu" or "cuda:0".
        precision: "float32" or "bfloat16".
        memories: how many memories the predictor was trained on.
        trajectories: how many trajectories.
        associations: directed associations within the window.
        coverage: share of those that training could draw, from 0 to 1.
        parameters: trainable parameters of the predictor.
        config: the configuration in full, the defaults that followed the data filled in.
        stopped_by: "passes" or "time_budget", whichever ended first.
        calibration: how recall weighs each channel, for cues that were seen and cues that were not.
        requests: how many past requests the weights of the evidence were fitted on.
        finished: when, UTC.
        validation: what each source of evidence, and the mixture, found for held-out requests and steps.
        next_steps: how many held-out steps the weights of ``recall_next`` were fitted on.
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
    config: dict[str, Any] = field(repr=False)
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
        used = f"\n{self.requests:,} requests" if self.requests else ""
        used += f"\n{self.validation!r}" if self.requests or self.validation.worths else ""
        first, last = (self.losses[0], self.losses[-1]) if self.losses else (np.nan, np.nan)
        return (
            f"FitReport({self.memories:,} memories, {self.trajectories:,} trajectories, "
            f"{self.associations:,} associations, coverage {self.coverage:.0%}: "
            f"loss {first:.3f} -> {last:.3f} in {len(self.losses)} passes, {self.steps:,} steps, "
            f"{self.seconds:.1f} s on {self.device} ({self.precision}), "
            f"{self.parameters:,} parameters, stopped by {self.stopped_by})"
        ) + used


def _plain(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in items}
