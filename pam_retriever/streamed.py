"""Training part by part: what it holds in memory, and what a state costs, does not grow with the experience.

The recipe and the objective are those of ``training``; a part takes the place of all the experience. What that
changes: two memories that met only in another part can be drawn as each other's negatives.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from pam_retriever.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pam_retriever.codes import CodeBook
from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import associate
from pam_retriever.distributed import first_process
from pam_retriever.errors import InvalidInput
from pam_retriever.objectives import JointObjective
from pam_retriever.parts import Part, StoredExperience
from pam_retriever.predictor import Predictor, widen
from pam_retriever.probation import PROBATION_ENDS, Probation
from pam_retriever.salience import training_weights
from pam_retriever.training import (
    Loop,
    check_finite,
    check_processes,
    choose_device,
    new_model,
    uses_bfloat16,
)
from pam_retriever.types import FitReport, Trust

CHECKPOINT_EVERY = 30.0  # seconds, at the end of a part
CHECKPOINT_SHARE = 20  # times as long as it takes to write one: it has all codes


def train_in_parts(
    source: StoredExperience,
    dim: int,
    window: int,
    config: FitConfig,
    *,
    device: str = "auto",
    seed: int = 0,
    time_budget: float | None = None,
    progress: bool | None = None,
    start: Predictor | None = None,
    trust: Trust | None = None,
    codes: CodeBook,
    checkpoint: Path | None = None,
) -> tuple[Predictor, FitReport]:
    """Trains a predictor on what is stored, one part in memory at a time.

    Args:
        source: the experience.
        dim: d.
        window: tau.
        config: how to train.
        device: as of ``train``.
        seed: of everything random.
        time_budget: seconds, those before an interruption included.
        progress: show a progress bar.
        start: go on from this predictor.
        trust: what ``start`` was found to know of cues that were never learnt.
        codes: by row; they are learnt in place.
        checkpoint: a file to go on from if it is there, and to keep the state of the training in meanwhile.

    Returns:
        The predictor, on the CPU, and the report.

    Raises:
        InvalidInput: nothing was experienced together; the published recipe, which draws its pairs from all of the
            experience; or a checkpoint of another training.
        IndexFormatError: the checkpoint is damaged.
        TrainingDiverged: the loss became NaN or infinite.
    """
    if config.objective != "joint":
        raise InvalidInput("Got a fit in parts with objective='info_nce'.", "objective='joint'", "Use config='fast'.")
    check_processes(time_budget)
    if not source.steps:
        raise InvalidInput("There are no trajectories to learn from.", "at least one", "Pass trajectories.")
    return _Training(source, dim, window, config, device, seed, time_budget, start, trust, codes, checkpoint).run(
        progress
    )


class _Training:
    def __init__(
        self,
        source: StoredExperience,
        dim: int,
        window: int,
        config: FitConfig,
        device: str,
        seed: int,
        time_budget: float | None,
        start: Predictor | None,
        trust: Trust | None,
        codes: CodeBook,
        checkpoint: Path | None,
    ) -> None:
        self._codes = codes
        self._source, self._window, self._seed = source, window, seed
        self._file, self._time_budget = checkpoint, time_budget
        config = config.resolve(steps=source.steps, memories=source.bank)
        assert config.batch_size
        config = config.with_passes(-(-source.steps // config.batch_size), source.steps / max(source.experienced, 1))
        assert config.passes and config.hidden
        self._config = config
        last = min(config.stop_after or config.passes, config.passes)
        self._passes = [source.passed(np.random.default_rng([seed, 1, at])) for at in range(config.passes)]
        self._schedule = [(at, blocks) for at in range(last) for blocks in self._passes[at]]
        self._whole = sum(map(len, self._passes))
        if config.passes == 1 and len(self._schedule) > 1:
            self._schedule.append((0, self._schedule[0][1]))  # what was on probation is learnt after all
            self._whole += 1
        self._place = choose_device(device)
        self._half = uses_bfloat16(config, self._place)
        generator = torch.Generator().manual_seed(seed)
        model = new_model(dim, config, generator) if start is None else widen(start, config.hidden, generator)
        self._blocks, self._part = self._schedule[0][1], source.read(self._schedule[0][1])
        self._first = self._part
        if start is None and config.whiten:
            model.fit_whitening(torch.tensor(self._first.vectors))
        self._model = model.to(self._place)
        objective = self._objective(self._first)
        random = np.random.default_rng([seed, 3])
        associations = associate(self._first.experience, len(self._first.rows), window)
        self._probation = Probation(objective, associations, config, None, random, trust)
        self._hidden, self._targets = self._first.rows[objective.hidden], self._first.rows[objective.targets_only]
        states = torch.tensor(self._first.vectors).to(self._place)
        self._loop = Loop(self._model, objective, config, states, time_budget, self._half, codes)
        self._state = Checkpoint(self._fingerprint(), probation=len(self._hidden) + len(self._targets) > 0)
        if checkpoint is not None and checkpoint.exists():
            self._state = read_checkpoint(checkpoint, self._state, self._model, self._loop.optimizer, codes)
            if not self._state.probation:
                self._probation.end(self._state.unlearnt)

    def _fingerprint(self) -> dict[str, object]:
        """What a checkpoint has to be of."""
        source = self._source
        return {
            "config": asdict(self._config),
            "window": self._window,
            "seed": self._seed,
            "steps": source.steps,
            "memories": source.bank,
            "last trajectory": source.last_number,
            "parts": len(self._schedule),
        }

    def _objective(self, part: Part) -> JointObjective:
        associations = associate(part.experience, len(part.rows), self._window)
        weighed = training_weights(
            associations, part.experience, self._window, self._config.distance_weights, self._config.familiarity
        )
        noise = torch.Generator(self._place).manual_seed(self._seed)
        codes = self._codes if self._codes.length else None
        objective = JointObjective(
            part.experience, weighed, self._window, self._config, noise, codes=codes, rows=part.rows
        )
        objective.bank_size = self._source.bank
        objective.settle(part.fresh)
        return objective

    def run(self, progress: bool | None) -> tuple[Predictor, FitReport]:
        state, started = self._state, time.perf_counter()
        before, saved, pause = state.seconds, started, CHECKPOINT_EVERY
        with tqdm(
            total=len(self._schedule),
            initial=state.part,
            desc=self._loop.told(len(self._schedule) * self._loop.objective.steps),
            unit="part",
            disable=None if progress is None else not progress,
        ) as bar:
            while state.part < len(self._schedule):
                finished = self._learn_part(lambda: before + time.perf_counter() - started)
                state.seconds = before + time.perf_counter() - started
                if not finished:
                    break
                state.part += 1
                bar.update()
                bar.set_postfix(loss=f"{state.losses[-1][0] / max(state.losses[-1][1], 1):.4f}")
                if self._file is not None and first_process() and time.perf_counter() - saved >= pause:
                    began = time.perf_counter()
                    write_checkpoint(self._file, state, self._model, self._loop.optimizer, self._codes)
                    saved = time.perf_counter()
                    pause = max(CHECKPOINT_EVERY, CHECKPOINT_SHARE * (saved - began))
        return self._report()

    def _learn_part(self, spent: Callable[[], float]) -> bool:
        """Learns the next part of the schedule; False if the time is over."""
        state, loop = self._state, self._loop
        at, blocks = self._schedule[state.part]
        if not np.array_equal(blocks, self._blocks):
            self._blocks, self._part = blocks, self._source.read(blocks)
            loop.objective = self._objective(self._part)
            loop.states = torch.tensor(self._part.vectors).to(self._place)
        objective = loop.objective
        assert isinstance(objective, JointObjective)
        self._leave_out(objective)
        self._codes.begin(self._part.rows, self._part.vectors, objective.associations, self._seed)
        if state.part < len(self._passes[0]):
            state.associations += len(objective.associations)
        if len(state.losses) <= at:
            state.losses.append((0.0, 0))
        random, total, batches = np.random.default_rng([self._seed, 2, state.part]), 0.0, 0
        for batch in objective.batches(random):
            done = (state.part + batches / objective.steps) / self._whole
            if self._time_budget:
                done = max(done, spent() / self._time_budget)
                if done >= 1.0:
                    return False
            if state.probation and done >= PROBATION_ENDS:
                self._probation.release(self._model, self._first.vectors)
                state.probation, state.unlearnt = False, self._probation.unlearnt
                self._leave_out(objective)
            total += float(loop.learn(batch, min(done, 1.0)))
            batches += 1
            state.step += 1
        sums = state.losses[at]
        state.losses[at] = (sums[0] + total, sums[1] + batches)
        check_finite([state.losses[at][0] / max(state.losses[at][1], 1)])
        return True

    def _leave_out(self, objective: JointObjective) -> None:
        """Keeps from the training what is on probation, in whatever part it comes."""
        on = self._state.probation
        objective.hidden = np.isin(self._part.rows, self._hidden) & on
        objective.targets_only = np.isin(self._part.rows, self._targets) & on

    def _report(self) -> tuple[Predictor, FitReport]:
        model, state = self._model.cpu().eval(), self._state
        return model, FitReport(
            losses=tuple(total / max(count, 1) for total, count in state.losses),
            steps=state.step,
            seconds=state.seconds,
            device=str(self._place),
            precision="bfloat16" if self._half else "float32",
            memories=self._source.experienced,
            trajectories=self._source.trajectories,
            associations=state.associations,
            coverage=1.0,
            parameters=sum(p.numel() for p in model.parameters()),
            config=asdict(self._config),
            stopped_by="passes" if state.part == len(self._schedule) else "time_budget",
            trust=self._probation.trust(model, self._first.vectors),
        )
