"""How ``fit`` trains: named configurations, and what follows the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Familiarity

PASSES, FEWEST_STEPS = 16, 200
FEW_STATES, FEWEST_SHARE = 1_300, 0.3  # a pass of fewer states needs fewer steps, but no less than that share
LARGEST_BATCH, SMALLEST_BATCH = 1_000, 256  # in between, a batch is half of the states
WIDEST, NARROW, NARROWEST, PER_MEMORY = 4_096, 512, 256, 3  # few memories take a network from 256 to 512 wide

OLD_HOLDOUT = "probation"
STORED_AS = {"holdout": OLD_HOLDOUT}  # in indexes and checkpoints, so that those of earlier versions are read


@dataclass(frozen=True)
class TrainingRequest:
    """What a caller of ``fit`` asks of one training, whatever it learns.

    Attributes:
        device: "auto" (CUDA if there is one), "cpu", "cuda", "cuda:1", ...
        seed: of everything random; no global generator is touched.
        time_budget: seconds, those before an interruption included. Learning rate and temperature follow whichever
            of passes and time is further on, so that they have come to their end when the budget has.
        progress: show a progress bar; None shows it on a terminal and in a notebook.
    """

    device: str = "auto"
    seed: int = 0
    time_budget: float | None = None
    progress: bool | None = None


@dataclass(frozen=True)
class FitConfig:
    """How to train. ``None`` follows the data, see ``resolve``.

    Attributes:
        objective: "joint" trains f and the episode codes, on all associates of whole
            trajectories; "info_nce" is the paper's loss on single pairs, which trains f alone.
        passes: over the trajectories, or over the drawn pairs; None: until each memory was seen 16 times, and
            at least 200 steps; fewer, down to 80, where a pass holds less than 800 states.
        stop_after: end after so many passes, in the middle of the schedules; None goes to their end.
        batch_size: states in a step, or pairs.
        hidden: width of the predictor.
        residual_layers: residual layers of the predictor.
        whiten: see ``PredictorConfig``.
        code: length of an episode code, see ``episode_embeddings``; 0 for none. "info_nce" has none.
        holdout: share of the memories (at most 200) that are no cues in the first nine tenths of the training.
            What the channels know of them by then says how far to trust each on a cue that was never learnt.
        learning_rate: peak; falls along a cosine to ``final_learning_rate``.
        final_learning_rate: at the end.
        warmup: share of the training over which the learning rate rises linearly.
        beta2: of AdamW, how slowly the second moment forgets.
        weight_decay: of AdamW.
        gradient_clip: largest gradient norm.
        temperature: of the loss of f at the start; falls along a cosine to ``final_temperature``.
        final_temperature: at the end.
        code_temperature: of the loss of the codes at the start; falls likewise to ``final_code_temperature``.
        final_code_temperature: at the end.
        noise: standard deviation of Gaussian noise on every (whitened) input dimension.
        distance_weights: in the loss of f, "inverse" weighs an association by the sum over its
            meetings of 1 / distance, "uniform" weighs all alike. The episode codes weigh all alike.
        familiarity: "log" or "difference" weighs an association, in training and among the exact links, by what is
            left of it above how often its two memories would have met by chance (Dury 3.8; ``familiarity.py``),
            "none" does not.
        pairs: how many directed pairs "info_nce" draws, once, before training.
        precision: "float32", "bfloat16", or "auto": bfloat16 where the hardware multiplies it faster.
    """

    objective: Literal["joint", "info_nce"] = "joint"
    passes: int | None = None
    stop_after: int | None = None
    batch_size: int | None = None
    hidden: int | None = None
    residual_layers: int = 2
    whiten: bool = True
    code: int = 64
    holdout: float = 0.02
    learning_rate: float = 6e-3
    final_learning_rate: float = 1e-5
    warmup: float = 0.05
    beta2: float = 0.95
    weight_decay: float = 1e-4
    gradient_clip: float = 1.0
    temperature: float = 0.2
    final_temperature: float = 0.08
    code_temperature: float = 0.2
    final_code_temperature: float = 0.04
    noise: float = 0.0
    distance_weights: Literal["inverse", "uniform"] = "inverse"
    familiarity: Familiarity = "none"
    pairs: int | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    def to_stored(self) -> dict[str, object]:
        """The part of it that an index and a checkpoint store, under the names of earlier versions."""
        return {STORED_AS.get(name, name): value for name, value in asdict(self).items()}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> float:
            if name != OLD_HOLDOUT:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            _warn_of_old_name(3)
            return self.holdout

    def resolve(self, steps: int, memories: int) -> FitConfig:
        """Fills in width and batch size for ``steps`` experienced states of ``memories`` memories.

        The width grows with the square root of the number of memories, so that parameters grow
        in proportion to it (docs/how/training.md); with some hundred of them it is their cost, and not what they
        learn, that a width of 512 adds to.
        """
        hidden = 128 * round(1024 * math.sqrt(memories / 50_000) / 128)
        narrowest = min(max(128 * (memories // (128 * PER_MEMORY)), NARROWEST), NARROW)
        batch = min(steps, max(math.ceil(steps / 2), SMALLEST_BATCH), LARGEST_BATCH)
        return replace(
            self,
            batch_size=self.batch_size or batch,
            hidden=self.hidden or min(max(hidden, narrowest), WIDEST),
        )

    def to_continue(self) -> FitConfig:
        """How to go on from a predictor that has learnt most of it already: gentler, and sharp from the start."""
        return replace(
            self,
            learning_rate=self.learning_rate / 2,
            temperature=min(self.temperature, 2 * self.final_temperature),
            code_temperature=min(self.code_temperature, 2 * self.final_code_temperature),
        )

    def with_passes(self, steps: int, meetings: float, states: int) -> FitConfig:
        """Fills in the passes: small data get more of them, and fewer do where memories come again and again.

        Args:
            steps: that a pass takes.
            meetings: how often a memory was experienced, on average.
            states: that a pass holds.
        """
        fewest = FEWEST_STEPS * min(max(states / FEW_STATES, FEWEST_SHARE), 1)
        return replace(self, passes=self.passes or math.ceil(max(PASSES / meetings, fewest / steps)))


def _warn_of_old_name(level: int) -> None:
    warnings.warn("FitConfig.probation is called holdout now.", DeprecationWarning, stacklevel=level)


def _taking_old_name(make: Callable[..., None]) -> Callable[..., None]:
    @wraps(make)
    def taking(self: FitConfig, *given: Any, **named: Any) -> None:
        if OLD_HOLDOUT in named:
            _warn_of_old_name(3)
            if "holdout" in named:
                raise InvalidInput("Got both holdout and probation.", "one of them", "Use holdout.")
            named["holdout"] = named.pop(OLD_HOLDOUT)
        make(self, *given, **named)

    return taking


FitConfig.__init__ = _taking_old_name(FitConfig.__init__)  # type: ignore[method-assign]

CONFIGS = {
    "fast": FitConfig(),
    "best": FitConfig(passes=100, learning_rate=4e-3),
    "paper": FitConfig(  # D2 of Dury, section 4.3
        objective="info_nce",
        passes=500,
        batch_size=512,
        hidden=1024,
        whiten=False,
        code=0,
        holdout=0.0,
        learning_rate=5e-4,
        warmup=0.0,
        beta2=0.999,
        temperature=0.15,
        final_temperature=0.05,
        pairs=200_000,
        precision="float32",
    ),
}


def read_config(config: str | FitConfig) -> FitConfig:
    """A named configuration, or the given one.

    Raises:
        InvalidInput: for an unknown name.
    """
    if isinstance(config, FitConfig):
        return config
    if config not in CONFIGS:
        raise InvalidInput(f"Got config={config!r}.", f"one of {list(CONFIGS)} or a FitConfig", "Use 'fast'.")
    return CONFIGS[config]
