"""Calibrates recall: weights of channels and links, for cues that training saw and for held-out cues.

For both kinds of cues, the channels of a memory p give the probability that p was experienced with the cue,

    share(p | q) = softmax over all memories of  w . (similarity, forward, reverse, mutual)

with weights w of maximum likelihood for the associates of a sample of cues: a conditional logit (McFadden 1974), which
also determines the temperature. The episode embeddings are left out, because they repeat the exact links. For an unseen
cue, the exact links of other memories help: of memories that look like it, and of memories that the channels find.
Expectation maximisation finds the weight of each, as in deleted interpolation (Jelinek and Mercer 1980). The fit uses
the same functions as recall.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pam_retriever.experience.cooccurrence import Associations
from pam_retriever.experience.walk import LEAST, walk
from pam_retriever.model.keys import features, unit
from pam_retriever.model.scoring import (
    BEST,
    LOOK_ALIKES,
    NAMED,
    NEIGHBOURS,
    SMALLEST,
    UNTESTED,
    first,
    look_alike_mass,
    sharpened,
)
from pam_retriever.training.optimizers import LBFGS
from pam_retriever.types import Bools, Float32, Int64, ScoringWeights

SAMPLE_CUES, SAMPLE_MEMORIES = 200, 10_000
MOST_MEMORIES = 50_000  # size of the sample for the confidence
PRODUCTS = 1_000_000  # of cues and memories at once: larger arrays would be new memory each time
HIDDEN = 2.0  # weight of a cue that training left out completely, as a memory that is added after a fit
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 200.0  # bounds of the weight of a channel
INTERPOLATIONS = 50  # steps of expectation maximisation
RIDGE = 0.25  # ridge of the confidence; all hits of a cue count as one observation, because they are dependent


@dataclass(frozen=True)
class Memories:
    """The memories for the calibration.

    Attributes:
        vectors: (M, d).
        keys: returns the keys (n, 2d + code) of positions (n,).
        links: between them, with the weights of recall.
        experienced: (M,) mask of memories in some trajectory.
        total: number of all memories, of which these are a sample or all.
        units: (M, d) the vectors at unit length.
    """

    vectors: Float32
    keys: Callable[[Int64], Float32]
    links: Associations
    experienced: Bools
    total: int
    units: Float32

    @classmethod
    def of(
        cls,
        vectors: Float32,
        keys: Callable[[Int64], Float32],
        links: Associations,
        experienced: Bools,
        total: int,
    ) -> Memories:
        """Returns the memories with their vectors at unit length, which copies share."""
        return cls(vectors, keys, links, experienced, total, unit(vectors))

    @property
    def each(self) -> float:
        """The number of memories of the index that each of these represents."""
        return max(self.total / len(self.vectors), 1.0)


@dataclass(frozen=True)
class Sample:
    """The candidates of recall for some cues, in a sample of memories.

    Attributes:
        x: (Q, N, 4) the channels except the episode embeddings.
        label: (Q, N) the share of each memory in the links of the cue.
        times: (Q, N) number of memories that each represents; 0 for the cue itself.
        alike: (Q, N) shares from the links of look-alikes.
        similar: (Q, N) shares from similarity.
        cues: (Q,) positions.
        rows: (N,) positions, sorted.
    """

    x: Tensor
    label: Float32
    times: Float32
    alike: Float32
    similar: Float32
    cues: Int64
    rows: Int64


def fit_scoring_weights(
    known: Memories, cues: Int64, targets: Bools, random: np.random.Generator, hidden: Bools | None = None
) -> ScoringWeights:
    """Fits the weights of the evidence for one kind of cue.

    Args:
        known: the memories.
        cues: (Q,) positions of cues for the fit; at most 200 with links are used.
        targets: (M,) mask of the memories with useful association vectors.
        random: the generator for the sample.
        hidden: (M,) mask of the memories that training left out completely; None for none.

    Returns:
        The weights; the defaults if no cue has a link.
    """
    cues = cues[strength_of(known.links, cues) > 0]
    if not len(cues):
        return UNTESTED
    sample = draw(known, cues, targets, random, SAMPLE_MEMORIES)
    times, label, happened = torch.from_numpy(sample.times), torch.from_numpy(sample.label), sample.label > 0
    weights = conditional_logit(sample.x, label, times)
    logits = sample.x @ weights
    parts = _parts(known, sample, logits)
    mixture = _interpolate(parts[:, happened], sample.label[happened])
    appearance = conditional_logit(sample.x[:, :, :2], label, times)
    similarity, forward = appearance.tolist()
    larger = sample if targets.sum() <= SAMPLE_MEMORIES else draw(known, sample.cues, targets, random, MOST_MEMORIES)
    return ScoringWeights(
        (*weights.tolist(), 0.0),
        (float(mixture[0]), float(mixture[1]), float(mixture[2]), float(mixture[3])),
        _calibrate(known, larger, weights, mixture, hidden),
        (similarity, forward),
        (_background(logits, times), _background(sample.x[:, :, :2] @ appearance, times)),
    )


def _parts(known: Memories, sample: Sample, logits: Tensor) -> Float32:
    """Returns the shares (4, Q, N) that the mixture weights, from the ``logits`` (Q, N) of the channels."""
    shares = torch.exp(log_shares(logits, torch.from_numpy(sample.times))).numpy()
    return np.stack([shares, sample.alike, links_of_named(known, sample, shares), sample.similar])


def _calibrate(
    known: Memories, sample: Sample, weights: Tensor, mixture: Float32, hidden: Bools | None
) -> tuple[float, ...]:
    """Returns the calibration of the confidence.

    Its sample is larger, because the ranking of a memory depends on the number of its competitors.
    """
    logits = sample.x @ weights
    mixed = np.tensordot(mixture, _parts(known, sample, logits), axes=1)
    best, counts = leading(mixed, sample.times, BEST)
    found = np.where(sample.times > 0, logits.numpy(), -np.inf)
    strongest, many = leading(found, sample.times, BEST)
    odds = np.take_along_axis(found, strongest, axis=1)  # by falling value
    lead = np.where(many[:, 0] > 0, odds[:, 0] - np.where(many > 0, odds, np.inf).min(axis=1), 0)
    happened = np.take_along_axis(sample.label > 0, best, axis=1)
    if hidden is not None:
        counts = counts * np.where(hidden[sample.cues], HIDDEN, 1).astype(np.float32)[:, None]
    return fit_confidence(np.take_along_axis(mixed, best, axis=1), lead, happened, counts)


def draw(
    known: Memories,
    cues: Int64,
    targets: Bools,
    random: np.random.Generator,
    most: int,
    associates: Associations | None = None,
) -> Sample:
    """Draws some of the cues, all of their associates, and a sample of about ``most`` memories.

    ``associates`` are those to find; None for ``known.links``.
    """
    associates = associates or known.links
    cues = random.permutation(cues)[:SAMPLE_CUES]
    owner, linked, strength = associates.of(cues)
    rows = random.permutation(np.flatnonzero(targets))[:most]
    rows = np.unique(np.concatenate([rows, linked]))
    x = torch.from_numpy(features(known.keys(cues), known.keys(rows), known.vectors.shape[1]))  # (Q, N, 4)
    label = np.zeros((len(cues), len(rows)), np.float32)
    label[owner, np.searchsorted(rows, linked)] = strength / strength_of(associates, cues)[owner]
    happened = label > 0
    # each sampled memory that is no associate represents several
    others = np.maximum(len(rows) - happened.sum(axis=1, keepdims=True) - 1, 1)
    times = np.where(happened, 1, np.maximum((known.total - len(rows)) / others + 1, 1)).astype(np.float32)
    position = np.searchsorted(rows, cues)
    inside = np.flatnonzero(np.take(rows, position, mode="clip") == cues)
    times[inside, position[inside]] = 0  # a cue is not an answer to itself
    alike, similar = _by_similarity(known, cues, rows, targets)
    return Sample(x, label, times, alike, similar, cues, rows)


def links_of_named(known: Memories, sample: Sample, shares: Float32) -> Float32:
    """Returns shares (Q, N): one step along the links of the memories that the channels find, by ``shares`` (Q, N)."""
    named, counts = leading(shares, sample.times, NAMED)
    counts = counts * known.experienced[sample.rows[named]]
    mass: Float32 = counts * sharpened(np.take_along_axis(shares, named, axis=1))
    return _step(known.links, sample.rows[named], mass, sample.cues, sample.rows)


def _by_similarity(known: Memories, cues: Int64, rows: Int64, targets: Bools) -> tuple[Float32, Float32]:
    """Returns shares (Q, N) of ``rows`` (N,): one step along the links of look-alikes, and by similarity."""
    near, counts, cosine = _nearest(known, cues, targets)
    mass = look_alike_mass(cosine, counts)
    passing = first(counts * known.experienced[near], LOOK_ALIKES)
    each = (mass / np.maximum(counts, 1e-30)).astype(np.float32)
    seeds = (each * passing).astype(np.float32)
    each /= np.maximum(mass.sum(axis=1, keepdims=True), 1e-30)
    query, position = np.nonzero(each > LEAST)
    similar = _gathered(query, near[query, position], each[query, position], cues, rows)
    return _step(known.links, near, seeds, cues, rows), similar


def _nearest(known: Memories, cues: Int64, targets: Bools) -> tuple[Int64, Float32, Float32]:
    """Returns the ``targets`` most similar to each cue (Q, n), the number that each represents, and their cosines."""
    each = np.where(targets, np.float32(known.each), np.float32(0))
    found = []
    for own in np.array_split(cues, len(cues) * len(each) // PRODUCTS + 1):
        cosine = known.units[own] @ known.units.T
        times = np.broadcast_to(each, cosine.shape).copy()
        times[np.arange(len(own)), own] = 0
        near, counts = leading(np.where(times > 0, cosine, -np.inf), times, NEIGHBOURS)
        found.append((near, counts, np.take_along_axis(cosine, near, axis=1)))
    near, counts, cosine = (np.concatenate(column) for column in zip(*found, strict=True))
    return near, counts, cosine


def _step(links: Associations, seeds: Int64, mass: Float32, cues: Int64, rows: Int64) -> Float32:
    """Returns the mass (Q, N) at ``rows`` (N,) one step along the links from the ``seeds`` (Q, n) of each cue."""
    query, position = np.nonzero(mass)
    reached = walk(links.of, (query, seeds[query, position], mass[query, position]))
    return _gathered(*reached, cues, rows)


def _gathered(query: Int64, row: Int64, value: Float32, cues: Int64, rows: Int64) -> Float32:
    """Returns the sums (Q, N) of values by query and row, for ``rows`` without the cue itself."""
    column = np.searchsorted(rows, row)
    there = (np.take(rows, column, mode="clip") == row) & (row != cues[query])
    pair = query[there] * len(rows) + column[there]
    summed = np.bincount(pair, value[there], len(cues) * len(rows)).reshape(len(cues), len(rows))
    return summed.astype(np.float32)


def strength_of(links: Associations, rows: Int64) -> Float32:
    """Returns the total weight (R,) of the links of each of ``rows``."""
    owner, _, strength = links.of(rows)
    total: Float32 = np.bincount(owner, strength, len(rows)).astype(np.float32)
    return total


def log_shares(logits: Tensor, times: Tensor) -> Tensor:
    """Returns the log share of each memory (Q, N), which represents ``times`` (Q, N) memories; -inf for 0."""
    whole = (logits + times.log()).logsumexp(1, keepdim=True)
    return (logits - whole).masked_fill(times == 0, -torch.inf)


def conditional_logit(x: Tensor, label: Tensor, times: Tensor) -> Tensor:
    """Returns weights > 0 of maximum likelihood.

    Args:
        x: (Q, N, channels).
        label: (Q, N) sums to 1 per cue.
        times: (Q, N) see ``log_shares``.
    """
    raw = torch.full((x.shape[2],), 2.0, requires_grad=True)

    def weights() -> Tensor:  # bounded: a step along a nearly constant feature could overflow
        return raw.clamp_max(math.log(MOST_WEIGHT)).exp()

    optimizer = LBFGS([raw], max_iter=40, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        shares = log_shares(x @ weights(), times).masked_fill(label == 0, 0)
        # a weight that the sample does not determine stays small
        value = -(label * shares).sum(1).mean() + 1e-6 * weights().square().mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights().detach().clamp_min(LEAST_WEIGHT)


def _background(logits: Tensor, times: Tensor) -> float:
    """Returns the log of the mean odds of all but the best of each cue, averaged over cues; both are (Q, N)."""
    best, counts = leading(logits.masked_fill(times == 0, -torch.inf).numpy(), times.numpy(), BEST)
    others = times.scatter_add(1, torch.from_numpy(best), -torch.from_numpy(counts)).clamp_min(0)
    level = (logits + others.log()).logsumexp(1) - others.sum(1).clamp_min(1).log()
    return float(level.clamp_min(-50).mean())  # -inf if the cue is the only memory


def leading(values: Float32, times: Float32, count: int) -> tuple[Int64, Float32]:
    """Returns the members of a sample (Q, N) that represent the first ``count`` memories.

    Returns:
        (Q, n) their positions, by falling value, and the number that each represents; 0 for later ones.
    """
    few, positions = min(count, values.shape[1]), []
    for some in np.array_split(values, values.size // PRODUCTS + 1):
        best = np.argpartition(-some, few - 1, axis=1)[:, :few]
        order = np.argsort(-np.take_along_axis(some, best, axis=1), axis=1)
        positions.append(np.take_along_axis(best, order, axis=1))
    found = np.concatenate(positions)
    stands_for = np.take_along_axis(times, found, axis=1)
    before = np.cumsum(stands_for, axis=1) - stands_for
    return found, np.clip(count - before, 0, stands_for)


def _interpolate(parts: Float32, often: Float32) -> Float32:
    """Returns mixture weights (n,) of maximum likelihood for counts ``often`` (E,) and densities ``parts`` (n, E)."""
    weights = np.full(len(parts), 1 / len(parts))
    for _ in range(INTERPOLATIONS):
        mass = weights[:, None] * (parts + 1e-9)
        weights = np.average(mass / mass.sum(axis=0), axis=1, weights=often)
    return weights.astype(np.float32)


def fit_confidence(shares: Float32, lead: Float32, label: Bools, times: Float32) -> tuple[float, float, float, float]:
    """Fits the probability that a hit was experienced with the cue: a logistic regression.

    Args:
        shares: (Q, n) shares of the best memories of each cue.
        lead: (Q,) the lead of the best memory; see ``confidence``. It changes slope and intercept.
        label: (Q, n) whether the memory was experienced with the cue.
        times: (Q, n) number of memories that each represents.

    Returns:
        The numbers that ``ScoringWeights.calibration`` describes.
    """
    often = torch.from_numpy(times / max(float(times.sum()), 1e-30)).double()
    y = torch.from_numpy(label).double()
    share, of_share = _standard(torch.from_numpy(np.log(shares + SMALLEST)).double(), often)
    ahead, of_lead = _standard(torch.from_numpy(lead).double()[:, None].expand_as(y), often)
    x = torch.stack([share, torch.ones_like(share), share * ahead, ahead], dim=2)
    line = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = LBFGS([line], max_iter=50, line_search_fn="strong_wolfe")
    ridge = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64) * (RIDGE / len(y))

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(x @ line, y, often, reduction="sum")
        value = value + (ridge * line.square()).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    slope, intercept, steeper, higher = line.detach().tolist()
    (low, width), (near, spread) = of_share, of_lead  # back to the values themselves
    steeper /= width * spread
    slope, higher = slope / width - steeper * near, higher / spread - steeper * low
    intercept -= slope * low + higher * near + steeper * low * near
    return slope, intercept, steeper, higher


def _standard(values: Tensor, weights: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Returns values with mean 0 and variance 1, and the mean and deviation that they had."""
    mean = float((weights * values).sum())
    deviation = max(float((weights * (values - mean).square()).sum()) ** 0.5, 1e-6)
    return (values - mean) / deviation, (mean, deviation)
