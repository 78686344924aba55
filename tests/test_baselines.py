"""Every baseline on a small world, against values computed by hand or by an independent library."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch.nn import functional as F

from benchmarks.baselines import UNTRAINED
from benchmarks.baselines.base import OnVectors, Recognising
from benchmarks.baselines.bilinear import PublishedBilinear
from benchmarks.baselines.contrastive import Contrastive
from benchmarks.baselines.counts import Counts
from benchmarks.baselines.hopfield import Hopfield
from benchmarks.baselines.item_knn import ItemKNN
from benchmarks.baselines.pagerank import PersonalisedPageRank
from benchmarks.baselines.ppmi import PPMI
from benchmarks.baselines.random_walk import RandomWalk
from benchmarks.baselines.similarity import Similarity
from benchmarks.baselines.successor import LinearSuccessor, TabularSuccessor
from benchmarks.baselines.temporal_context import TemporalContext
from benchmarks.baselines.towers import BilinearForm, GraphNetwork, PlainMLP
from pam_retriever.experience.cooccurrence import Experience

# memory 0 is in both trajectories, 6 in none
PATHS = [[0, 1, 2, 3], [4, 0, 5]]


def experienced(*paths: list[int]) -> Experience:
    lengths = [len(path) for path in paths]
    return Experience(
        np.concatenate([np.array(path) for path in paths]),
        np.repeat(np.arange(len(paths)), lengths),
        np.concatenate([np.arange(length) for length in lengths]),
    )


EXPERIENCE = experienced(*PATHS)
EVERY = np.arange(7)
VECTORS = np.random.default_rng(0).standard_normal((7, 12)).astype(np.float32)


def fitted(baseline, window=2, vectors=VECTORS):
    baseline.fit(EXPERIENCE, vectors, window)
    return baseline


def co_occurrences(window=2) -> np.ndarray:
    """Returns how often two memories occur together, counted by a loop."""
    counts = np.zeros((7, 7))
    for path in PATHS:
        for i in range(len(path)):
            for j in range(len(path)):
                counts[path[i], path[j]] += 0 < abs(i - j) <= window
    return counts


def rows_to_one(graph):
    return graph / np.maximum(graph.sum(1, keepdims=True), 1e-12)


def test_counts_are_cooccurrence_counts():
    assert fitted(Counts()).scores(EVERY).tolist() == co_occurrences().tolist()
    assert co_occurrences()[0].tolist() == [0, 1, 1, 0, 1, 1, 0]


def test_ppmi_worked_out_by_hand():
    scores = fitted(PPMI(), window=1).scores(EVERY)
    # 10 directed co-occurrences; 0 has 3 of them, 1 has 2, 3 has 1; PMI(0, 1) = log(1 * 10 / (3 * 2))
    assert scores[0, 1] == pytest.approx(np.log(10 / 6))
    assert scores[2, 3] == pytest.approx(np.log(10 / 2))
    assert scores[0, 3] == 0


def test_ppmi_drops_pairs_below_chance():
    often = experienced([0, 1, 0, 1, 0, 1, 0, 2, 0, 2, 0, 2, 1])
    ppmi = PPMI()
    ppmi.fit(often, VECTORS, 1)
    counts = Counts()
    counts.fit(often, VECTORS, 1)
    graph = counts.scores(EVERY)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(graph * graph.sum() / np.outer(graph.sum(1), graph.sum(1)))
    assert (expected[graph > 0] < 0).any()
    np.testing.assert_allclose(ppmi.scores(EVERY), np.where(graph > 0, np.maximum(expected, 0), 0), atol=1e-6)


def test_item_knn_is_the_cosine_of_rows():
    length = np.linalg.norm(co_occurrences(), axis=1, keepdims=True)
    rows = co_occurrences() / np.where(length > 0, length, 1)
    np.testing.assert_allclose(fitted(ItemKNN()).scores(EVERY), rows @ rows.T, atol=1e-6)


@pytest.mark.parametrize("cue", [0, 3, 6])
def test_pagerank_is_that_of_networkx(cue):
    graph = nx.from_numpy_array(co_occurrences(), create_using=nx.DiGraph)
    expected = nx.pagerank(graph, alpha=0.85, personalization={cue: 1}, tol=1e-10, max_iter=1000)
    scores = fitted(PersonalisedPageRank(tolerance=1e-8)).scores(np.array([cue]))[0]
    np.testing.assert_allclose(scores, [expected[node] for node in range(7)], atol=1e-5)


def test_random_walks_are_powers_of_the_transitions():
    transition = rows_to_one(co_occurrences())
    expected = sum(np.linalg.matrix_power(transition, steps) for steps in (1, 2, 3)) / 3
    np.testing.assert_allclose(fitted(RandomWalk(steps=3)).scores(EVERY), expected, atol=1e-6)


def test_the_tabular_successor_is_the_inverse():
    after = np.zeros((7, 7))
    for path in PATHS:
        for left, right in zip(path, path[1:], strict=False):
            after[left, right] += 1
    expected = sum(
        0.2 * (np.linalg.inv(np.eye(7) - 0.8 * rows_to_one(graph)) - np.eye(7)) for graph in (after, after.T)
    )
    np.testing.assert_allclose(fitted(TabularSuccessor(0.8)).scores(EVERY), expected, atol=1e-4)


def test_the_linear_successor_with_one_feature_a_state_is_the_table_of_discounted_counts():
    """On a path without repetition a state n steps away, in either direction, has the score g^(n - 1)."""
    path = experienced([0, 1, 2, 3])
    linear = LinearSuccessor(discount=0.5, ridge=0.0)
    linear.fit(path, np.eye(4, dtype=np.float32), 1)
    expected = [[0, 1, 0.5, 0.25], [1, 0, 1, 0.5], [0.5, 1, 0, 1], [0.25, 0.5, 1, 0]]
    np.testing.assert_allclose(linear.scores(np.arange(4)), expected, atol=1e-6)


def drifted(inputs: np.ndarray, beta: float) -> np.ndarray:
    """Returns the sum of the contexts of each item, by the recursion of the model, step by step."""
    contexts = np.zeros_like(inputs)
    for path in PATHS:
        context = np.zeros(inputs.shape[1])
        for item in path:
            context = np.sqrt(1 - beta**2) * context + beta * inputs[item]
            contexts[item] += context
    return contexts


@pytest.mark.parametrize("features", ["items", "vectors"])
def test_temporal_context_follows_the_recursion(features):
    inputs = np.eye(7) if features == "items" else VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    contexts = drifted(inputs, 0.6)
    length = np.linalg.norm(contexts, axis=1, keepdims=True)
    retrieved = 0.7 * contexts / np.where(length > 0, length, 1) + 0.3 * inputs
    scores = fitted(TemporalContext(beta=0.6, retrieved=0.7, features=features)).scores(EVERY)
    np.testing.assert_allclose(scores, retrieved @ contexts.T, atol=2e-3)


def test_temporal_context_recalls_near_and_forward_first():
    """The model shows two findings of Howard and Kahana: near items rank first, and later items before earlier ones."""
    path = experienced([*range(7)])
    model = TemporalContext()
    model.fit(path, VECTORS, 1)
    scores = model.scores(np.array([3]))[0]
    assert scores[4] > scores[5] > scores[6]
    assert scores[2] > scores[1] > scores[0]
    assert scores[4] > scores[2]


def test_hopfield_reads_out_the_mean_of_the_associates():
    keys = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    values = rows_to_one(co_occurrences()) @ keys
    point = softmax(8 * keys @ keys.T, axis=1) @ values
    point /= np.linalg.norm(point, axis=1, keepdims=True)
    model = fitted(Hopfield(beta=8))
    np.testing.assert_allclose(model.scores(EVERY), point @ keys.T, atol=1e-5)
    np.testing.assert_allclose(model.scores_of(3 * VECTORS), model.scores(EVERY), atol=1e-5)


def test_similarity_is_cosine():
    scores = fitted(Similarity()).scores(np.array([1, 6]))
    expected = VECTORS @ VECTORS[[1, 6]].T / np.linalg.norm(VECTORS, axis=1)[:, None]
    np.testing.assert_allclose(scores, (expected / np.linalg.norm(VECTORS[[1, 6]], axis=1)).T, atol=1e-6)


@pytest.mark.parametrize("name", list(UNTRAINED))
def test_a_baseline_scores_every_memory_and_reports_its_size(name):
    model = fitted(UNTRAINED[name]())
    scores = model.scores(np.array([0, 6]))
    assert scores.shape == (2, 7)
    assert np.isfinite(scores).all()
    assert model.floats() > 0
    if isinstance(model, OnVectors):
        np.testing.assert_allclose(model.scores_of(VECTORS[[0, 6]]), scores, atol=1e-5)


def test_a_noisy_cue_is_recognised_as_the_nearest_memories():
    model = fitted(Counts())
    noisy = VECTORS[[2, 0]] + 0.01
    assert Recognising(model, VECTORS).scores_of(noisy).tolist() == co_occurrences()[[2, 0]].tolist()
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    weight = softmax(units @ units[2] / 0.5)
    spread = Recognising(model, VECTORS, nearest=7, temperature=0.5).scores_of(VECTORS[[2]])[0]
    np.testing.assert_allclose(spread, weight @ co_occurrences(), atol=1e-6)


def mirrored() -> tuple[Experience, np.ndarray]:
    """Returns pairs (p, p R) with a reflection R: the answer is far from the cue, but a linear form finds it."""
    random = np.random.default_rng(1)
    first = random.standard_normal((40, 8)).astype(np.float32)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    basis = np.linalg.qr(random.standard_normal((8, 8)))[0]
    reflection = (basis * [1, 1, 1, 1, -1, -1, -1, -1] @ basis.T).astype(np.float32)
    vectors = np.stack([first, first @ reflection], axis=1).reshape(-1, 8)
    return experienced(*([2 * pair, 2 * pair + 1] for pair in range(40))), vectors


@pytest.mark.parametrize(
    "baseline",
    [
        pytest.param(PublishedBilinear(epochs=300, batch_size=40), marks=pytest.mark.slow),
        pytest.param(Contrastive(BilinearForm, passes=300, learning_rate=1e-2), marks=pytest.mark.slow),
        Contrastive(lambda dim: BilinearForm(dim, rank=8), passes=300, learning_rate=1e-2),
        pytest.param(
            Contrastive(lambda dim: PlainMLP(dim, hidden=64), passes=300, learning_rate=3e-3), marks=pytest.mark.slow
        ),
        pytest.param(
            Contrastive(lambda dim: GraphNetwork(dim, hidden=32, out=32), passes=300, learning_rate=3e-3),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["published", "bilinear", "low rank", "mlp", "graph network"],
)
def test_a_trained_baseline_learns_a_reflection(baseline):
    experience, vectors = mirrored()
    baseline.fit(experience, vectors, 1)
    first, second = np.arange(0, 80, 2), np.arange(1, 80, 2)
    scores = baseline.scores(first)
    scores[np.arange(40), first] = -np.inf
    assert (scores.argmax(axis=1) == second).mean() >= 0.95
    assert baseline.floats() > 0


def test_a_low_rank_form_has_that_rank():
    experience, vectors = mirrored()
    baseline = Contrastive(lambda dim: BilinearForm(dim, rank=2), passes=2)
    baseline.fit(experience, vectors, 1)
    assert np.linalg.matrix_rank(baseline.scores(np.arange(80))) == 2


def test_the_plain_mlp_has_the_capacity_of_the_predictor():
    assert sum(parameter.numel() for parameter in PlainMLP(128).parameters()) == 2_362_752 - 256


@pytest.mark.slow
def test_the_graph_network_is_the_mean_of_neighbours_worked_out_by_hand():
    model = GraphNetwork(3, hidden=4, out=5).double()
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    graph = torch.tensor([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=torch.float64)
    to, source = graph.nonzero(as_tuple=True)

    def layer(conv, h):
        around = graph @ h / graph.sum(1, keepdim=True).clamp_min(1)
        return around @ conv.lin_l.weight.T + conv.lin_l.bias + h @ conv.lin_r.weight.T

    expected = F.normalize(layer(model.second, F.gelu(layer(model.first, x))), dim=-1)
    torch.testing.assert_close(model(x, torch.stack([source, to]))[0], expected)


def test_a_vector_without_edges_is_asked_as_it_is():
    """A vector that is not a stored memory has the same scores as the stored memory with this vector."""
    experience, vectors = mirrored()
    baseline = Contrastive(BilinearForm, passes=2)
    baseline.fit(experience, vectors, 1)
    np.testing.assert_allclose(baseline.scores_of(vectors[:3]), baseline.scores(np.arange(3)), atol=1e-5)


def test_walks_that_spread_are_the_same_before_and_after_they_crowd():
    """A walk changes from sparse to dense when it reaches a twentieth of the memories; its values stay correct."""
    walk = RandomWalk(steps=6)
    walk.fit(experienced([*range(60)]), np.eye(60, dtype=np.float32), 2)
    distance = np.abs(np.subtract.outer(np.arange(60), np.arange(60)))
    transition = rows_to_one(((distance > 0) & (distance <= 2)).astype(float))
    expected = sum(np.linalg.matrix_power(transition, steps) for steps in range(1, 7)) / 6
    np.testing.assert_allclose(walk.scores(np.array([0, 30])), expected[[0, 30]], atol=1e-6)
