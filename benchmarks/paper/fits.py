"""Trained models on disk: the main table, noise, decay and chains use the same fits.

A stored model is used only if the library's training code has not changed since.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import pam_retriever
from benchmarks import report
from benchmarks.paper.partial import Partial, PartialTrainer
from benchmarks.paper.protocol import Scores
from benchmarks.paper.setting import WINDOW, Setting
from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.keys import MODES, query_vectors, unit
from pam_retriever.model.predictor import Predictor
from pam_retriever.training.config import TrainingRequest
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.training.trainer import Trained, Trainer
from pam_retriever.types import Float32, Int64

TRAINING = ("experience/cooccurrence", "experience/weighting", "model", "training")  # modules, or folders of modules
CHANNELS = {
    "forward": Channels(forward=1),
    "reverse": Channels(reverse=1),
    "mutual": Channels(mutual=1),
    "episode": Channels(episode=1),
    "all channels": MODES["association"],  # with the weights of default recall, without its exact links
}
JOINT = "all channels"


@dataclass(frozen=True)
class Fitted:
    """A trained predictor with the memories of its training.

    Attributes:
        states: (M, d), not normalised.
        units: (M, d), the same at unit length.
        predicted: (M, d + code), f and the episode code of each.
        model: f.
        report: the report of ``fit``.
    """

    states: Float32
    units: Float32
    predicted: Float32
    model: Predictor
    report: dict[str, Any]

    @property
    def channels(self) -> dict[str, Channels]:
        """Returns the channels of the model: the published recipe trains no episode code."""
        coded = self.predicted.shape[1] > self.units.shape[1]
        return {name: channels for name, channels in CHANNELS.items() if coded or name != "episode"}

    def scores(self, channels: Channels) -> Scores:
        """Returns scores of stored cues, by the learned channels only."""
        return lambda rows: self.score(channels, self.units[rows], self.predicted[rows])

    def score(self, channels: Channels, cues: Float32, predicted: Float32) -> Float32:
        """Returns (Q, M) scores of (Q, d) cues at unit length, with their f and e, (Q, d + code)."""
        return query_vectors(channels, cues, cues, predicted) @ self._keys.T

    @cached_property
    def _keys(self) -> Float32:
        return np.concatenate([self.units, self.predicted], axis=1)

    def predict(self, vectors: Float32) -> Float32:
        """Returns (n, d + code): f of any vectors (n, d), at unit length, without a code."""
        return self.model.weights()(vectors)


def index_of(
    setting: Setting, seed: int, name: str = "index", states: Float32 | None = None
) -> tuple[PredictiveAssociativeIndex, Fitted]:
    """Returns an index of the whole world, fitted by ``fit``; other ``states`` need another name."""
    folder = _folder(setting, setting.fit_config, seed, name)
    states = setting.world.states if states is None else states
    if not (folder / "report.json").exists():
        index = PredictiveAssociativeIndex(dim=states.shape[1], backend="faiss:flat")
        ids = [str(row) for row in range(len(states))]
        index.add(states, ids=ids)
        trajectories = [[ids[row] for row in trajectory] for trajectory in setting.world.trajectories]
        fitted = index.fit(trajectories, WINDOW, setting.fit_config, device=setting.device, seed=seed)
        index.save(folder / "index", overwrite=True)
        _write_report(folder, asdict(fitted) | {"summary": repr(fitted)})
    index = PredictiveAssociativeIndex.load(folder / "index")
    weights = index._store.predictor
    assert weights is not None
    return index, _fitted(
        states, Predictor.of(weights), index._store.codes_of(index._store.database.memories.rows()), folder
    )


def trained(
    setting: Setting,
    seed: int,
    name: str,
    *,
    config: FitConfig | None = None,
    states: Float32 | None = None,
    experience: Experience | None = None,
    partial: Partial | None = None,
) -> Fitted:
    """Returns a model, trained now or by an earlier run; ``name`` is the variant, ``partial`` its associations."""
    config = config or setting.fit_config
    states = setting.world.states if states is None else states
    folder = _folder(setting, config, seed, name)
    if not (folder / "report.json").exists():
        found = train(
            InMemoryShards(states, experience or setting.experience, seed),
            config,
            TrainingRequest(setting.device, seed),
            partial,
        )
        folder.mkdir(parents=True, exist_ok=True)
        weights = found.predictor.state_dict() | {"codes": torch.from_numpy(found.embeddings)}
        save_file(weights, folder / "predictor.safetensors")
        shape = asdict(found.predictor.config)
        _write_report(folder, asdict(found.report) | {"summary": repr(found.report), "predictor": shape})
    shape = json.loads((folder / "report.json").read_text())["predictor"]
    model = Predictor(PredictorConfig(**shape))
    stored = load_file(folder / "predictor.safetensors")
    codes = stored.pop("codes").numpy()
    model.load_state_dict(stored)
    return _fitted(states, model.eval(), codes, folder)


def train(shards: InMemoryShards, config: FitConfig, request: TrainingRequest, partial: Partial | None) -> Trained:
    """Trains once, on all associations or on a part of them."""
    if partial is None:
        return Trainer(shards, WINDOW, config, request).run()
    return PartialTrainer(partial, shards, WINDOW, config, request).run()


def _fitted(states: Float32, model: Predictor, codes: Float32, folder: Path) -> Fitted:
    predicted = with_codes(model.weights()(states), codes)
    return Fitted(states, unit(states), predicted, model, json.loads((folder / "report.json").read_text()))


def _folder(setting: Setting, config: FitConfig, seed: int, name: str) -> Path:
    package = Path(pam_retriever.__file__).parent
    modules = [path for name in TRAINING for path in _modules(package / name)]
    code = b"".join(path.read_bytes() for path in modules)
    about = [asdict(config), seed, name, setting.world_seed, setting.trajectories, hashlib.sha256(code).hexdigest()]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:12]
    return setting.cache / f"{name.replace(' ', '-')}-seed{seed}-{key}"


def _modules(name: Path) -> list[Path]:
    return sorted(name.glob("*.py")) if name.is_dir() else [name.with_suffix(".py")]


def _write_report(folder: Path, fitted: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(fitted, default=report.plain))


def without_cue(scores: Scores) -> Scores:
    """Returns a scoring function that gives each query itself the score -inf."""

    def left_out(rows: Int64) -> Float32:
        found = scores(rows)
        found[np.arange(len(rows)), rows] = -np.inf
        return found

    return left_out


def under(protocol: str, scores: Scores) -> Scores:
    """Returns ``scores`` under the published protocol, and ``without_cue(scores)`` under the strict protocol."""
    return scores if protocol == "published" else without_cue(scores)
