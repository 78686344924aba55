"""The weights of the predictor: a safetensors file named after its checksum."""

from __future__ import annotations

import hashlib
import math
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import safetensors
import safetensors.numpy

from pam_retriever.errors import IndexFormatError
from pam_retriever.limits import MAX_DIM, MAX_HIDDEN, MAX_LAYERS, MAX_WINDOW
from pam_retriever.model.forward import PredictorConfig, PredictorWeights
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import check_file, matching, write_atomically

NAME = re.compile(r"predictor-[0-9a-f]{12}\.safetensors")
HEADER = 1_000_000  # bytes of a safetensors header, at most


class PackedPredictor(TypedDict):
    """The entries of the setting "model" that describe the predictor."""

    file: str
    sha256: str
    predictor: dict[str, Any]


class ModelMetadata(PackedPredictor, total=False):
    """The setting "model"; see ``model_metadata``."""

    window: int
    trust: dict[str, Any] | None
    learnt_to: int
    recipe: dict[str, Any] | None


def pack_predictor(predictor: PredictorWeights) -> tuple[PackedPredictor, bytes]:
    """Returns the description of a predictor for a setting, and the contents of its file."""
    weights = safetensors.numpy.save(dict(predictor.arrays))
    digest = hashlib.sha256(weights).hexdigest()
    return {
        "file": f"predictor-{digest[:12]}.safetensors",
        "sha256": digest,
        "predictor": asdict(predictor.config),
    }, weights


def write_weights(folder: Path, model: PackedPredictor, weights: bytes) -> None:
    """Writes the weights to the file that ``model`` names. On return they are on the disk."""
    write_atomically(folder / str(model["file"]), weights)


def read_predictor(folder: Path, model: ModelMetadata, dim: int) -> PredictorWeights:
    """Reads the weights that the setting "model" names.

    Args:
        folder: folder of the index.
        model: the description from ``pack_predictor``.
        dim: dimension of the index.

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


def unpack_predictor(packed: bytes, model: ModelMetadata, dim: int, where: str) -> PredictorWeights:
    """Unpacks weights from ``pack_predictor``, which the setting "model" describes.

    Raises:
        IndexFormatError: they are damaged, or do not fit the configuration.
    """
    config = _read_config(model, dim)
    if len(packed) > _most_bytes(config):
        raise _too_large(where, len(packed), config)
    if hashlib.sha256(packed).hexdigest() != model["sha256"]:
        raise IndexFormatError(
            f"The weights {where} are damaged.", "the data that fit stored", "Restore them, or fit again."
        )
    return _unpack(packed, config, where)


def _most_bytes(config: PredictorConfig) -> int:
    return HEADER + 4 * sum(math.prod(shape) for shape in config.shapes().values())


def _too_large(where: Path | str, size: int, config: PredictorConfig) -> IndexFormatError:
    return IndexFormatError(f"{where} has {size:,} bytes.", f"at most {_most_bytes(config):,}", "Restore it.")


def _unpack(packed: bytes, config: PredictorConfig, where: str) -> PredictorWeights:
    try:
        # in an earlier version a second output of the network made the episode codes
        arrays = {k: v for k, v in safetensors.numpy.load(packed).items() if not k.startswith("episode.")}
        found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        if found != {name: (shape, np.dtype(np.float32)) for name, shape in config.shapes().items()}:
            raise ValueError("other layers than the predictor's")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("NaN or infinite weights")
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
        raise IndexFormatError(
            f"{where} does not hold the weights of this index ({error}).", "the saved weights", "Restore it."
        ) from error
    return PredictorWeights(config, arrays)


def remove_other_predictors(folder: Path, keep: str | None) -> list[str]:
    """Deletes weights that no setting names: older ones, or those of a killed fit. Returns the files that stay."""
    others = [path for path in matching(folder, "predictor-*.safetensors*") if path.name != keep]
    for path in others:
        with suppress(OSError):  # no answer depends on such a file, and the next open tries again
            path.unlink(missing_ok=True)
    return [path.name for path in others if path.exists()]


def _read_config(model: Any, dim: int) -> PredictorConfig:
    """Returns the shape of the predictor, and checks its limits, so that a damaged file cannot allocate much memory."""
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
