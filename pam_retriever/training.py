"""Step 5: the training loop, from trajectories to a predictor."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace

import numpy as np
import torch
from torch.nn import functional as F
from tqdm.auto import tqdm

from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import Experience, associate
from pam_retriever.errors import InvalidInput, TrainingDiverged
from pam_retriever.objectives import InfoNCEObjective, JointObjective, Objective
from pam_retriever.predictor import Predictor, PredictorConfig
from pam_retriever.salience import training_weights
from pam_retriever.types import FitReport, Float32


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
) -> tuple[Predictor, FitReport]:
    """Trains a predictor.

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

    Returns:
        The predictor, on the CPU, and the report.

    Raises:
        InvalidInput: nothing was experienced together.
        TrainingDiverged: the loss became NaN or infinite.
    """
    associations = associate(experience, len(vectors), window)
    if not len(associations):
        raise InvalidInput(
            "The trajectories hold no two different memories.", "at least one association", "Check the ids."
        )
    weights = training_weights(associations, experience, window, config.distance_weights, config.familiarity)
    associations = replace(associations, weights=weights)
    config = config.resolve(steps=len(experience), memories=len(vectors))
    assert config.hidden
    place = choose_device(device)
    half = _uses_bfloat16(config, place)
    random = np.random.default_rng(seed)
    model = Predictor(
        PredictorConfig(vectors.shape[1], config.hidden, config.residual_layers, config.whiten),
        torch.Generator().manual_seed(seed),
    )
    states = torch.tensor(vectors)
    if config.whiten:
        model.fit_whitening(states)
    model, states = model.to(place), states.to(place)
    objective: Objective
    if config.objective == "joint":
        generator = torch.Generator(place).manual_seed(seed)
        objective = JointObjective(experience, associations, window, config, generator)
    else:
        objective = InfoNCEObjective(associations, config, random)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        betas=(0.9, config.beta2),
        weight_decay=config.weight_decay,
        fused=True,
    )

    config = config.with_passes(objective.steps)
    assert config.passes
    total = config.passes * objective.steps
    last_pass = config.stop_after or config.passes
    losses: list[float] = []
    step, done, started = 0, 0.0, time.perf_counter()
    hidden = None if progress is None else not progress
    with tqdm(total=total, desc="fit", unit="step", disable=hidden) as bar:
        while len(losses) < last_pass and done < 1.0:
            loss_of_pass, first_step = torch.zeros((), device=place), step
            for batch in objective.batches(random):
                spent = time.perf_counter() - started
                done = max(step / total, spent / time_budget if time_budget else 0.0)
                if done >= 1.0:
                    break
                rate = _cosine(config.learning_rate, config.final_learning_rate, done)
                if done < config.warmup:
                    rate *= max(done / config.warmup, 0.01)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                temperature = _cosine(config.temperature, config.final_temperature, done)
                with torch.autocast(place.type, torch.bfloat16, enabled=half):
                    loss = objective.loss(model, states, batch, temperature)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.gradient_clip)
                optimizer.step()
                loss_of_pass += loss.detach()
                step += 1
                bar.update()
            if step > first_step:
                losses.append(float(loss_of_pass) / (step - first_step))
                bar.set_postfix(loss=f"{losses[-1]:.4f}")
                _check_finite(losses)
    return model.cpu().eval(), FitReport(
        losses=tuple(losses),
        steps=step,
        seconds=time.perf_counter() - started,
        device=str(place),
        precision="bfloat16" if half else "float32",
        memories=len(np.unique(experience.states)),
        trajectories=len(np.unique(experience.trajectory)),
        associations=len(associations),
        coverage=objective.coverage,
        parameters=sum(p.numel() for p in model.parameters()),
        config=asdict(config),
        stopped_by="passes" if len(losses) >= last_pass and done < 1.0 else "time_budget",
    )


@torch.inference_mode()
def predict(model: Predictor, vectors: Float32, batch_size: int = 4096) -> Float32:
    """f of each row of (n, d), at unit length."""
    batches = torch.split(torch.tensor(vectors, dtype=torch.float32), batch_size)
    predicted: Float32 = torch.cat([F.normalize(model(b), dim=-1) for b in batches]).numpy()
    return predicted


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


def _uses_bfloat16(config: FitConfig, place: torch.device) -> bool:
    if config.precision != "auto":
        return config.precision == "bfloat16"
    if place.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    # without AMX tiles a CPU multiplies float32 faster (docs/training.md)
    return bool(torch.cpu._is_amx_tile_supported())


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))


def _check_finite(losses: list[float]) -> None:
    if not math.isfinite(losses[-1]):
        raise TrainingDiverged(
            f"The loss became {losses[-1]} in pass {len(losses)}.",
            "a finite loss",
            "Lower FitConfig.learning_rate. The index is as it was before fit.",
        )
