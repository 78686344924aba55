"""The setting of an experiment, and its result files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.paper.protocol import Queries, choose_queries, experience_of
from benchmarks.worlds import paper
from benchmarks.worlds.paper import World
from pam_retriever import FitConfig
from pam_retriever.experience.cooccurrence import Associations, Experience, associate
from pam_retriever.training.config import CONFIGS

PROTOCOLS = ("published", "strict")
WINDOW = 5
CACHE = Path(__file__).parent.parent / ".cache"


@dataclass(frozen=True)
class Setting:
    """One protocol, one recipe, one world.

    Attributes:
        protocol: "published" follows the evaluation of the paper. "strict" leaves the query out of the candidates,
            counts coverage in directed pairs, uses targets outside of training, and adds controls.
        config: the recipe of ``fit``.
        seeds: training seeds. An empty sequence computes only the parts that need no fit.
        passes: replaces the recipe's number of passes.
        stop_after: number of passes after which training stops, in the middle of the schedules.
        device: training device.
        world_seed: 42 is the published world.
        trajectories: 500 is the published world; fewer for tests.
        again: computes existing results again.
        read_only: computes nothing; a missing part raises ``NotRun``.
        results: folder of raw results.
        cache: folder of trained models, shared by several experiments.
    """

    protocol: str = "strict"
    config: str = "fast"
    seeds: tuple[int, ...] = (42, 123, 456)
    passes: int | None = None
    stop_after: int | None = None
    device: str = "auto"
    world_seed: int = 42
    trajectories: int = 500
    again: bool = False
    read_only: bool = False
    results: Path = report.RESULTS
    cache: Path = CACHE

    @cached_property
    def world(self) -> World:
        return paper.build(self.world_seed, self.trajectories)

    @cached_property
    def queries(self) -> Queries:
        return choose_queries(self.world, WINDOW)

    @cached_property
    def experience(self) -> Experience:
        return experience_of(self.world)

    @cached_property
    def associations(self) -> Associations:
        return associate(self.experience, len(self.world.states), WINDOW)

    @property
    def fit_config(self) -> FitConfig:
        config = CONFIGS[self.config]
        return replace(config, passes=self.passes or config.passes, stop_after=self.stop_after)

    @property
    def published_world(self) -> bool:
        """Returns whether the world is the one of the paper's figures."""
        return self.world_seed == 42 and self.trajectories == 500

    @property
    def recipe(self) -> str:
        """Returns the name of the recipe for file names."""
        name = self.config
        name += f"-passes{self.passes}" if self.passes else ""
        return name + (f"-first{self.stop_after}" if self.stop_after else "")

    def parts(self, experiment: str) -> Parts:
        """Returns the existing results of ``experiment`` under this setting."""
        world = "" if self.published_world else f"world{self.world_seed}-{self.trajectories}/"
        return Parts(f"paper/{world}{self.protocol}-{self.recipe}/{experiment}", self)


class NotRun(LookupError):
    """A part of an experiment has no result yet."""


class Parts:
    """The parts of an experiment in one raw JSON file. Each finished part is saved, so an interrupted run continues.

    Attributes:
        name: name of the file, without its ending.
    """

    def __init__(self, name: str, setting: Setting) -> None:
        self.name, self._setting = name, setting
        self._path = setting.results / f"{name}.json"
        there = self._path.exists() and not setting.again
        self._found: dict[str, Any] = json.loads(self._path.read_text())["parts"] if there else {}

    def get(self, part: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Returns a part; computes it if it does not exist yet."""
        if part not in self._found:
            if self._setting.read_only:
                raise NotRun(f"{self.name}: {part}")
            self._found[part] = _plain(compute())
            setting = self._setting
            about = {
                "protocol": setting.protocol,
                "recipe": setting.recipe,
                "world": {"seed": setting.world_seed, "trajectories": setting.trajectories},
            }
            report.write(self.name, {**about, "parts": self._found}, setting.results)
            print(f"{self.name}: {part}", flush=True)
        found: dict[str, Any] = self._found[part]
        return found


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Converts a result to its JSON form, so that a continued run gets the same values."""
    plain: dict[str, Any] = json.loads(json.dumps(found, default=report.plain))
    return plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--config", choices=list(CONFIGS), default="fast")
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="*",
        default=[42, 123, 456],
        help="training seeds; an empty list skips every fit of this library",
    )
    parser.add_argument("--passes", type=int, help="number of passes (default: that of the recipe)")
    parser.add_argument(
        "--stop-after", type=int, help="stop after this many passes; the schedules keep their full length"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--world-seed", type=int, default=42, help="seed of the world; 42 is the published one")
    parser.add_argument("--trajectories", type=int, default=500, help="size of the world; 500 is the published one")
    parser.add_argument("--again", action="store_true", help="compute results again that exist already")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="folder of raw results")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of trained models")


def settings(arguments: argparse.Namespace) -> list[Setting]:
    """Returns one setting per requested protocol."""
    rest = {name: value for name, value in vars(arguments).items() if name not in ("protocol", "experiment")}
    rest["seeds"] = tuple(rest["seeds"])
    return [Setting(protocol=protocol, **rest) for protocol in arguments.protocol]
