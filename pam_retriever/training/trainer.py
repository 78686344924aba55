"""The training loop: from shards of experience to a predictor and episode embeddings."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from pam_retriever.errors import InvalidInput, TrainingDiverged, counted
from pam_retriever.experience.cooccurrence import Associations, associate
from pam_retriever.experience.weighting import weigh
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.predictor import Predictor, widen
from pam_retriever.store.bars import hidden
from pam_retriever.training.checkpoint import CheckpointFile, Progress
from pam_retriever.training.config import LARGEST_BATCH, FitConfig, TrainingRequest
from pam_retriever.training.device import choose_device, uses_bfloat16
from pam_retriever.training.distributed import DistributedPredictor, first_process, processes
from pam_retriever.training.embedding_table import EmbeddingTable
from pam_retriever.training.holdout import ENDS, Holdout
from pam_retriever.training.objectives import InfoNCEObjective, JointObjective, Objective
from pam_retriever.training.optimizers import AdamW
from pam_retriever.training.schedule import Schedule
from pam_retriever.training.shards import BATCHES, PAIRS, PASS, Shard, Shards
from pam_retriever.types import Calibration, FitReport, Float32, Int64

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Start:
    """The start of a continued training.

    Attributes:
        predictor: f.
        calibration: the calibration of unseen cues, from the earlier training.
    """

    predictor: Predictor
    calibration: Calibration | None


@dataclass(frozen=True)
class Trained:
    """The result of a training.

    Attributes:
        predictor: f, on the CPU.
        embeddings: (M, code) episode embeddings by row; zeros for memories without associates.
        report: the report of the training.
    """

    predictor: Predictor
    embeddings: Float32
    report: FitReport


class Trainer:
    """Trains a predictor and the episode embeddings, shard by shard.

    Two memories that co-occur only in another shard may become negatives of each other. With a single shard this
    cannot happen.

    Args:
        shards: the experience.
        window: tau; memories at most this many positions apart are associates.
        config: how to train.
        request: device, seed and time budget.
        start: an earlier result to continue from.
        embeddings: the table, learnt in place; None for a new one.
        checkpoint: a file for the state of the training; if it exists, the training continues from it.

    Attributes:
        config: complete, with the values chosen by the data.
        model: the network.
        acting: the network for the objective: the model itself, or one that shares the work among processes.
        embeddings: the table.

    Raises:
        InvalidInput: no two memories were experienced together; a time budget with several processes; the published
            recipe, which draws pairs from all experience, with several shards; or a checkpoint of another training.
        IndexFormatError: the checkpoint is damaged.
    """

    def __init__(
        self,
        shards: Shards,
        window: int,
        config: FitConfig,
        request: TrainingRequest | None = None,
        *,
        start: Start | None = None,
        embeddings: EmbeddingTable | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        request = TrainingRequest() if request is None else request
        _check(shards, config, request)
        self._shards, self._window, self._request = shards, window, request
        self.config = config = config.resolve(steps=shards.steps, memories=shards.memories)
        self._device = choose_device(request.device)
        self._half = uses_bfloat16(config, self._device)
        self._random = shards.generator(PAIRS)
        first_pass, first, met = self._first(shards.of_pass(shards.generator(PASS)))
        self.model = self._make_model(first, start).to(self._device)
        self.embeddings = embeddings or EmbeddingTable(np.zeros((shards.table, self.model.config.code), np.float32))
        self._use(first_pass[0], first, met)
        self.config = config = self._with_passes(config)
        assert config.passes
        self._schedule = Schedule(shards, first_pass, config.passes, config.stop_after)
        self._over = False
        calibration = None if start is None else start.calibration
        self._holdout = Holdout(first, self._associations, self._objective, config, shards, window, calibration)
        self.acting: Predictor | DistributedPredictor = (
            DistributedPredictor(self.model) if processes() > 1 else self.model
        )
        self._optimizer = AdamW(
            self.model.parameters(),
            lr=config.learning_rate,
            betas=(0.9, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
        )
        self._file = None
        self._progress = Progress(self._fingerprint())
        if checkpoint is not None:
            self._file = CheckpointFile(checkpoint, self.model, self._optimizer, self.embeddings)
            self._progress = self._file.restore(self._progress)
        self._leave_out()
        if self._progress.unseen is not None and not self._holdout.over:
            self._holdout.end(self._progress.unseen)

    # ---- the loop

    def run(self) -> Trained:
        """Trains until the end of the passes or of the time.

        Raises:
            TrainingDiverged: the loss became NaN or infinite.
        """
        progress, clock = self._progress, _Clock(self._progress.seconds, self._request.time_budget)
        with self._bar() as bar:
            for turn in self._schedule.after(progress.turn):
                if not self._take(turn.blocks):
                    progress.turn += 1
                    continue
                objective, first_step = self._objective, progress.step
                if turn.first:
                    progress.associations += len(self._associations)
                total = torch.zeros((), device=self._device)
                for number, batch in enumerate(objective.batches(self._shards.generator(BATCHES, progress.turn))):
                    done = (turn.before * objective.steps + number) / (turn.turns * objective.steps)
                    done = max(min(done, 1.0), clock.share())
                    if clock.share() >= 1.0:
                        break
                    if not self._holdout.over and done >= ENDS:
                        self._holdout.release(self.model)
                        progress.unseen = self._holdout.unseen
                    total += self.step(batch, done)
                    progress.step += 1
                    bar.update()
                steps = progress.step - first_step
                if steps:
                    loss = _checked(progress.add_losses(turn.at, float(total), steps), turn.at)
                    bar.set_postfix(loss=f"{loss:.4f}")
                progress.seconds = clock.seconds()
                if clock.share() >= 1.0:
                    break
                progress.turn += 1
                if self._file is not None and first_process():
                    self._file.save_if_due(progress)
            else:
                self._over = True
        return self._trained()

    def step(self, batch: Int64, done: float) -> Tensor:
        """Makes one step, at the rate and temperature of progress ``done`` from 0 to 1; returns its loss."""
        config = self.config
        assert config.batch_size
        warm = max(done / config.warmup, 0.01) if done < config.warmup else 1.0
        rate = warm * _cosine(config.learning_rate, config.final_learning_rate, done)
        code_rate = warm * _cosine(config.code_learning_rate, config.final_learning_rate, done)
        temperature = _cosine(config.temperature, config.final_temperature, done)
        self.embeddings.temperature = _cosine(config.code_temperature, config.final_code_temperature, done)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._half):
            loss = self._objective.loss(self.acting, self._states, batch, temperature)
        descend(self._optimizer, loss, rate, config.gradient_clip)
        self.embeddings.learn(code_rate * math.sqrt(min(config.batch_size / LARGEST_BATCH, 1)))
        return loss.detach()

    # ---- data

    def make_objective(self, shard: Shard, associations: Associations) -> Objective:
        """Returns the objective of the configuration, over one shard and its weighted ``associations``."""
        if self.config.objective != "joint":
            return InfoNCEObjective(associations, self.config, self._random)
        return JointObjective(
            shard.experience,
            associations,
            self._window,
            self.config,
            self.noise(),
            fresh=shard.fresh if self._shards.whole else None,  # otherwise the pass has sampled old experience
            codes=self.embeddings if self.embeddings.length else None,
            rows=shard.rows,
        )

    def _to_learn(self) -> Associations:
        """Returns the associations with the weights of the loss of f."""
        if self.config.distance_weights == "inverse":
            return self._associations
        return replace(self._associations, weights=self._associations.salience)

    def noise(self) -> torch.Generator:
        """Returns a generator for the input noise."""
        return torch.Generator(self._device).manual_seed(self._request.seed)

    def _first(self, each: list[Int64]) -> tuple[list[Int64], Shard, Associations]:
        """Returns the shards of the first pass, the first of them with something to learn, and its associations."""
        for _ in each:
            shard, met = self._read(each[0])
            if met.salience.any():
                break
            each = [*each[1:], each[0]]
        return each, shard, met

    def _read(self, blocks: Int64) -> tuple[Shard, Associations]:
        shard = self._shards.read(blocks)
        return shard, associate(shard.experience, len(shard.rows), self._window)

    def _take(self, blocks: Int64) -> bool:
        """Switches to a shard, unless it is the current one; returns whether it has anything to learn."""
        if np.array_equal(blocks, self._blocks):
            return True
        shard, met = self._read(blocks)
        if not met.salience.any():  # for example one long trajectory with the same memory in each step
            return False
        self._use(blocks, shard, met)
        self._leave_out()
        return True

    def _use(self, blocks: Int64, shard: Shard, met: Associations) -> None:
        self._blocks, self._rows = blocks, shard.rows
        if not len(met):
            raise InvalidInput(
                "No trajectory holds two different memories.",
                "at least one association",
                "Give, or append, a second step to a trajectory. Recall needs no fit.",
            )
        self._associations = weigh(met, shard.experience, self._window, self.config.familiarity)
        self._states = torch.tensor(shard.vectors).to(self._device)
        self._objective = objective = self.make_objective(shard, self._to_learn())
        without = None
        if isinstance(objective, JointObjective):
            objective.bank_size = self._shards.memories
            objective.settle(shard.fresh)
            without = objective.uncoded
        self.embeddings.begin(shard.rows, shard.vectors, objective.drawable, self._request.seed, without)

    def _leave_out(self) -> None:
        if not self._holdout.over and isinstance(self._objective, JointObjective):
            self._holdout.leave_out(self._objective, self._rows)

    def _make_model(self, first: Shard, start: Start | None) -> Predictor:
        generator = torch.Generator().manual_seed(self._request.seed)
        config, dim = self.config, first.vectors.shape[1]
        assert config.hidden
        if start is not None:
            return widen(start.predictor, config.hidden, generator)
        code = config.code if config.objective == "joint" else 0
        shape = PredictorConfig(dim, config.hidden, config.residual_layers, config.whiten, code)
        model = Predictor(shape, generator)
        if config.whiten:
            model.fit_whitening(torch.tensor(first.vectors))
        return model

    # ---- schedule

    def _with_passes(self, config: FitConfig) -> FitConfig:
        assert config.batch_size
        steps = self._objective.steps if self._shards.whole else math.ceil(self._shards.steps / config.batch_size)
        return config.with_passes(steps, self._shards.meetings)

    def _fingerprint(self) -> dict[str, object]:
        """Returns the settings that must be the same in a checkpoint."""
        about = {"config": self.config.to_stored(), "window": self._window, "seed": self._request.seed}
        return about | self._shards.fingerprint() | {"shards": len(self._schedule)}

    # ---- progress

    def _bar(self) -> Any:
        """Returns a bar. The log gives the expected cost: 2 FLOP forward and 4 backward per parameter and state."""
        assert self.config.batch_size
        a_shard = self._objective.steps
        parameters = sum(p.numel() for p in self.model.parameters())
        flops = 6.0 * parameters * self.config.batch_size * len(self._schedule) * a_shard
        log.info(
            "fit: a predictor %d wide learns %d memories on %s, %.1e FLOP",
            *(self.config.hidden, self._shards.experienced, self._device, flops),
        )
        memories, trajectories = self._shards.experienced, self._shards.trajectories
        title = f"learning {counted(memories, 'memory')} in {counted(trajectories, 'trajectory')}"
        done, disable = self._progress.step, hidden(self._request.progress)
        return tqdm(total=len(self._schedule) * a_shard, initial=done, desc=title, unit="step", disable=disable)

    def _trained(self) -> Trained:
        model, progress, shards = self.model.cpu().eval(), self._progress, self._shards
        report = FitReport(
            losses=tuple(total / max(count, 1) for total, count in progress.losses),
            steps=progress.step,
            seconds=progress.seconds,
            device=str(self._device),
            precision="bfloat16" if self._half else "float32",
            memories=shards.experienced,
            trajectories=shards.trajectories,
            associations=progress.associations,
            coverage=self._objective.coverage,
            parameters=sum(p.numel() for p in model.parameters()),
            config=asdict(self.config),
            stopped_by="passes" if self._over else "time_budget",
            calibration=self._holdout.calibrate(model),
        )
        return Trained(model, self.embeddings.values, report)


class _Clock:
    """The clock of a training, including the seconds ``before`` an interruption."""

    def __init__(self, before: float, budget: float | None) -> None:
        self._began, self._budget = time.perf_counter() - before, budget

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def share(self) -> float:
        """Returns the used share of the budget; 0 without one."""
        return self.seconds() / self._budget if self._budget else 0.0


def descend(optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, clip: float) -> None:
    """Makes one optimiser step on a loss, with the gradient clipped to the norm ``clip``; none on a constant loss."""
    if not loss.requires_grad:  # a batch without anything to learn
        return
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
    optimizer.step()


def _check(shards: Shards, config: FitConfig, request: TrainingRequest) -> None:
    if config.objective != "joint" and not shards.whole:
        raise InvalidInput("Got a fit in parts with objective='info_nce'.", "objective='joint'", "Use config='fast'.")
    if request.time_budget is not None and processes() > 1:
        raise InvalidInput(
            f"Got time_budget={request.time_budget} in {processes()} processes, whose clocks differ.",
            "time_budget=None",
            "Use FitConfig(passes=...).",
        )
    if not shards.steps:
        raise InvalidInput(
            "There are no trajectories to learn from.", "at least one", "Pass trajectories, or group_by."
        )


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))


def _checked(loss: float, at: int) -> float:
    if not math.isfinite(loss):
        raise TrainingDiverged(
            f"The loss became {loss} in pass {at + 1}.",
            "a finite loss",
            "Lower FitConfig.learning_rate. The index is as it was before fit.",
        )
    return loss
