"""Baselines for recall. Every module is one method to find the memories that were experienced with a cue.

All methods have the interface of ``base.Baseline``. ``UNTRAINED`` and ``TRAINED`` map names to functions that create
them.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.baselines.base import Baseline
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

# no gradient descent: each fits in seconds
UNTRAINED: dict[str, Callable[[], Baseline]] = {
    "cosine": Similarity,
    "exact temporal graph": Counts,
    "PPMI": PPMI,
    "item-kNN": ItemKNN,
    "personalised PageRank": PersonalisedPageRank,
    "random walks": RandomWalk,
    "successor representation, tabular": TabularSuccessor,
    "successor representation, linear": LinearSuccessor,
    "temporal context, items": TemporalContext,
    "temporal context, vectors": lambda: TemporalContext(features="vectors"),
    "modern Hopfield": Hopfield,
}

# arguments: passes over the experience; ``benchmarks.baselines.tune`` chose the learning rates on another world
TRAINED: dict[str, Callable[[int], Baseline]] = {
    "bilinear, full": lambda passes: Contrastive(BilinearForm, passes, 1e-2),
    "bilinear, rank 32": lambda passes: Contrastive(lambda dim: BilinearForm(dim, rank=32), passes, 1e-2),
    "plain MLP": lambda passes: Contrastive(PlainMLP, passes, 1e-2),
    "graph network": lambda passes: Contrastive(GraphNetwork, passes, 3e-3),
}
