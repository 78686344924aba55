"""Calibrates recall for unseen cues by cross-validation, if the experience is too little to hold cues out of a fit.

Each fold of the trajectories is treated as if it were new. Its memories that are in no other trajectory are the cues,
and the links of the other trajectories are the evidence. If hardly any memory is in one trajectory only, all memories
are cues; a cue's own links are never evidence for it. Links of look-alikes get the weight with the best nDCG@10, but
only if it is better than similarity alone by more than the standard error. So where experience says nothing about new
cues, they are answered as before the fit. The predictor learnt all trajectories, so its channels cannot be tested; they
get a fixed part of the weight of the links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.model.scoring import BEST, UNTESTED
from pam_retriever.training.calibration import (
    SAMPLE_MEMORIES,
    Memories,
    Sample,
    draw,
    fit_confidence,
    leading,
    strength_of,
)
from pam_retriever.types import Bools, Float32, Float64, ScoringWeights

FOLDS = 4
FEWEST = 8  # with fewer cues, similarity alone answers
WEIGHTS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)  # of links of look-alikes; similarity has the rest
LEAST = 0.001  # their weight if no other is better: they order what similarity does not find
PREDICTED = 0.1  # part of the weight of links that the channels get, and as much the links of predictions
DEPTH = 10  # of nDCG


def cross_validated(
    known: Memories, experience: Experience, window: int, random: np.random.Generator
) -> ScoringWeights:
    """Returns the weights of the evidence for unseen cues, and the confidence in their hits.

    Args:
        known: the memories, with all links.
        experience: the trajectories.
        window: tau.
        random: the generator for folds and samples.
    """
    samples = list(_folds(known, experience, window, random, new=True))
    if sum(len(sample.cues) for sample in samples) < FEWEST:
        samples = list(_folds(known, experience, window, random, new=False)) or samples
    if not samples:
        return _with_links(LEAST)
    weight = _best_weight(samples)
    hits = [_best(sample, weight, BEST) for sample in samples]
    shares, happened, counts = (np.concatenate(column) for column in zip(*hits, strict=True))
    lead = np.zeros(len(shares), np.float32)  # of the channels, which are not tested
    calibration = fit_confidence(shares, lead, happened, counts)
    return replace(_with_links(weight), calibration=calibration)


def _folds(
    known: Memories, experience: Experience, window: int, random: np.random.Generator, new: bool
) -> Iterator[Sample]:
    """Yields the candidates of the cues of each fold; with ``new`` the cues are in no trajectory of another fold."""
    memories = np.arange(len(known.vectors))
    for fold in np.array_split(random.permutation(np.unique(experience.trajectory)), FOLDS):
        inside = np.isin(experience.trajectory, fold)
        rest = _steps(experience, ~inside)
        found = known.links.only(associate(_steps(experience, inside), len(memories), window))
        cues = np.unique(experience.states[inside])
        cues = np.setdiff1d(cues, rest.states) if new else cues
        cues = cues[strength_of(found, cues) > 0]
        if len(cues) and (new or len(rest)):
            links = known.links.only(associate(rest, len(memories), window))
            evidence = replace(known, links=links, experienced=np.isin(memories, rest.states))
            targets = np.ones(len(memories), bool)
            yield draw(evidence, cues, targets, random, SAMPLE_MEMORIES, found)


def _steps(experience: Experience, mask: Bools) -> Experience:
    """Returns some steps, without their salience: only the pairs count here."""
    return Experience(experience.states[mask], experience.trajectory[mask], experience.position[mask])


def _with_links(weight: float) -> ScoringWeights:
    """Returns the untested weights, with the ``weight`` of links of look-alikes and of the channels."""
    channels, links = PREDICTED * weight, (1 - 2 * PREDICTED) * weight
    return replace(UNTESTED, mixture=(channels, links, channels, 1 - weight))


def _best_weight(samples: list[Sample]) -> float:
    """Returns the weight of links whose gain in nDCG over ``LEAST`` is largest, less its standard error."""
    least = np.concatenate([_ndcg(sample, LEAST) for sample in samples])
    if len(least) < FEWEST:
        return LEAST
    gains = [np.concatenate([_ndcg(sample, weight) for sample in samples]) - least for weight in WEIGHTS]
    best = best_gain(gains, errors=1)
    return LEAST if best is None else WEIGHTS[best]


def best_gain(gains: Sequence[Float32 | Float64], errors: float) -> int | None:
    """Returns the position of the best gain (Q,), less this number of standard errors; None if none is above 0."""
    bounds = [float(gain.mean() - errors * gain.std(ddof=1) / len(gain) ** 0.5) for gain in gains]
    best = int(np.argmax(bounds))
    return best if bounds[best] > 0 else None


def _ndcg(sample: Sample, weight: float) -> Float32:
    """Returns the nDCG (Q,) of each cue; relevant are the memories that it was experienced with."""
    _, happened, counts = _best(sample, weight, DEPTH)
    before = np.cumsum(counts, axis=1) - counts
    gain = np.where(happened & (counts > 0), 1 / np.log2(before + 2), 0).sum(axis=1)
    ideal = np.cumsum(1 / np.log2(np.arange(DEPTH) + 2))
    relevant = np.minimum((sample.label > 0).sum(axis=1), DEPTH)
    ndcg: Float32 = gain / ideal[relevant - 1]
    return ndcg


def _best(sample: Sample, weight: float, count: int) -> tuple[Float32, Bools, Float32]:
    """Returns shares, whether it was experienced with the cue, and what each represents, of the best (Q, count)."""
    mixed = weight * sample.alike + (1 - weight) * sample.similar
    best, counts = leading(np.where(sample.times > 0, mixed, -1), sample.times, count)  # the cue itself comes last
    shares = np.take_along_axis(mixed, best, axis=1)
    happened = np.take_along_axis(sample.label > 0, best, axis=1)
    missing = ((0, 0), (0, count - best.shape[1]))  # memories, in a small index
    return np.pad(shares, missing), np.pad(happened, missing), np.pad(counts, missing)
