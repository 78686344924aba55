"""Joint training: the encoder, the outward and the inward predictor, in one latent space (Dury 3.1 to 3.5)."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from pam_retriever.errors import InvalidInput, TrainingDiverged
from pam_retriever.experience.cooccurrence import Experience, within
from pam_retriever.jepa.batches import Actions, TrainingData, batches, check_states, drop, goes_on, read_actions
from pam_retriever.jepa.collapse import effective_rank, spread, variance_loss
from pam_retriever.jepa.ema import follow, make_target
from pam_retriever.jepa.encoder import CompositeEncoder
from pam_retriever.jepa.observations import Observations, read_observations
from pam_retriever.jepa.outward import OutwardPredictor
from pam_retriever.limits import MAX_WINDOW
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.losses import multi_positive_info_nce
from pam_retriever.model.predictor import Predictor
from pam_retriever.protocols import ObservationsLike
from pam_retriever.training.device import choose_device
from pam_retriever.training.optimizers import AdamW
from pam_retriever.training.trainer import descend
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import check_count, check_finite, check_flag, check_positive, check_seed, check_whole

OPTIONAL = ("momentum", "final_momentum")
SHARES = (*OPTIONAL, "drop")


@dataclass(frozen=True)
class JointConfig:
    """The settings of a joint training.

    Attributes:
        passes: number of passes over all trajectories.
        settle: later passes, in which only the outward predictor is trained, on the final states. (``fit`` of the index
            trains the inward one.)
        batch_size: states per step, from whole trajectories or segments of them.
        learning_rate: the peak, after a twentieth of the steps; it falls along a cosine to a hundredth.
        weight_decay: the weight decay of AdamW.
        gradient_clip: largest gradient norm.
        momentum: the momentum of the target encoder. With None the encoder itself computes the targets.
        final_momentum: the momentum at the end, reached linearly; None for constant momentum.
        stop_gradient: whether targets are constants. If not, the encoder gets gradients through them, even if the
            target encoder computes their values.
        outward: weight of the outward loss.
        inward: weight of the inward loss.
        variance: weight of the variance term, see ``collapse.variance_loss``.
        horizon: number of steps that the outward predictor is unrolled.
        drop: probability that a modality is dropped from the input, so that the encoder learns to handle missing ones.
        temperature: the temperature of the inward loss at the start; it falls along a cosine to ``final_temperature``.
        final_temperature: the temperature at the end.
        hidden: width of the inward predictor.
    """

    passes: int = 15
    settle: int = 40
    batch_size: int = 400
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    gradient_clip: float = 1.0
    momentum: float | None = 0.98
    final_momentum: float | None = None
    stop_gradient: bool = True
    outward: float = 1.0
    inward: float = 1.0
    variance: float = 0.0
    horizon: int = 5
    drop: float = 0.1
    temperature: float = 0.2
    final_temperature: float = 0.08
    hidden: int = 512

    def __post_init__(self) -> None:
        """Checks every value.

        Raises:
            InvalidInput: a value is of a wrong kind, or out of its range.
        """
        for name in ("passes", "batch_size", "horizon", "hidden"):
            check_count(name, getattr(self, name))
        check_whole("settle", self.settle)
        check_flag("stop_gradient", self.stop_gradient)
        for name in ("learning_rate", "gradient_clip", "temperature", "final_temperature"):
            check_positive(name, getattr(self, name))
        for name in ("weight_decay", "outward", "inward", "variance", "drop", "momentum", "final_momentum"):
            value, most = getattr(self, name), 1 if name in SHARES else math.inf
            if not (name in OPTIONAL and value is None) and not 0 <= check_finite(name, value) <= most:
                raise InvalidInput(f"Got {name}={value!r}.", f"a number from 0 to {most}", "Leave it out.")


@dataclass(frozen=True)
class JointReport:
    """The report of a joint training.

    Attributes:
        outward: mean outward loss of each pass: squared error per dimension, 2 for unrelated states.
        inward: mean inward loss of each pass.
        effective_rank: effective rank of a sample of the target encoder's states after each pass; 1 if all are equal.
        spread: standard deviation of these states, 1 for states in all directions; see ``collapse.spread``.
        seconds: duration.
        steps: number of steps.
        device: the device of the training.
        config: the settings.
    """

    outward: tuple[float, ...]
    inward: tuple[float, ...]
    effective_rank: tuple[float, ...]
    spread: tuple[float, ...]
    seconds: float
    steps: int
    device: str
    config: dict[str, object]

    @property
    def collapsed(self) -> bool:
        """Whether all states ended up nearly the same."""
        return self.spread[-1] < 0.1


Moments = ObservationsLike | Observations


class JointTrainer:
    """Trains an encoder with an outward and an inward predictor.

    The ``Trainer`` of ``fit`` has constant states. Here every step changes the encoder, its target copy, and both
    predictors.

    Args:
        encoder: the encoder to train. The target copies all its weights, so none may be frozen.
        outward: the outward predictor; None creates one without actions.
        inward: the inward predictor; None creates one.
        config: the settings.

    Attributes:
        encoder, outward, inward: trained by ``fit``, in place.
        target: the EMA copy of the encoder. It changes more slowly, and encodes memories and cues.
    """

    def __init__(
        self,
        encoder: CompositeEncoder,
        outward: OutwardPredictor | None = None,
        inward: Predictor | None = None,
        config: JointConfig | None = None,
    ) -> None:
        self.config = config or JointConfig()
        self.encoder = encoder
        self.target = make_target(encoder)
        self.outward = outward or OutwardPredictor(encoder.dim)
        shape = PredictorConfig(encoder.dim, self.config.hidden)
        self.inward = inward or Predictor(shape, torch.Generator().manual_seed(0))
        for name, module in (("outward", self.outward.dim), ("inward", self.inward.config.dim)):
            if module != encoder.dim:
                raise InvalidInput(f"The {name} predictor has dim={module}.", f"{encoder.dim}, the encoder's", "Match.")

    @torch.enable_grad()
    def fit(
        self,
        observations: Moments,
        experience: Experience,
        actions: Actions | None = None,
        window: int = 5,
        *,
        salience: npt.NDArray[np.floating] | None = None,
        device: str = "auto",
        seed: int = 0,
        progress: bool | None = None,
    ) -> JointReport:
        """Trains; a second call continues from the end of the first.

        Args:
            observations: the observations of the M memories: a list of dicts, a dict of columns, or ``Observations``.
            experience: the trajectories, S steps that index memories.
            actions: (S,) int64 or (S, action_dim): the action at each step.
            window: tau.
            salience: (M,) weight of each memory. An association has the larger weight of its two memories.
            device: "auto" uses CUDA if available.
            seed: the seed of the batches.
            progress: show a progress bar; None shows it on a terminal only.

        Raises:
            InvalidInput: an argument is invalid.
            TrainingDiverged: the loss became NaN or infinite.
        """
        read = read_observations(observations, self.encoder.modalities, "fit")
        actions = read_actions(self.outward, actions, len(experience))
        window, seed = check_count("window", window, MAX_WINDOW), check_seed(seed)
        if progress is not None:
            check_flag("progress", progress)
        data = TrainingData.of(read, experience, actions, window, salience)
        chosen = choose_device(device)
        for module in (self.encoder, self.target, self.outward, self.inward):
            module.to(chosen)
        parameters = [p for m in (self.encoder, self.outward, self.inward) for p in m.parameters() if p.requires_grad]
        config = self.config
        optimizer = AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.95))
        random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        segments = data.segments(config.batch_size, config.horizon, window)
        total = config.passes * math.ceil(len(experience) / config.batch_size)
        sample = read[np.sort(random.permutation(len(read))[:1000])]
        curves: dict[str, list[float]] = {"outward": [], "inward": [], "effective_rank": [], "spread": []}
        step, started = 0, time.perf_counter()
        self.encoder.train()
        with tqdm(
            total=total, desc="joint fit", unit="step", disable=None if progress is None else not progress
        ) as bar:
            for _ in range(config.passes):
                sums = torch.zeros(2)
                drawn = list(batches(segments, random, math.ceil(len(experience) / config.batch_size)))
                for steps in drawn:
                    sums += self._step(data, steps, step / total, optimizer, generator)
                    step += 1
                    bar.update()
                self._note(curves, sums / len(drawn), sample)
                bar.set_postfix(outward=f"{curves['outward'][-1]:.3f}", inward=f"{curves['inward'][-1]:.3f}")
        self._settle(data, segments, random, chosen)
        for module in (self.encoder, self.target, self.outward, self.inward):
            module.cpu().eval()
        return JointReport(
            **{name: tuple(curve) for name, curve in curves.items()},
            seconds=time.perf_counter() - started,
            steps=step,
            device=str(chosen),
            config=asdict(config),
        )

    def _step(
        self,
        data: TrainingData,
        steps: Int64,
        done: float,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
    ) -> Tensor:
        """Makes one step, at progress ``done`` from 0 to 1; returns the outward and the inward loss, (2,)."""
        config = self.config
        rate = config.learning_rate * min(done / 0.05 + 0.01, 0.01 + 0.99 * _cosine(done))
        low, high = config.final_temperature, config.temperature
        losses = self._losses(data, steps, low + (high - low) * _cosine(done), generator)
        descend(optimizer, losses[0], rate, config.gradient_clip)
        follow(self.target, self.encoder, _momentum(config, done))
        return torch.stack(losses[1:]).detach().cpu()

    def surprise(self, observations: Moments, experience: Experience, actions: Actions | None = None) -> Float32:
        """Returns the error of the outward predictor at each step (S,): 1 - cosine; 0 at the start of a trajectory.

        Raises:
            InvalidInput: an argument is invalid.
        """
        read = read_observations(observations, self.encoder.modalities, "surprise")
        check_states(experience, len(read))
        actions = read_actions(self.outward, actions, len(experience))
        states = torch.from_numpy(self.target.encode(read))[experience.states]
        went_on = goes_on(experience)[:-1]
        with torch.inference_mode():
            given = None if actions is None else torch.from_numpy(actions[:-1])
            predicted = self.outward(states[:-1], given)
            error = (1 - F.cosine_similarity(predicted, states[1:])).numpy()
        return np.concatenate([[0], np.where(went_on, error, 0)]).astype(np.float32)

    def _settle(self, data: TrainingData, segments: Int64, random: np.random.Generator, device: torch.device) -> None:
        """Trains the outward predictor on the final states. Nothing is encoded again, so this takes little time."""
        config = self.config
        if not config.settle or not config.outward:
            return
        states = torch.from_numpy(self.target.encode(data.observations)).to(device)
        parameters = list(self.outward.parameters())
        optimizer = AdamW(parameters, weight_decay=config.weight_decay, betas=(0.9, 0.95))
        count = math.ceil(len(data.experience) / config.batch_size)
        for number in range(config.settle):
            rate = config.learning_rate / 2 * (0.01 + 0.99 * _cosine(number / config.settle))
            for steps in batches(segments, random, count):
                members, at = np.unique(data.experience.states[steps], return_inverse=True)
                x = states[torch.from_numpy(members).to(device)]
                loss = self._outward_loss(x, x, data, steps, torch.from_numpy(at).to(device))
                descend(optimizer, loss, rate, config.gradient_clip)

    def _losses(self, data: TrainingData, steps: Int64, temperature: float, generator: torch.Generator) -> list[Tensor]:
        """Returns the whole loss of a batch of steps, and its outward and inward parts."""
        config, device = self.config, next(self.outward.parameters()).device
        members, at = np.unique(data.experience.states[steps], return_inverse=True)
        values, present = self.encoder.tensors(data.observations[members], device)
        states = self.encoder(values, drop(present, config.drop, generator))  # (B, d)
        targets = self._targets(states, values, present)  # (B, d)
        outward = inward = states.new_zeros(())
        if config.outward:
            outward = self._outward_loss(states, targets, data, steps, torch.from_numpy(at).to(device))
        if config.inward:
            inward = self._inward_loss(states, targets, data, members, temperature)
        loss = config.outward * outward + config.inward * inward
        if config.variance:
            loss = loss + config.variance * variance_loss(states)
        return [loss, outward, inward]

    def _targets(self, states: Tensor, values: dict[str, Tensor], present: dict[str, Tensor]) -> Tensor:
        """Returns the targets of the predictions, by the target encoder or the encoder, with or without gradients."""
        own = states.detach() if self.config.stop_gradient else states
        if self.config.momentum is None:
            return own
        with torch.no_grad():
            slow: Tensor = self.target(values, present)
        return slow if self.config.stop_gradient else own + (slow - own).detach()

    def _outward_loss(self, states: Tensor, targets: Tensor, data: TrainingData, steps: Int64, at: Tensor) -> Tensor:
        """Returns the mean squared error per dimension, over 1 to ``horizon`` steps ahead."""
        ahead = data.ahead(steps, self.config.horizon)  # (B, horizon) positions in steps, -1 for none
        actions = data.future_actions(steps, self.config.horizon)
        given = None if actions is None else torch.from_numpy(actions).to(states.device)
        total, count = states.new_zeros(()), 0
        for step, reached in enumerate(self.outward.rollout(states[at], given, self.config.horizon)):
            starts = np.flatnonzero(ahead[:, step] >= 0)
            if len(starts):
                ends = torch.from_numpy(ahead[starts, step]).to(states.device)
                error = reached[torch.from_numpy(starts).to(states.device)] - targets[at[ends]]
                total, count = total + error.square().mean(), count + 1
        return total / max(count, 1)

    def _inward_loss(
        self, states: Tensor, targets: Tensor, data: TrainingData, members: Int64, temperature: float
    ) -> Tensor:
        """Returns the loss of ``fit``, on the score of recall, against the targets."""
        rows, columns, _ = within(data.associations, members, data.lookup)
        if not len(rows):
            return states.new_zeros(())
        weights = np.ones(len(rows), np.float32)
        if data.salience is not None:
            weights = np.maximum(data.salience[members[rows]], data.salience[members[columns]])
        f = F.normalize(self.inward(states), dim=-1)
        forward = f @ F.normalize(targets, dim=-1).T
        device = states.device
        return multi_positive_info_nce(
            (forward + forward.T + f @ f.T) / temperature,
            torch.from_numpy(rows).to(device),
            torch.from_numpy(columns).to(device),
            torch.from_numpy(weights).to(device),
            bank_size=len(data.lookup),
        )

    def _note(self, curves: dict[str, list[float]], losses: Tensor, sample: Observations) -> None:
        if not torch.isfinite(losses).all():
            raise TrainingDiverged(
                f"The losses became {losses.tolist()}.", "finite losses", "Lower JointConfig.learning_rate."
            )
        states = torch.from_numpy(self.target.encode(sample))
        curves["outward"].append(float(losses[0]))
        curves["inward"].append(float(losses[1]))
        curves["effective_rank"].append(effective_rank(states))
        curves["spread"].append(spread(states))


def salience_of(surprise: npt.NDArray[np.floating], usual: float = 3.0, strongest: float = 20.0) -> Float32:
    """Converts surprise to salience: 1 in the usual range, up to ``strongest`` far beyond it.

    Args:
        surprise: (S,) from ``JointTrainer.surprise``; zeros (starts of trajectories) get 1.
        usual: upper end of the usual range, in robust standard deviations (1.4826 times the median absolute deviation)
            above the median. Each further deviation adds 1.
        strongest: the largest salience.

    Returns:
        (S,) at least 1.
    """
    known = surprise[surprise > 0]
    middle = np.median(known) if len(known) else 0.0
    deviation = 1.4826 * float(np.median(np.abs(known - middle))) if len(known) else 0.0
    excess = (surprise - middle) / max(deviation, 1e-6) - usual
    return (1 + np.clip(excess, 0, strongest - 1)).astype(np.float32)


def _momentum(config: JointConfig, done: float) -> float:
    start = config.momentum or 0.0
    return start if config.final_momentum is None else start + (config.final_momentum - start) * done


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
