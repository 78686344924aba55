"""Creative bridging: in this world even an oracle of all associations reaches no bridge (pam.tex 5.5).

Episodes of this world share no state, so no chain of associations leads from one to another. The strict protocol adds
a world with persistent entities, where bridges are possible; ``benchmarks.architecture`` measures it in more detail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from benchmarks.architecture.bridging import run as persistent
from benchmarks.baselines.graph import co_occurrences
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table
from benchmarks.worlds.paper import World
from pam_retriever.experience.cooccurrence import Experience

BRIDGES = 300


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("bridging")
    found = parts.get("oracle", lambda: _oracle(setting))
    published = {"paper: oracle": {"reach": 0.0}} if setting.published_world else {}
    rows = ["bridges", "reach", "associations across trajectories", "components", "largest component"]
    tables = [Table("What an oracle with the exact graph can reach", rows, {"oracle": found}, published)]
    if setting.protocol == "strict" and setting.seeds and setting.published_world:
        methods = parts.get(
            "persistent world", lambda: persistent(setting.world_seed, noises=())["tables"]["exact cue"]
        )
        tables.append(Table("Where entities persist", list(methods["cosine"]), methods))
    return tables


def _oracle(setting: Setting) -> dict[str, Any]:
    world = setting.world
    random = np.random.RandomState(42)
    count = len(world.trajectories)
    trajectories = np.stack([random.choice(count, 2, replace=False) for _ in range(BRIDGES)])
    positions = random.randint(world.trajectories.shape[1], size=trajectories.shape)
    ends = world.trajectories[trajectories, positions]  # (bridges, 2): a cue, and a target in another episode
    return reach(setting.experience, world, ends)


def reach(experience: Experience, world: World, ends: np.ndarray) -> dict[str, Any]:
    """Returns the share of bridges (n, 2) whose ends are connected by a chain of associations of any length."""
    graph = co_occurrences(experience, len(world.states), WINDOW)
    owner = np.full(len(world.states), -1)
    owner[experience.states] = experience.trajectory
    left, right = graph.nonzero()
    number, component = connected_components(graph, directed=False)
    return {
        "bridges": len(ends),
        "reach": float((component[ends[:, 0]] == component[ends[:, 1]]).mean()),
        "associations across trajectories": int((owner[left] != owner[right]).sum() // 2),
        "components": int(number),
        "largest component": int(np.bincount(component).max()),
    }
