"""Shared parts of the experiments: the world as observations, the encoder, and models trained once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.torch
import torch
from torch import nn

from benchmarks.worlds import multimodal
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.jepa import CompositeEncoder, JointConfig, JointTrainer, Modality, Observations, OutwardPredictor
from pam_retriever.jepa.collapse import effective_rank, spread
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32, Int64

DIM, WINDOW, QUERIES = 128, 5, 500
STORED, FRESH = 1, 2  # seeds of the stored views, and of the views that are cues
JOINT = JointConfig()
OUTWARD = replace(JOINT, inward=0.0, momentum=0.996, final_momentum=1.0)  # the schedule of I-JEPA


@dataclass(frozen=True)
class Setup:
    """A world seed, the length of training, the device, and the folder of trained models."""

    seed: int = 42
    passes: int = JOINT.passes
    episodes: int = 120
    device: str = "auto"
    models: Path | None = None

    @cached_property
    def world(self) -> multimodal.World:
        return multimodal.build(self.seed, self.episodes)

    @cached_property
    def stored(self) -> Observations:
        """Returns the observations of the memories."""
        return Observations(*self.world.observe(np.arange(len(self.world)), STORED))

    @cached_property
    def experience(self) -> Experience:
        return Experience(np.arange(len(self.world)), self.world.episode, self.world.position)

    @cached_property
    def associates(self) -> list[Int64]:
        """Returns for each state the states at most one window away."""
        graph = associate(self.experience, len(self.world), WINDOW)
        return np.split(graph.indices, graph.indptr[1:-1])

    @cached_property
    def cues(self) -> Int64:
        """Returns the moments that are cues."""
        return np.sort(np.random.default_rng([self.seed, 3]).choice(len(self.world), QUERIES, replace=False))

    @cached_property
    def fresh(self) -> Observations:
        """Returns new views of the moments that are cues, with another light and from another side."""
        return Observations(*self.world.observe(self.cues, FRESH))

    @cached_property
    def episodes_as_ids(self) -> list[list[str]]:
        ids = np.array(self.ids).reshape(self.episodes, -1)
        return ids.tolist()

    @cached_property
    def ids(self) -> list[str]:
        return [str(row) for row in range(len(self.world))]

    def train(self, name: str, config: JointConfig, senses: tuple[str, ...] = tuple(multimodal.MISSING)) -> Trained:
        """Returns a trained model; an earlier run's model is read from ``models``."""
        config = replace(config, passes=self.passes)
        encoder = make_encoder(senses)
        trainer = JointTrainer(encoder, OutwardPredictor(DIM, actions=multimodal.ACTIONS), config=config)
        parts = nn.ModuleDict({"target": trainer.target, "outward": trainer.outward, "inward": trainer.inward})
        file = None if self.models is None else self.models / f"{name}-{self.seed}.safetensors"
        only = Observations({s: self.stored.values[s] for s in senses}, {s: self.stored.present[s] for s in senses})
        if file is not None and file.exists():
            weights = safetensors.torch.load_file(file)
            curves = {c: weights.pop(f"curve.{c}").tolist() for c in ("effective_rank", "spread", "outward", "seconds")}
            parts.load_state_dict(weights)
            parts.eval()
            return Trained(trainer, curves)
        mask = _with_any(only)
        report = trainer.fit(
            only if mask.all() else only[np.flatnonzero(mask)],
            self.experience if mask.all() else _keep(self.experience, mask),
            self.world.action[mask],
            WINDOW,
            device=self.device,
            progress=None,
        )
        curves = {c: list(asdict(report)[c]) for c in ("effective_rank", "spread", "outward")}
        curves["seconds"] = [report.seconds]
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            tensors = {f"curve.{c}": torch.tensor(values) for c, values in curves.items()}
            safetensors.torch.save_file({**{n: w.contiguous() for n, w in parts.state_dict().items()}, **tensors}, file)
        return Trained(trainer, curves)


@dataclass(frozen=True)
class Trained:
    """A finished training, with its curves."""

    trainer: JointTrainer
    curves: dict[str, list[float]]

    @property
    def encoder(self) -> CompositeEncoder:
        return self.trainer.target


def make_encoder(senses: tuple[str, ...] = tuple(multimodal.MISSING)) -> CompositeEncoder:
    kinds = {
        "visual": Modality.image((3, multimodal.SIZE, multimodal.SIZE)),
        "auditory": Modality.vector(multimodal.BANDS),
        "proprioceptive": Modality.vector(multimodal.BODY),
        "contextual": Modality.vector(multimodal.CONTEXT),
    }
    return CompositeEncoder({sense: kinds[sense] for sense in senses}, dim=DIM)


def identity_encoder() -> CompositeEncoder:
    """Returns an encoder for states that are already encoded; it returns them unchanged."""
    kinds = {"state": Modality.vector(DIM, precomputed=True)}
    return CompositeEncoder(kinds, fusion="concatenate", weights={"state": DIM})


def index_of(states: Float32, predictor: Predictor) -> PredictiveAssociativeIndex:
    """Returns the library's index over states, with an inward predictor from another training; the ids are the rows."""
    index = PredictiveAssociativeIndex(encoder=identity_encoder())
    index.add({"state": states}, [str(row) for row in range(len(states))])
    index.reencode(identity_encoder(), predictor, window=WINDOW)
    return index


def health(states: Float32) -> dict[str, float]:
    """Returns the effective rank and the spread of states, which show a collapse."""
    tensor = torch.from_numpy(states)
    return {"effective rank": effective_rank(tensor), "spread": spread(tensor)}


def _with_any(observations: Observations) -> npt.NDArray[np.bool_]:
    there: Any = np.any(list(observations.present.values()), axis=0)
    return there


def _keep(experience: Experience, mask: npt.NDArray[np.bool_]) -> Experience:
    position = np.cumsum(mask) - 1
    return Experience(position[experience.states[mask]], experience.trajectory[mask], experience.position[mask])
