"""The jobs of ``python -m benchmarks.gpu``, the most valuable first. An interrupted job continues where it stopped."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.muon import MuonTrainer
from benchmarks.paper import EXPERIMENTS
from benchmarks.paper.fits import CHANNELS, JOINT, index_of
from benchmarks.paper.setting import Setting
from benchmarks.training import capacity
from benchmarks.worlds import paper
from pam_retriever import FitConfig
from pam_retriever.model.keys import query_vectors
from pam_retriever.retrieval.cues import stored_cues
from pam_retriever.training.device import choose_device
from pam_retriever.training.trainer import Trainer

TUNING_WORLD = 7  # nothing is reported on it
Run = Callable[["Plan"], None]


@dataclass(frozen=True)
class Plan:
    """The amount of work.

    Attributes:
        setting: setting of the paper's experiments; every job uses its recipe and protocol.
        experiments: experiments of the paper, run with the recipe "fast".
        sizes: numbers of trajectories of the worlds that networks learn.
        widths: widths of these networks.
        passes: numbers of passes after which the optimisers are compared.
        queries: number of queries of a batch.
        repeats: number of repetitions of each timing.
    """

    setting: Setting
    experiments: tuple[str, ...] = tuple(EXPERIMENTS)
    sizes: tuple[int, ...] = (25, 50, 100, 200, 400, 800)
    widths: tuple[int, ...] = (128, 256, 512, 1024)
    passes: tuple[int, ...] = (4, 8, 16, 32)
    queries: int = 1_000
    repeats: int = 20

    @classmethod
    def tiny(cls, setting: Setting) -> Plan:
        """Returns a plan that takes seconds on a CPU, to test that everything runs."""
        small = replace(setting, seeds=setting.seeds[:1], passes=1, trajectories=4)
        return cls(small, ("held_out",), (4,), (16,), (1,), 20, 2)


def experiment(name: str, protocol: str, config: str, plan: Plan) -> None:
    """Runs one of the paper's experiments, which writes its own results."""
    for table in EXPERIMENTS[name].run(replace(plan.setting, protocol=protocol, config=config)):
        print(table.text(), flush=True)


def suite(plan: Plan) -> None:
    """Runs all experiments with the library's own recipe."""
    for name in plan.experiments:
        for protocol in ("strict", "published"):
            experiment(name, protocol, "fast", plan)


def network_capacity(plan: Plan) -> None:
    """Measures how many associations networks of several widths learn."""
    parts = plan.setting.parts("capacity")
    for size in plan.sizes:
        for width in plan.widths:
            config = FitConfig(hidden=width, passes=plan.setting.passes or 20)
            parts.get(f"{size} trajectories, {width} wide", partial(_capacity, plan, size, config, Trainer))


def optimisers(plan: Plan) -> None:
    """Compares Muon with AdamW after equal numbers of passes, and after equal time."""
    parts = plan.setting.parts("optimisers")
    size = plan.setting.trajectories
    for passes in plan.passes:
        for name, trainer in (("AdamW", Trainer), ("Muon", MuonTrainer)):
            run = partial(_capacity, plan, size, FitConfig(passes=passes), trainer)
            parts.get(f"{name}, {passes} passes", run)


def _capacity(plan: Plan, size: int, config: FitConfig, trainer: type[Trainer]) -> dict[str, Any]:
    world = paper.build(TUNING_WORLD, size)
    return capacity.measure(world, config, plan.setting.seeds[0], plan.setting.device, trainer)


def batch_recall(plan: Plan) -> None:
    """Times a batch of queries against all keys: in this library's flat index, and as one product on the device."""
    plan.setting.parts("batch").get("batch", partial(_batch, plan))


def _batch(plan: Plan) -> dict[str, Any]:
    setting, k = replace(plan.setting, config="fast"), 10
    index, fitted = index_of(setting, setting.seeds[0])
    rows = np.random.default_rng(0).integers(0, len(fitted.states), plan.queries)
    keys = np.concatenate([fitted.units, fitted.predicted], axis=1)
    cues = stored_cues(keys[rows], rows, fitted.states.shape[1])
    queries = query_vectors(CHANNELS[JOINT], cues.given, cues.completed, cues.predicted)
    device = choose_device(setting.device)
    there = torch.from_numpy(keys).to(device)

    def on_device() -> np.ndarray:
        found: np.ndarray = (torch.from_numpy(queries).to(device) @ there.T).topk(k).indices.cpu().numpy()
        return found

    def by_index() -> object:
        return index.recall([str(row) for row in rows.tolist()], k=k, channels=CHANNELS[JOINT])

    taken: dict[str, list[float]] = {"index": [], "device": []}
    for _ in range(plan.repeats):
        for name, call in (("index", by_index), ("device", on_device)):
            began = time.perf_counter()
            call()
            taken[name].append(1e3 * (time.perf_counter() - began))
    milliseconds = {name: float(np.median(runs)) for name, runs in taken.items()}
    return {"device": str(device), "memories": len(keys), "queries": plan.queries, "milliseconds": milliseconds}


def peak_memory(plan: Plan) -> None:
    """Returns the peak memory of one pass of each recipe, on the device and on the host."""
    parts = plan.setting.parts("memory")
    for config in ("paper", "fast"):
        parts.get(config, partial(_peak, plan, config))


def _peak(plan: Plan, config: str) -> dict[str, Any]:
    setting = replace(plan.setting, config=config, passes=1)
    on_gpu = choose_device(setting.device).type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    world = paper.build(TUNING_WORLD, setting.trajectories)
    found = capacity.measure(world, setting.fit_config, setting.seeds[0], setting.device)
    return {
        "states": len(world.states),
        "parameters": found["parameters"],
        "bytes on the GPU": torch.cuda.max_memory_allocated() if on_gpu else None,
        "bytes of the process so far": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


JOBS: dict[str, Run] = {
    "the published recipe": partial(experiment, "main", "published", "paper"),
    "held-out cues after best": partial(experiment, "held_out", "strict", "best"),
    "peak memory": peak_memory,
    "Muon against AdamW": optimisers,
    "a batch of queries": batch_recall,
    "what a network holds": network_capacity,
    "all experiments after fast": suite,
}
