"""Configurations of ``fit``: by name, and by the size of the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, get_args

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Familiarity, Recipe
from pam_retriever.validation import check_count, check_finite, check_flag, check_positive, check_seed, check_whole

PASSES, MOST_PASSES = 16, 40  # passes over each memory; small data need more, up to the second number
STEPS, FEWEST_STEPS = 400, 60  # small data get more passes, up to the first number of steps and at least to the second
LARGEST_BATCH, SMALLEST_BATCH = 1_000, 256
MEMORIES, WIDTH, GROWTH = 50_000, 5_120, 0.6  # the width for this many memories, and the power of their number in it
WIDEST, NARROWEST = 16_384, 256

OLD_HOLDOUT = "probation"
STORED_AS = {"holdout": OLD_HOLDOUT}  # names in indexes and checkpoints, as in earlier versions


Objective = Literal["joint", "info_nce"]
DistanceWeights = Literal["inverse", "uniform"]
Precision = Literal["auto", "float32", "bfloat16"]
CHOICES = {
    "objective": get_args(Objective),
    "distance_weights": get_args(DistanceWeights),
    "familiarity": get_args(Familiarity),
    "precision": get_args(Precision),
}
NUMBERS = (
    *("holdout", "learning_rate", "final_learning_rate", "code_learning_rate", "warmup", "beta2", "weight_decay"),
    *("gradient_clip", "temperature", "final_temperature", "code_temperature", "final_code_temperature", "noise"),
)


@dataclass(frozen=True)
class TrainingRequest:
    """The arguments of ``fit`` that do not depend on the objective.

    Attributes:
        device: "auto" (CUDA if there is one), "cpu", "cuda", "cuda:1", ...
        seed: the seed of all random numbers; no global generator is used.
        time_budget: seconds, including those before an interruption. Learning rate and temperature follow the passes or
            the time, whichever is further, so that both schedules end with the budget.
        progress: show a progress bar; None shows it on a terminal and in a notebook.
    """

    device: str = "auto"
    seed: int = 0
    time_budget: float | None = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        """Checks every value.

        Raises:
            InvalidInput: an argument is invalid.
        """
        if not isinstance(self.device, str):
            raise InvalidInput(f"Got device={self.device!r}.", "'auto', 'cpu' or a CUDA device", "Use 'auto'.")
        check_seed(self.seed)
        if self.time_budget is not None:
            check_positive("time_budget", self.time_budget)
        if self.progress is not None:
            check_flag("progress", self.progress)


@dataclass(frozen=True)
class FitConfig:
    """How to train. ``None`` chooses a value by the data, see ``resolve``.

    Attributes:
        objective: "joint" trains f and the episode codes, on all associates of whole
            trajectories. "info_nce" is the paper's loss on single pairs; it trains f alone.
        passes: number of passes over the trajectories or pairs. None: until each memory was seen 16 times; more for
            small data, until there were 400 steps or 40 passes, and in any case 60 steps.
        stop_after: stop after this many passes, without shortening the schedules; None for all passes.
        batch_size: states, or pairs, per step.
        hidden: width of the predictor.
        residual_layers: residual layers of the predictor, after its hidden layer; 2 in the paper.
        whiten: see ``PredictorConfig``.
        code: length of an episode code, see ``episode_embeddings``; 0 for none. "info_nce" has none.
        holdout: share of the memories (at most 200) that are no cues in the first nine tenths of the training. They
            calibrate the channels for cues that training never saw.
        learning_rate: the peak; it falls along a cosine to ``final_learning_rate``. 6e-3 suits residual layers.
        final_learning_rate: the learning rate at the end.
        code_learning_rate: the peak for the codes in batches of 1,000; it falls with the square root of the batch size.
            At a higher rate codes end far from their start values, which are near to the memories around them. Then an
            inverted file (IVF) finds fewer of them.
        warmup: share of the training over which the learning rate rises linearly.
        beta2: decay of the second moment of AdamW.
        weight_decay: the weight decay of AdamW.
        gradient_clip: largest gradient norm.
        temperature: the temperature of the loss of f at the start; it falls along a cosine to ``final_temperature``.
        final_temperature: the temperature at the end.
        code_temperature: the same for the loss of the codes, down to ``final_code_temperature``.
        final_code_temperature: the temperature of the codes at the end.
        noise: standard deviation of Gaussian noise on every (whitened) input dimension.
        distance_weights: weight of an association in the loss of f: "inverse" is the sum over its meetings of 1 /
            distance, "uniform" is 1. For the episode codes all have weight 1.
        familiarity: "log" or "difference" reduces the weight of an association, in training and among the exact links,
            by the meetings that are expected by chance (Dury 3.8; ``experience/weighting.py``); "none" does not.
        pairs: number of directed pairs that "info_nce" draws once, before training.
        precision: "float32", "bfloat16", or "auto": bfloat16 if the hardware multiplies it faster.
    """

    objective: Objective = "joint"
    passes: int | None = None
    stop_after: int | None = None
    batch_size: int | None = None
    hidden: int | None = None
    residual_layers: int = 0
    whiten: bool = True
    code: int = 64
    holdout: float = 0.02
    learning_rate: float = 2e-2
    final_learning_rate: float = 1e-5
    code_learning_rate: float = 6e-3
    warmup: float = 0.05
    beta2: float = 0.95
    weight_decay: float = 1e-4
    gradient_clip: float = 1.0
    temperature: float = 0.2
    final_temperature: float = 0.08
    code_temperature: float = 0.2
    final_code_temperature: float = 0.04
    noise: float = 0.0
    distance_weights: DistanceWeights = "inverse"
    familiarity: Familiarity = "none"
    pairs: int | None = None
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        """Checks every value.

        Raises:
            InvalidInput: a value is of a wrong kind, or out of its range.
        """
        for name in ("passes", "stop_after", "batch_size", "hidden", "pairs"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("residual_layers", "code"):
            check_whole(name, getattr(self, name))
        for name in NUMBERS:
            if check_finite(name, getattr(self, name)) < 0:
                raise InvalidInput(f"Got {name}={getattr(self, name)!r}.", "a number of at least 0", "Leave it out.")
        check_flag("whiten", self.whiten)
        for name, allowed in CHOICES.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise InvalidInput(f"Got {name}={getattr(self, name)!r}.", f"one of {list(allowed)}", "Leave it out.")

    def to_stored(self) -> dict[str, object]:
        """Returns the part that an index and a checkpoint store, under the names of earlier versions."""
        return {STORED_AS.get(name, name): value for name, value in asdict(self).items()}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> float:
            if name != OLD_HOLDOUT:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            _warn_of_old_name()
            return self.holdout

    def resolve(self, steps: int, memories: int) -> FitConfig:
        """Sets width and batch size for ``steps`` experienced states of ``memories`` memories.

        The width grows with the number of memories to the power 0.6. Few memories are learnt in small batches: they
        need many steps more than many negatives (benchmarks/notes/training.md).
        """
        hidden = 128 * round(WIDTH * (memories / MEMORIES) ** GROWTH / 128)
        batch = min(max(math.ceil(memories * PASSES / STEPS), SMALLEST_BATCH), LARGEST_BATCH, steps)
        return replace(
            self,
            batch_size=self.batch_size or batch,
            hidden=self.hidden or min(max(hidden, NARROWEST), WIDEST),
        )

    def to_continue(self) -> FitConfig:
        """Returns the configuration to continue a training: a lower rate, and a low temperature from the start."""
        return replace(
            self,
            learning_rate=self.learning_rate / 2,
            code_learning_rate=self.code_learning_rate / 2,
            temperature=min(self.temperature, 2 * self.final_temperature),
            code_temperature=min(self.code_temperature, 2 * self.final_code_temperature),
        )

    def with_passes(self, steps: int, meetings: float) -> FitConfig:
        """Sets the passes: more for small data, fewer if memories repeat often.

        Args:
            steps: the number of steps of a pass.
            meetings: mean number of experiences per memory.
        """
        wanted = min(max(MOST_PASSES * steps, FEWEST_STEPS), STEPS)
        return replace(self, passes=self.passes or math.ceil(max(PASSES / meetings, wanted / steps)))


def _warn_of_old_name() -> None:
    warnings.warn("FitConfig.probation is called holdout now.", DeprecationWarning, stacklevel=3)


def _taking_old_name(make: Callable[..., None]) -> Callable[..., None]:
    @wraps(make)
    def taking(self: FitConfig, *given: Any, **named: Any) -> None:
        if OLD_HOLDOUT in named:
            _warn_of_old_name()
            if "holdout" in named:
                raise InvalidInput("Got both holdout and probation.", "one of them", "Use holdout.")
            named["holdout"] = named.pop(OLD_HOLDOUT)
        make(self, *given, **named)

    return taking


FitConfig.__init__ = _taking_old_name(FitConfig.__init__)  # type: ignore[method-assign]

CONFIGS = {
    "fast": FitConfig(),
    "best": FitConfig(passes=100),
    "paper": FitConfig(  # D2 of Dury, section 4.3
        objective="info_nce",
        passes=500,
        batch_size=512,
        hidden=1024,
        residual_layers=2,
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


def read_config(config: Recipe | FitConfig) -> FitConfig:
    """Returns a named configuration, or the given one.

    Raises:
        InvalidInput: the name is unknown.
    """
    if isinstance(config, FitConfig):
        return config
    if not isinstance(config, str) or config not in CONFIGS:
        raise InvalidInput(f"Got config={config!r}.", f"one of {list(CONFIGS)} or a FitConfig", "Use 'fast'.")
    return CONFIGS[config]
