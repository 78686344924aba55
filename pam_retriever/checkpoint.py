"""The state of a training in one file, to go on from after a kill."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from pam_retriever.codes import CodeBook
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.predictor import Predictor
from pam_retriever.storage.files import write_atomically
from pam_retriever.types import Float32, Regime

MOMENTS = ("exp_avg", "exp_avg_sq")  # of AdamW


@dataclass
class Checkpoint:
    """How far a training is.

    Attributes:
        of: which training, as JSON can say it.
        part: how many parts of the schedule are done.
        step: how many steps.
        seconds: that they took.
        losses: sum and number of the losses of each pass.
        associations: how many the first pass held, up to now.
        probation: whether memories are still kept from the training.
        unlearnt: what was found of cues that were never learnt, once they are not.
    """

    of: dict[str, object]
    part: int = 0
    step: int = 0
    seconds: float = 0.0
    losses: list[tuple[float, int]] = field(default_factory=list)
    associations: int = 0
    probation: bool = True
    unlearnt: Regime | None = None


def write_checkpoint(
    path: Path, state: Checkpoint, model: Predictor, optimizer: torch.optim.Optimizer, codes: CodeBook
) -> None:
    """Replaces the file at once; it is on the disk on return."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for moment in MOMENTS:
            if parameter in optimizer.state:
                tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment]
    tensors |= {name: torch.from_numpy(table) for name, table in _tables(codes).items()}
    packed = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        {"state": json.dumps(asdict(state))},
    )
    write_atomically(path, packed)


def read_checkpoint(
    path: Path, new: Checkpoint, model: Predictor, optimizer: torch.optim.Optimizer, codes: CodeBook
) -> Checkpoint:
    """Brings a new training to where the file says that it was.

    Raises:
        InvalidInput: it is of another training.
        IndexFormatError: it is damaged.
    """
    try:
        with safetensors.safe_open(str(path), "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
            said = json.loads(file.metadata()["state"])
        if said["of"] != json.loads(json.dumps(new.of)):
            changed = [name for name, value in new.of.items() if json.loads(json.dumps(value)) != said["of"].get(name)]
            raise InvalidInput(
                f"{path} is a checkpoint of another training: it differs in {', '.join(changed)}.",
                "the same trajectories and settings as when it was begun",
                "Delete it to begin anew, or name another file.",
            )
        state = _read_state(said)
        for name, table in _tables(codes).items():
            table[:] = tensors.pop(name).numpy()
        _restore(tensors, state, model, optimizer)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise IndexFormatError(f"{path} is damaged ({error}).", "a checkpoint", "Delete it to begin anew.") from error
    return state


def _tables(codes: CodeBook) -> dict[str, Float32]:
    return {"codes.values": codes.values, "codes.moments": codes.moments}


def _read_state(said: dict[str, Any]) -> Checkpoint:
    regime = said.pop("unlearnt")
    unlearnt = None if regime is None else Regime(**{name: tuple(value) for name, value in regime.items()})
    return Checkpoint(**{**said, "losses": [(float(a), int(b)) for a, b in said["losses"]]}, unlearnt=unlearnt)


def _restore(tensors: dict[str, Tensor], state: Checkpoint, model: Predictor, optimizer: torch.optim.Optimizer) -> None:
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    for name, parameter in model.named_parameters():
        if f"exp_avg.{name}" not in tensors:
            continue
        moments = {moment: tensors[f"{moment}.{name}"].to(parameter.device) for moment in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(float(state.step)), **moments}
