"""Step 5: the training loop, from trajectories to a predictor and the episode codes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from pam_retriever.codes import CodeBook
from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import Experience, associate
from pam_retriever.distributed import Together, processes
from pam_retriever.errors import InvalidInput, TrainingDiverged
from pam_retriever.objectives import JointObjective, MakeObjective, Objective, choose_objective
from pam_retriever.predictor import Predictor, PredictorConfig, widen
from pam_retriever.probation import PROBATION_ENDS, Probation
from pam_retriever.salience import training_weights
from pam_retriever.types import Bools, FitReport, Float32, Int64, Trust


def train(
    vectors: Float32,
    experience: Experience,
    window: int,
    config: FitConfig,
    *,
    device: str = "auto",
    seed: int = 0,
    time_budget: float | None = None,
    progress: bool | None = None,
    held_out: Int64 | None = None,
    start: Predictor | None = None,
    fresh: Bools | None = None,
    make_objective: MakeObjective = choose_objective,
    trust: Trust | None = None,
    codes: Float32 | None = None,
) -> tuple[Predictor, Float32, FitReport]:
    """Trains a predictor, and the episode codes beside it.

    Args:
        vectors: (M, d) float32, the memories that the experience speaks of.
        experience: their trajectories.
        window: tau; memories at most this many positions apart are associates.
        config: how to train.
        device: "auto" (CUDA if there is one), "cpu", "cuda", "cuda:1", ...
        seed: of everything random here; no global generator is touched.
        time_budget: seconds. Learning rate and temperature follow whichever of passes and time is
            further on, so that they have come to their end when the budget has.
        progress: show a progress bar; None shows it on a terminal only.
        held_out: memories that are never a cue, only what others predict (the paper's held-out query states). They get
            no code.
        start: go on from this predictor.
        fresh: (S,) which steps it has not learnt yet: those are learnt, and as many of the others
            rehearsed in every pass.
        make_objective: what to train on, if not on all of the experience.
        trust: what ``start`` was found to know of cues that were never learnt.
        codes: (M, code) episode codes to go on from, zeros for a memory that has none.

    Returns:
        The predictor, on the CPU; the episode codes (M, code) of the memories, zeros for those without associates; and
        the report.

    Raises:
        InvalidInput: nothing was experienced together.
        TrainingDiverged: the loss became NaN or infinite.
    """
    check_processes(time_budget)
    associations = associate(experience, len(vectors), window)
    if not len(associations):
        raise InvalidInput(
            "The trajectories hold no two different memories.", "at least one association", "Check the ids."
        )
    weighed = training_weights(associations, experience, window, config.distance_weights, config.familiarity)
    config = config.resolve(steps=len(experience), memories=len(vectors))
    assert config.hidden
    place = choose_device(device)
    half = uses_bfloat16(config, place)
    random = np.random.default_rng(seed)
    states = torch.tensor(vectors)
    generator = torch.Generator().manual_seed(seed)
    model = new_model(vectors.shape[1], config, generator) if start is None else widen(start, config.hidden, generator)
    if start is None and config.whiten:
        model.fit_whitening(states)
    model, states = model.to(place), states.to(place)
    noise = torch.Generator(place).manual_seed(seed)
    book = CodeBook(np.zeros((len(vectors), model.config.code), np.float32) if codes is None else codes.copy())
    objective = make_objective(experience, weighed, window, config, noise, random, fresh, book if book.length else None)
    book.begin(np.arange(len(vectors)), vectors, objective.learnt, seed)
    joint = objective if isinstance(objective, JointObjective) else None
    config = config.with_passes(objective.steps, len(experience) / len(np.unique(experience.states)))
    if held_out is not None:
        book.forget(held_out)
    probation = Probation(joint, associations, config, held_out, random, trust)
    loop = Loop(model, objective, config, states, time_budget, half, book)
    loop.run(random, progress, lambda: probation.release(model, vectors))
    model = model.cpu().eval()
    report = FitReport(
        losses=tuple(loop.losses),
        steps=loop.step,
        seconds=loop.seconds,
        device=str(place),
        precision="bfloat16" if half else "float32",
        memories=len(np.unique(experience.states)),
        trajectories=len(np.unique(experience.trajectory)),
        associations=len(associations),
        coverage=objective.coverage,
        parameters=sum(p.numel() for p in model.parameters()),
        config=asdict(config),
        stopped_by="passes" if loop.finished else "time_budget",
        trust=probation.trust(model, vectors),
    )
    return model, book.values, report


class Loop:
    """Steps until the passes or the time are over.

    Attributes:
        losses: mean loss of each pass.
        step: how many were made.
        seconds: that they took.
        finished: all passes were made, before the time was over.
        objective: what is learnt.
        states: (M, d) of whom.
        optimizer: of the model.
        acting: the model as the objective sees it.
        codes: that the objective learns beside the model.
    """

    def __init__(
        self,
        model: Predictor,
        objective: Objective,
        config: FitConfig,
        states: Tensor,
        time_budget: float | None,
        half: bool,
        codes: CodeBook,
    ) -> None:
        self.codes = codes
        self._model, self.objective, self._config, self.states = model, objective, config, states
        # the model, or its share of the work where several processes train together
        self.acting: Predictor | Together = Together(model) if processes() > 1 else model
        self._time_budget, self._half = time_budget, half
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=config.learning_rate,
            betas=(0.9, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.losses: list[float] = []
        self.step, self.seconds, self.finished = 0, 0.0, False

    def run(self, random: np.random.Generator, progress: bool | None, after_probation: Callable[[], None]) -> None:
        """Trains the model; ``after_probation`` is called once nine tenths are done."""
        assert self._config.passes
        total = self._config.passes * self.objective.steps
        last_pass = self._config.stop_after or self._config.passes
        done, started, probation = 0.0, time.perf_counter(), True
        with tqdm(
            total=total, desc=self.told(total), unit="step", disable=None if progress is None else not progress
        ) as bar:
            while len(self.losses) < last_pass and done < 1.0:
                loss_of_pass, first_step = torch.zeros((), device=self.states.device), self.step
                for batch in self.objective.batches(random):
                    spent = time.perf_counter() - started
                    done = max(self.step / total, spent / self._time_budget if self._time_budget else 0.0)
                    if done >= 1.0:
                        break
                    if probation and done >= PROBATION_ENDS:
                        probation = False
                        after_probation()
                    loss_of_pass += self.learn(batch, done)
                    self.step += 1
                    bar.update()
                if self.step > first_step:
                    self.losses.append(float(loss_of_pass) / (self.step - first_step))
                    bar.set_postfix(loss=f"{self.losses[-1]:.4f}")
                    check_finite(self.losses)
        self.seconds = time.perf_counter() - started
        self.finished = len(self.losses) >= last_pass and done < 1.0

    def told(self, steps: int) -> str:
        """What so many steps cost, before they are made: 2 forward and 4 back for a parameter and a state."""
        assert self._config.batch_size
        flops = 6.0 * sum(p.numel() for p in self._model.parameters()) * self._config.batch_size * steps
        return f"fit ({self._config.hidden} wide, {flops:.1e} FLOP)"

    def learn(self, batch: Int64, done: float) -> Tensor:
        """One step, at the rate and temperature of a training that is ``done`` from 0 to 1; returns its loss."""
        config = self._config
        rate = _cosine(config.learning_rate, config.final_learning_rate, done)
        if done < config.warmup:
            rate *= max(done / config.warmup, 0.01)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        temperature = _cosine(config.temperature, config.final_temperature, done)
        self.codes.temperature = _cosine(config.code_temperature, config.final_code_temperature, done)
        with torch.autocast(self.states.device.type, torch.bfloat16, enabled=self._half):
            loss = self.objective.loss(self.acting, self.states, batch, temperature)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), config.gradient_clip)
        self.optimizer.step()
        self.codes.learn(rate)
        return loss.detach()


def new_model(dim: int, config: FitConfig, generator: torch.Generator) -> Predictor:
    """An untrained predictor as the configuration says."""
    assert config.hidden
    code = config.code if config.objective == "joint" else 0
    return Predictor(PredictorConfig(dim, config.hidden, config.residual_layers, config.whiten, code), generator)


def choose_device(device: str) -> torch.device:
    """The torch device that a name means here.

    Raises:
        InvalidInput: an unknown name, or a device that this machine lacks.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise InvalidInput(
            f"Got device={device!r}, which cannot be used here ({str(error).splitlines()[0]}).",
            "'auto', 'cpu' or a CUDA device of this machine",
            "Use 'auto'.",
        ) from error
    return place


def uses_bfloat16(config: FitConfig, place: torch.device) -> bool:
    """Whether to train in bfloat16 there."""
    if config.precision != "auto":
        return config.precision == "bfloat16"
    if place.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    # without AMX tiles a CPU multiplies float32 faster (docs/training.md)
    return bool(torch.cpu._is_amx_tile_supported())


def check_processes(time_budget: float | None) -> None:
    """Refuses what several processes could not do alike.

    Raises:
        InvalidInput: a time budget, by which each would train differently.
    """
    if time_budget is not None and processes() > 1:
        raise InvalidInput(
            f"Got time_budget={time_budget} in {processes()} processes, whose clocks differ.",
            "time_budget=None",
            "Use FitConfig(passes=...).",
        )


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))


def check_finite(losses: list[float]) -> None:
    """Raises TrainingDiverged if the last of the losses is not finite."""
    if not math.isfinite(losses[-1]):
        raise TrainingDiverged(
            f"The loss became {losses[-1]} in pass {len(losses)}.",
            "a finite loss",
            "Lower FitConfig.learning_rate. The index is as it was before fit.",
        )
