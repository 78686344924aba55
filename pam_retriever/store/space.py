"""The encoder of an index, and its storage.

The weights of the encoder are in the database, as safetensors, like its vectors. So one commit replaces both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.limits import MAX_HIDDEN
from pam_retriever.protocols import Encoder, Observed, Trainable
from pam_retriever.store.database import Database

# functions that rebuild a stored encoder; the import needs torch, so only indexes with an encoder do it
ENCODER, MODALITIES, OUTWARD = (f"pam_retriever.jepa.{name}" for name in ("encoder", "modalities", "outward"))


@dataclass(frozen=True)
class Space:
    """The encoder of an index: copies of modules, which are never trained.

    Attributes:
        encoder: the encoder of memories and cues.
        outward: the outward predictor over its states, if the index has one.
    """

    encoder: Encoder
    outward: Trainable | None = None

    @classmethod
    def of(cls, encoder: Encoder, outward: Trainable | None = None) -> Space:
        """Copies the modules, so that further training does not change the stored modules.

        Raises:
            InvalidInput: ``encoder`` is no encoder, or a predictor has another dimension.
        """
        if not isinstance(encoder, Encoder):
            raise InvalidInput(f"Got encoder={type(encoder).__name__}.", "a CompositeEncoder", "Wrap a module in one.")
        if outward is not None and outward.dim != encoder.dim:
            raise InvalidInput(f"The outward predictor has dim={outward.dim}.", f"{encoder.dim}", "Match the encoder.")
        return cls(encoder.duplicate(trainable=False), None if outward is None else outward.duplicate(trainable=False))


def is_observed(given: Any) -> bool:
    """Whether the argument is an observation for ``Encoder.read``, and not a vector or an id."""
    if isinstance(given, list | tuple) and given:
        return isinstance(given[0], Mapping)
    return not isinstance(given, str | np.ndarray) and isinstance(given, Mapping | Observed)  # slow, so last


def no_encoder(where: str) -> InvalidInput:
    """Returns the error for observations given to an index of vectors."""
    return InvalidInput(
        f"Got modalities in {where}, but the index has no encoder.", "vectors", "Make the index with encoder=..."
    )


def write_space(database: Database, space: Space) -> None:
    """Writes the encoder, inside a transaction."""
    database.settings.set("encoder", space.encoder.to_json())
    database.settings.set_weights("encoder", space.encoder.pack_weights())
    if space.outward is not None:
        database.settings.set("outward", space.outward.to_json())
        database.settings.set_weights("outward", space.outward.pack_weights())


def read_space(database: Database, given: Space | None, dim: int) -> Space | None:
    """Returns the encoder of an index with the saved weights, or ``given`` for a new index.

    Raises:
        InvalidInput: the saved encoder has custom modules that ``given`` does not have, or ``given`` has another
            structure.
        IndexFormatError: the weights are damaged.
    """
    config = cast("dict[str, Any] | None", database.settings.get("encoder"))
    if config is None:
        if given is not None:
            if len(database.memories):
                raise InvalidInput(
                    "Got an encoder for an index of vectors.",
                    "none",
                    "Make a new index with encoder=... and add again.",
                )
            if given.encoder.dim != dim:
                raise InvalidInput(
                    f"Got an encoder with dim={given.encoder.dim}.",
                    f"{dim}, the dimension of the index",
                    "Make a new index.",
                )
            with database.transaction():
                write_space(database, given)
        return given
    encoder = _rebuild(config, dim) if given is None else given.encoder.duplicate(trainable=False)
    if encoder.to_json() != config:
        changed = [key for key, value in encoder.to_json().items() if value != config.get(key)]
        raise InvalidInput(
            f"The encoder given differs from the saved one in {changed}.",
            f"{ {key: config.get(key) for key in changed} }",
            "Build it as it was built for the index.",
        )
    _fill(encoder, database.settings.weights("encoder"), "encoder")
    stored = cast("dict[str, Any] | None", database.settings.get("outward"))
    outward = None
    if stored is not None:
        outward = _rebuild_outward(stored, dim)
        _fill(outward, database.settings.weights("outward"), "outward predictor")
    return Space.of(encoder, outward)


def _rebuild(config: dict[str, Any], dim: int) -> Encoder:
    try:
        own = [name for name, kind in config["modalities"].items() if kind["kind"] == "custom"]
        if not own:
            return _rebuild_composite(config, dim)
    except (TypeError, KeyError, ValueError, AttributeError, RuntimeError) as error:
        raise _damaged("encoder", error) from error
    raise InvalidInput(
        f"The encoder of this index has modules of your own for {own}, which are not saved, only their weights.",
        "an encoder with such modules",
        "Pass encoder=CompositeEncoder(...) as it was built; its weights are replaced by the saved ones.",
    )


def _rebuild_outward(config: dict[str, Any], dim: int) -> Trainable:
    try:
        _check_sizes(config, dim)
        return cast("Trainable", import_module(OUTWARD).OutwardPredictor(**config))
    except (TypeError, KeyError, ValueError, AttributeError, RuntimeError) as error:
        raise _damaged("outward predictor", error) from error


def _check_sizes(config: dict[str, Any], dim: int) -> None:
    """Checks sizes before modules are created: modules of a damaged description could exceed the memory."""
    if config["dim"] != dim or any(config[size] > MAX_HIDDEN for size in ("width", "hidden") if config.get(size)):
        raise ValueError(f"dim={config['dim']} for an index of {dim}, or wider than {MAX_HIDDEN:,}")


def _damaged(what: str, error: Exception) -> IndexFormatError:
    return IndexFormatError(
        f"The index has an invalid description of its {what} ({error!r}).", "the stored data", "Restore the index."
    )


def _rebuild_composite(config: dict[str, Any], dim: int) -> Encoder:
    _check_sizes(config, dim)
    kinds = {
        name: import_module(MODALITIES).Modality(
            kind["kind"], tuple(kind["shape"]), kind["dtype"], kind["features"], kind["options"]
        )
        for name, kind in config["modalities"].items()
    }
    made = import_module(ENCODER).CompositeEncoder
    weights = config["weights"] if config["fusion"] == "concatenate" else None  # "mlp" has none
    return cast("Encoder", made(kinds, dim, config["width"], config["hidden"], config["fusion"], weights))


def _fill(module: Trainable, weights: bytes | None, what: str) -> None:
    try:
        if weights is None:
            raise ValueError("they are missing")
        module.load_weights(weights)
    except ValueError as error:
        raise IndexFormatError(
            f"The weights of the {what} do not fit it ({error}).", "the saved weights and module", "Restore the index."
        ) from error
