"""What goes in and what comes out: Trajectory, Record, Hit, Evidence, FitReport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Times = npt.NDArray[np.float64]
Metadata = Mapping[str, Any]
Familiarity = Literal["none", "log", "difference"]


@dataclass(frozen=True)
class Trajectory:
    """Memories in the order in which they were experienced: a session, a path, a document.

    Give either ``ids`` of memories that are in the index, or ``vectors`` of shape (T, dim),
    which are then added as new memories.

    Attributes:
        ids: T ids, in order. The same id may come more than once.
        vectors: (T, dim) float; new memories, in order.
        timestamps: T numbers that never fall, or None. The unit is the caller's, the same in the whole
            index. ``recall(decay=...)`` and ``prune`` use them.
        salience: T finite numbers >= 0, how much each state counts in training; None for 1 each. Two
            states that met count the geometric mean of both, 0 where one is 0 (pam.tex 3.4).
        id: name of the trajectory. One that is there already is replaced. A new uuid4 if None.
    """

    ids: Sequence[str] | None = None
    vectors: npt.ArrayLike | None = None
    timestamps: Sequence[float] | None = None
    salience: Sequence[float] | None = None
    id: str | None = None


@dataclass(frozen=True)
class Record:
    """A stored memory.

    Attributes:
        id: the user's id.
        vector: (dim,) float32, as it was added.
        text: the text, or None.
        metadata: what was stored with it.
    """

    id: str
    vector: Float32
    text: str | None
    metadata: dict[str, Any]

    def __repr__(self) -> str:
        return (
            f"Record(id={self.id!r}, text={_shorten(self.text)}, metadata={self.metadata!r}, "
            f"vector=<{len(self.vector)} floats>)"
        )


@dataclass(frozen=True)
class Evidence:
    """One occasion on which cue and hit were experienced together.

    Attributes:
        trajectory: id of the trajectory.
        cue_id: the stored memory that the query was recognised as.
        cue_position: its position in the trajectory, from 0.
        hit_position: the position of the hit.
        offset: ``hit_position - cue_position``: positive if the hit came after the cue.
        hop: which step of the hit's path this occasion proves, from 1. Above 1, "cue" above is the
            memory before it on the path.
    """

    trajectory: str
    cue_id: str
    cue_position: int
    hit_position: int
    offset: int
    hop: int = 1


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer to a query.

    Attributes:
        id: the user's id.
        score: what the hits are sorted by, larger is closer. In mode "association" the share of the
            cue's experience that the memory takes, from 0 to 1; else the weighted mean of the channels.
        text: the stored text, or None.
        metadata: the stored metadata.
        similarity: cosine of query and memory.
        association: what the predictor alone says: in mode "association" the share that it gives, else
            the weighted mean of the association channels, in [-1, 1]. None without association.
        hop: how many steps of association away the hit was found; 0 for plain similarity.
        evidence: the occasions on which the cue and the hit were experienced together, filled by
            ``explain=True``; for a hit of several hops, those of each step of its path. Empty, or a step
            without an occasion, then means: predicted, not experienced. None: not asked for.
        confidence: the probability, calibrated by ``fit``, that this was experienced with the cue; in
            mode "association", for a single hop.
        lexical: how well the words fit (BM25, neighbours' words counted in part), 1 for the best candidate;
            None where the query had no words.
        path: ids of the memories between cue and hit, in order; empty for a single hop, and for hops
            through the continuum.
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

    def __repr__(self) -> str:
        association = "" if self.association is None else f", association={self.association:.3f}"
        lexical = "" if self.lexical is None else f", lexical={self.lexical:.3f}"
        evidence = "" if self.evidence is None else f", evidence={list(self.evidence)!r}"
        path = f", path={self.path!r}" if self.path else ""
        return (
            f"Hit(id={self.id!r}, score={self.score:.3f}, text={_shorten(self.text)}, "
            f"similarity={self.similarity:.3f}{association}{lexical}, hop={self.hop}{path}{evidence})"
        )


@dataclass(frozen=True)
class Regime:
    """How recall weighs what it knows, for one kind of cue; see ``trust``.

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
class Trust:
    """How far recall trusts what it knows.

    Attributes:
        learnt: the channels, for cues that were learnt.
        unlearnt: the same, for cues that were not.
        familiarity: the scale on which a link counts by how far it is above chance; as ``FitConfig``.
    """

    learnt: Regime
    unlearnt: Regime
    familiarity: Familiarity = "none"


@dataclass(frozen=True)
class FitReport:
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
        trust: how far recall trusts each channel, for cues that were learnt and cues that were not.
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
    trust: Trust | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        first, last = (self.losses[0], self.losses[-1]) if self.losses else (np.nan, np.nan)
        return (
            f"FitReport({self.memories:,} memories, {self.trajectories:,} trajectories, "
            f"{self.associations:,} associations, coverage {self.coverage:.0%}: "
            f"loss {first:.3f} -> {last:.3f} in {len(self.losses)} passes, {self.steps:,} steps, "
            f"{self.seconds:.1f} s on {self.device} ({self.precision}), "
            f"{self.parameters:,} parameters, stopped by {self.stopped_by})"
        )


def _shorten(text: str | None, limit: int = 60) -> str:
    if text is None or len(text) <= limit:
        return repr(text)
    return repr(text[: limit - 1] + "…")
