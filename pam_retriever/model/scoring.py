"""What turns channels and links into scores: shared by the training, which fits the weights, and by recall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

import numpy as np

from pam_retriever.model.keys import CHANNELS, Channels
from pam_retriever.types import Calibration, Familiarity, Float32, ScoringWeights

BEST = 64  # how many memories' odds are added up; what is beyond them counts by the background
NEIGHBOURS = 64  # how many memories that look like a query are looked up, once for all that asks for them
LOOK_ALIKES, LOOK_ALIKE_TEMPERATURE = 16, 0.05  # so many of those that were experienced pass their links on
NAMED, SHARPENED = 16, 4  # so many of the memories that the channels name pass theirs on, by probability ** 4

# where nothing could be held out of the training to find out: small data, and the published recipe
UNTESTED = ScoringWeights((8.0, 12.0, 4.0, 0.0, 0.0), (0.4, 0.3, 0.2, 0.1), (1.0, 2.0), (8.0, 12.0), (0.0, 0.0))

PARTS = ("weights", "mixture", "calibration", "appearance", "background")


def channels_of(regime: ScoringWeights) -> Channels:
    """Its weights by name."""
    return Channels(**dict(zip(CHANNELS, regime.weights, strict=True)))


def confidence(regime: ScoringWeights, share: Float32) -> Float32:
    """The probability that cue and memory were experienced together, given the share that the memory takes."""
    slope, intercept = regime.calibration
    odds = np.clip(slope * np.log(share + 1e-12) + intercept, -50, 50)
    certain: Float32 = (1 / (1 + np.exp(-odds))).astype(np.float32)
    return certain


def look_alike_mass(cosine: Float32, counts: Float32) -> Float32:
    """How much each of the memories that look like a cue counts, up to a factor for each cue.

    Args:
        cosine: (Q, n) of cues and memories.
        counts: (Q, n) how many memories of the bank each stands for; 0 for none, such as the cue itself.
    """
    best = np.where(counts > 0, cosine, -np.inf).max(axis=1, keepdims=True, initial=-1e30)
    mass: Float32 = np.where(counts > 0, counts * np.exp(np.minimum(cosine - best, 0) / LOOK_ALIKE_TEMPERATURE), 0)
    return mass.astype(np.float32)


def first(counts: Float32, most: int) -> Float32:
    """The ``counts`` (Q, n) of memories, best first, cut so that those of each cue add up to ``most`` at most."""
    before = np.cumsum(counts, axis=1) - counts
    cut: Float32 = np.clip(most - before, 0, counts)
    return cut


def sharpened(share: Float32) -> Float32:
    """How much each of the memories that the channels name counts, up to a factor for each cue."""
    mass: Float32 = share**SHARPENED
    return mass


STORED_AS = {"seen": "learnt", "unseen": "unlearnt"}  # format 1 calls them so


def read_calibration(stored: Mapping[str, Any] | None) -> Calibration | None:
    """What was stored with the index of how to weigh channels and links."""
    if stored is None:
        return None
    seen, unseen = (ScoringWeights(*(tuple(stored[name][part]) for part in PARTS)) for name in STORED_AS.values())
    if stored["familiarity"] not in get_args(Familiarity):
        raise ValueError(f"familiarity {stored['familiarity']!r}")
    return Calibration(seen, unseen, stored["familiarity"])


def to_stored(calibration: Calibration | None) -> dict[str, Any] | None:
    """What ``read_calibration`` reads, for JSON."""
    if calibration is None:
        return None
    return {STORED_AS.get(name, name): value for name, value in asdict(calibration).items()}
