"""Scores from channels and links, shared by training, which fits the weights, and recall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from pam_retriever.model.keys import CHANNELS, Channels
from pam_retriever.model.noise import unpack
from pam_retriever.types import Calibration, Familiarity, Float32, ScoringWeights

BEST = 64  # memories whose odds are added; the background estimates the rest
NEIGHBOURS = 64  # memories that are similar to a query: one look-up serves all sources that need them
LOOK_ALIKES, LOOK_ALIKE_TEMPERATURE = 16, 0.05  # experienced memories that look like the cue, and pass on their links
NAMED, SHARPENED = 16, 4  # memories that the channels find, and that pass on their links, weighted by probability ** 4

SMALLEST = 1e-12  # added to a share before its logarithm

# defaults when no cues were held out of the training: small data (with another mixture), and the published recipe
UNTESTED = ScoringWeights((8.0, 12.0, 4.0, 0.0, 0.0), (0.4, 0.3, 0.2, 0.1), (1.0, 2.0), (8.0, 12.0), (0.0, 0.0))


def fitted(weights: ScoringWeights) -> bool:
    """Returns whether the channel weights were fitted on held-out cues, and are not the defaults."""
    return weights.weights != UNTESTED.weights


PARTS = ("weights", "mixture", "calibration", "appearance", "background")


@lru_cache(maxsize=64)  # every query needs the weights of its index
def channels_of(regime: ScoringWeights) -> Channels:
    """Returns the channel weights of a calibration as ``Channels``."""
    return Channels(**dict(zip(CHANNELS, regime.weights, strict=True)))


def confidence(regime: ScoringWeights, share: Float32, lead: Float32) -> Float32:
    """Returns the probability (E,) that cue and memory were experienced together.

    Args:
        regime: the weights.
        share: (E,) share of the memory in the score.
        lead: (E,) the log odds of the best memory for the same cue by the channels, minus the log odds of the 64th
            memory. The lead is large for a cue that others predict, and small for a cue that the predictor never saw.
            The same share is stronger evidence with a large lead.
    """
    slope, intercept, steeper, higher = (*regime.calibration, 0.0, 0.0)[:4]  # the last two were not always fitted
    odds = np.maximum(slope + steeper * lead, 0) * np.log(share + SMALLEST) + intercept + higher * lead
    odds = np.clip(odds, -50, 50)
    certain: Float32 = (1 / (1 + np.exp(-odds))).astype(np.float32)
    return certain


def look_alike_mass(cosine: Float32, counts: Float32) -> Float32:
    """Returns the weight of each memory that looks like a cue, up to a factor per cue.

    Args:
        cosine: (Q, n) the cosine of cues and memories.
        counts: (Q, n) number of memories that each represents; 0 for none, for example for the cue itself.
    """
    best = np.where(counts > 0, cosine, -np.inf).max(axis=1, keepdims=True, initial=-1e30)
    mass: Float32 = np.where(counts > 0, counts * np.exp(np.minimum(cosine - best, 0) / LOOK_ALIKE_TEMPERATURE), 0)
    return mass.astype(np.float32)


def first(counts: Float32, most: int) -> Float32:
    """Cuts the ``counts`` (Q, n) of memories, best first, so that the sum for each cue is at most ``most``."""
    before = np.cumsum(counts, axis=1) - counts
    cut: Float32 = np.clip(most - before, 0, counts)
    return cut


def sharpened(share: Float32) -> Float32:
    """Returns the weight of each memory that the channels find, up to a factor per cue."""
    mass: Float32 = share**SHARPENED
    return mass


STORED_AS = {"seen": "learnt", "unseen": "unlearnt"}  # the names in format 1


def read_calibration(stored: Mapping[str, Any] | None, dim: int) -> Calibration | None:
    """Reads the stored calibration of channels and links, of an index of dimension ``dim``.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is damaged.
    """
    if stored is None:
        return None
    seen, unseen = (ScoringWeights(*(tuple(stored[name][part]) for part in PARTS)) for name in STORED_AS.values())
    if stored["familiarity"] not in get_args(Familiarity):
        raise ValueError(f"familiarity {stored['familiarity']!r}")
    novelty = float(stored.get("novelty", 0.0))
    if not 0 <= novelty <= 1:
        raise ValueError(f"novelty {novelty!r}")
    directions = stored.get("directions")  # not always measured
    if directions is not None:
        unpack(directions, dim)
    second_step = float(stored.get("second_step", 0.0))
    if not 0 <= second_step <= 1:
        raise ValueError(f"second_step {second_step!r}")
    return Calibration(seen, unseen, stored["familiarity"], novelty, directions, second_step)


def to_stored(calibration: Calibration | None) -> dict[str, Any] | None:
    """Returns the form that ``read_calibration`` reads, for JSON."""
    if calibration is None:
        return None
    return {STORED_AS.get(name, name): value for name, value in asdict(calibration).items()}
