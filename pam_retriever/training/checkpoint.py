"""The state of a training in one file, to continue after a kill."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.model.predictor import Predictor
from pam_retriever.store.folder.files import write_atomically
from pam_retriever.training.embedding_table import EmbeddingTable
from pam_retriever.types import Float32, ScoringWeights

MOMENTS = ("exp_avg", "exp_avg_sq")  # the moments of AdamW
EVERY = 30.0  # seconds between files, which are written at the end of a shard
SHARE = 20  # the interval is at least this many times the time to write a file, which has all embeddings


@dataclass
class Progress:
    """The progress of a training.

    Attributes:
        of: identifies the training, in JSON.
        turn: number of finished shards of the schedule.
        step: number of steps.
        seconds: duration of these steps.
        losses: sum and number of the losses of each pass.
        associations: current number of associations in the first pass.
        unseen: the calibration of unseen cues; None while memories are held out.
    """

    of: dict[str, object]
    turn: int = 0
    step: int = 0
    seconds: float = 0.0
    losses: list[tuple[float, int]] = field(default_factory=list)
    associations: int = 0
    unseen: ScoringWeights | None = None

    def add_losses(self, at: int, total: float, steps: int) -> float:
        """Adds the losses of a shard to pass ``at``; returns the mean loss of the pass so far."""
        self.losses += [(0.0, 0)] * (at + 1 - len(self.losses))
        before, count = self.losses[at]
        self.losses[at] = before + total, count + steps
        return (before + total) / max(count + steps, 1)


class CheckpointFile:
    """Saves and restores the state of a training.

    Args:
        path: the path of the file; if it exists, the training continues from it.
        model: the network.
        optimizer: the optimizer of the network.
        embeddings: the episode embeddings.
    """

    def __init__(
        self, path: Path, model: Predictor, optimizer: torch.optim.Optimizer, embeddings: EmbeddingTable
    ) -> None:
        self._path, self._model, self._optimizer, self._embeddings = path, model, optimizer, embeddings
        self._saved, self._pause = time.perf_counter(), EVERY

    def restore(self, new: Progress) -> Progress:
        """Restores the state of a ``new`` training from the file, if it exists.

        Raises:
            InvalidInput: the file belongs to another training.
            IndexFormatError: the file is damaged.
        """
        if not self._path.exists():
            return new
        try:
            with safetensors.safe_open(str(self._path), "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
                state = json.loads(file.metadata()["state"])
            self._check_same(state["of"], new.of)
            progress = _read_progress(state)
            for name, table in self._tables().items():
                table[:] = tensors.pop(name).numpy()
            self._restore(tensors, progress.step)
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise IndexFormatError(
                f"{self._path} is damaged ({error}).", "a checkpoint", "Delete it to begin anew."
            ) from error
        return progress

    def save_if_due(self, progress: Progress) -> None:
        """Writes the file again, unless it is recent."""
        if time.perf_counter() - self._saved < self._pause:
            return
        began = time.perf_counter()
        self.save(progress)
        self._saved = time.perf_counter()
        self._pause = max(EVERY, SHARE * (self._saved - began))

    def save(self, progress: Progress) -> None:
        """Replaces the file atomically. On return it is on the disk."""
        tensors = {f"model.{name}": tensor for name, tensor in self._model.state_dict().items()}
        for name, parameter in self._model.named_parameters():
            for moment in MOMENTS:
                if parameter in self._optimizer.state:
                    tensors[f"{moment}.{name}"] = self._optimizer.state[parameter][moment]
        tensors |= {name: torch.from_numpy(table) for name, table in self._tables().items()}
        packed = safetensors.torch.save(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            {"state": json.dumps(asdict(progress))},
        )
        write_atomically(self._path, packed)

    def _tables(self) -> dict[str, Float32]:
        return {"embeddings.values": self._embeddings.values, "embeddings.moments": self._embeddings.moments}

    def _check_same(self, state: dict[str, Any], wanted: dict[str, object]) -> None:
        stored = json.loads(json.dumps(wanted))
        if state != stored:
            changed = [name for name, value in stored.items() if value != state.get(name)]
            raise InvalidInput(
                f"{self._path} is a checkpoint of another training: it differs in {', '.join(changed)}.",
                "the same trajectories and settings as when it was begun",
                "Delete it to begin anew, or name another file.",
            )

    def _restore(self, tensors: dict[str, Tensor], step: int) -> None:
        self._model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
        for name, parameter in self._model.named_parameters():
            if f"exp_avg.{name}" not in tensors:
                continue
            moments = {moment: tensors[f"{moment}.{name}"].to(parameter.device) for moment in MOMENTS}
            self._optimizer.state[parameter] = {"step": torch.tensor(float(step)), **moments}


def _read_progress(state: dict[str, Any]) -> Progress:
    regime = state.pop("unseen")
    unseen = None if regime is None else ScoringWeights(**{name: tuple(value) for name, value in regime.items()})
    return Progress(**{**state, "losses": [(float(a), int(b)) for a, b in state["losses"]]}, unseen=unseen)
