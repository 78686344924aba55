"""The predictor's weights: a safetensors file that is named after its checksum."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from pam_retriever.errors import IndexFormatError
from pam_retriever.limits import MAX_DIM, MAX_HIDDEN, MAX_LAYERS, MAX_WINDOW
from pam_retriever.predictor import Predictor, PredictorConfig
from pam_retriever.storage.faults import explained
from pam_retriever.storage.files import check_file, write_atomically

NAME = re.compile(r"predictor-[0-9a-f]{12}\.safetensors")
HEADER = 1_000_000  # bytes that safetensors may need beside the weights


def pack_predictor(predictor: Predictor) -> tuple[dict[str, Any], bytes]:
    """What a setting has to say of a predictor, and the contents of its file."""
    weights = safetensors.torch.save({k: v.contiguous() for k, v in predictor.state_dict().items()})
    digest = hashlib.sha256(weights).hexdigest()
    return {
        "file": f"predictor-{digest[:12]}.safetensors",
        "sha256": digest,
        "predictor": asdict(predictor.config),
    }, weights


def write_weights(folder: Path, model: dict[str, Any], weights: bytes) -> None:
    """Writes the weights to the file that ``model`` names; they are on the disk on return."""
    write_atomically(folder / str(model["file"]), weights)


def read_predictor(folder: Path, model: dict[str, Any], dim: int) -> Predictor:
    """Reads the weights that the setting ``model`` names.

    Args:
        folder: of the index.
        model: what ``pack_predictor`` said.
        dim: of the index.

    Raises:
        IndexFormatError: the file is missing, damaged, or does not fit the configuration.
    """
    config = _read_config(model, dim)
    path = folder / str(model["file"])
    check_file(path, str(model["sha256"]))
    if path.stat().st_size > _most_bytes(config):
        raise _too_large(path, path.stat().st_size, config)
    with explained(path):
        packed = path.read_bytes()
    return _unpack(packed, config, str(path))


def unpack_predictor(packed: bytes, model: dict[str, Any], dim: int, where: str) -> Predictor:
    """Reads weights that ``pack_predictor`` made, and the setting ``model`` describes.

    Raises:
        IndexFormatError: they are damaged, or do not fit the configuration.
    """
    config = _read_config(model, dim)
    if len(packed) > _most_bytes(config):
        raise _too_large(where, len(packed), config)
    if hashlib.sha256(packed).hexdigest() != model["sha256"]:
        raise IndexFormatError(f"The weights {where} are damaged.", "what fit stored", "Restore them, or fit again.")
    return _unpack(packed, config, where)


def _most_bytes(config: PredictorConfig) -> int:
    with torch.device("meta"):
        shape = Predictor(config)  # allocates nothing
    most: int = sum(t.numel() * t.element_size() for t in shape.state_dict().values()) + HEADER
    return most


def _too_large(where: Path | str, size: int, config: PredictorConfig) -> IndexFormatError:
    return IndexFormatError(f"{where} has {size:,} bytes.", f"at most {_most_bytes(config):,}", "Restore it.")


def _unpack(packed: bytes, config: PredictorConfig, where: str) -> Predictor:
    with torch.device("meta"):
        shape = Predictor(config)
    try:
        # once a second output of the network made the episode codes
        state = {k: v for k, v in safetensors.torch.load(packed).items() if not k.startswith("episode.")}
        shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in shape.state_dict().items()}
        if {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()} != shapes:
            raise ValueError("other layers than the predictor's")
        if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
            raise ValueError("NaN or infinite weights")
    except (RuntimeError, ValueError, KeyError, safetensors.SafetensorError) as error:
        raise IndexFormatError(
            f"{where} does not hold the weights of this index ({error}).", "the saved weights", "Restore it."
        ) from error
    predictor = Predictor(config, torch.Generator().manual_seed(0))
    predictor.load_state_dict(state)
    return predictor.eval()


def remove_other_predictors(folder: Path, keep: str | None) -> None:
    """Deletes weights that no setting names: older ones, or those of a fit that was killed."""
    for path in folder.glob("predictor-*.safetensors*"):
        if path.name != keep:
            with suppress(OSError):  # one that stays harms nothing, and is tried again by the next open
                path.unlink(missing_ok=True)


def _read_config(model: Any, dim: int) -> PredictorConfig:
    """The shape of the predictor, within limits, so that reading it allocates no more than the file holds."""
    try:
        config = PredictorConfig(**model["predictor"])
        right = (
            config.dim == dim <= MAX_DIM
            and _whole(config.hidden, 1, MAX_HIDDEN)
            and _whole(config.residual_layers, 0, MAX_LAYERS)
            and _whole(config.code, 0, MAX_DIM)
            and type(config.whiten) is bool
            and NAME.fullmatch(model["file"]) is not None
            and isinstance(model["sha256"], str)
            and _whole(model["window"], 1, MAX_WINDOW)
        )
    except (TypeError, KeyError):
        right = False
    if not right:
        raise IndexFormatError(
            f"The index describes its predictor as {str(model)[:200]}.",
            f"a file in the folder and a predictor of dimension {dim}",
            "Restore the index from a copy.",
        )
    return config


def _whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most
