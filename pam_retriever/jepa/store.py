"""A bank under a moving encoder: memories keep what was observed, and are encoded anew when the encoder has moved.

The weights of the encoder lie in the database, as safetensors, beside the vectors that it made: one commit switches
both over. Until then every cue and every new memory is encoded by the old one.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import safetensors.torch
from torch import nn
from tqdm.auto import tqdm

from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.jepa.encoder import CompositeEncoder
from pam_retriever.jepa.modalities import Modality
from pam_retriever.jepa.observations import Observations, read_observations, unpack
from pam_retriever.jepa.outward import OutwardPredictor
from pam_retriever.predictor import Predictor
from pam_retriever.storage.documents import Documents
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.bank import Bank

CHUNK = 512
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Space:
    """What an index encodes with: copies that nobody trains.

    Attributes:
        encoder: of memories and cues.
        outward: the outward predictor over its states, if the index keeps one.
    """

    encoder: CompositeEncoder
    outward: OutwardPredictor | None = None

    @classmethod
    def of(cls, encoder: CompositeEncoder, outward: OutwardPredictor | None = None) -> Space:
        """Copies, so that training goes on without moving what is stored.

        Raises:
            InvalidInput: not an encoder, or predictors of another dimension.
        """
        if not isinstance(encoder, CompositeEncoder):
            raise InvalidInput(f"Got encoder={type(encoder).__name__}.", "a CompositeEncoder", "Wrap a module in one.")
        if outward is not None and outward.dim != encoder.dim:
            raise InvalidInput(f"The outward predictor has dim={outward.dim}.", f"{encoder.dim}", "Match the encoder.")
        return cls(_frozen(encoder), None if outward is None else _frozen(outward))

    def read(self, given: Any, where: str) -> Observations:
        """Checks observations of any form."""
        return read_observations(given, self.encoder.modalities, where)


def is_observed(given: Any) -> bool:
    """Whether it is what ``Space.read`` takes, rather than vectors or ids."""
    if isinstance(given, list | tuple) and given:
        return isinstance(given[0], Mapping)
    return isinstance(given, Mapping | Observations)


def no_encoder(where: str) -> InvalidInput:
    """The error for observations given to an index of vectors."""
    return InvalidInput(
        f"Got modalities in {where}, but the index has no encoder.", "vectors", "Make the index with encoder=..."
    )


def write_space(documents: Documents, space: Space) -> None:
    """Writes it, inside a transaction."""
    documents.set_setting("encoder", space.encoder.to_json())
    documents.set_weights("encoder", _pack(space.encoder))
    if space.outward is not None:
        documents.set_setting("outward", space.outward.to_json())
        documents.set_weights("outward", _pack(space.outward))


def read_space(documents: Documents, given: Space | None) -> Space | None:
    """The encoder of an index, with the saved weights, or ``given`` for a new index.

    Raises:
        InvalidInput: it has modules of the caller's own and ``given`` does not bring them, or ``given`` is built
            otherwise than the saved one.
        IndexFormatError: the weights are damaged.
    """
    config = documents.setting("encoder")
    if config is None:
        if given is not None:
            if len(documents):
                raise InvalidInput(
                    "Got an encoder for an index of vectors.", "none", "Make a new index with encoder=... and add again."
                )
            with documents.transaction():
                write_space(documents, given)
        return given
    encoder = _rebuild(config) if given is None else copy.deepcopy(given.encoder)
    if encoder.to_json() != config:
        changed = [key for key, value in encoder.to_json().items() if value != config.get(key)]
        raise InvalidInput(
            f"The encoder given differs from the saved one in {changed}.",
            f"{ {key: config.get(key) for key in changed} }",
            "Build it as it was built for the index.",
        )
    _fill(encoder, documents.weights("encoder"), "encoder")
    kept = documents.setting("outward")
    outward = None
    if kept is not None:
        outward = OutwardPredictor(**kept)
        _fill(outward, documents.weights("outward"), "outward predictor")
    return Space(_frozen(encoder), None if outward is None else _frozen(outward))


def encode_anew(
    bank: Bank, lock: threading.RLock, space: Space, predictor: Predictor | None, window: int, progress: bool | None
) -> int:
    """Encodes all memories with another encoder, outside the lock, and switches over at the end.

    Memories added, replaced or deleted meanwhile are so afterwards too.

    Returns:
        How many memories were encoded.

    Raises:
        InvalidInput: some memories were added as vectors. Nothing was changed.
    """
    with lock:
        _check_observed(bank)
        rows, _, _ = bank.documents.all_vectors(bank.dim)
        bank.touched = set()
    try:
        vectors = np.empty((len(rows), bank.dim), np.float32)
        hidden = None if progress is None else not progress
        with tqdm(total=len(rows), desc="encode", unit="memory", disable=hidden) as bar:
            for start in range(0, len(rows), CHUNK):
                part = slice(start, start + CHUNK)
                vectors[part] = _encode_rows(bank, lock, space.encoder, rows[part])
                bar.update(len(rows[part]))
        with lock:
            _check_observed(bank)
            now, _, _ = bank.documents.all_vectors(bank.dim)
            place = np.searchsorted(rows, now)
            known = np.isin(now, rows) & ~np.isin(now, np.fromiter(bank.touched, np.int64))
            switched = np.empty((len(now), bank.dim), np.float32)
            switched[known] = vectors[place[known]]
            if not known.all():
                switched[~known] = _encode_rows(bank, lock, space.encoder, now[~known])
            bank.move(space, predictor, window, now, switched)
            return len(now)
    finally:
        with lock:
            bank.touched = None


def _encode_rows(bank: Bank, lock: threading.RLock, encoder: CompositeEncoder, rows: Int64) -> Float32:
    """(n, d); zeros for rows that were deleted meanwhile."""
    with lock:
        blobs = bank.documents.observations(rows)
    vectors = np.zeros((len(rows), bank.dim), np.float32)
    if blobs:
        there = np.isin(rows, list(blobs))
        vectors[there] = encoder.encode(unpack([blobs[row] for row in rows[there].tolist()], encoder.modalities))
    return vectors


def _check_observed(bank: Bank) -> None:
    missing = bank.documents.rows_without_observations()
    if missing:
        raise InvalidInput(
            f"{len(missing)} memories were added as vectors, the first of them {[id for _, id in missing[:5]]}.",
            "memories that were added as observations, to encode them anew",
            "Replace them: add() their observations under the same ids.",
        )


def _rebuild(config: dict[str, Any]) -> CompositeEncoder:
    own = [name for name, kind in config["modalities"].items() if kind["kind"] == "custom"]
    if own:
        raise InvalidInput(
            f"The encoder of this index has modules of your own for {own}, which are not saved, only their weights.",
            "an encoder with such modules",
            "Pass encoder=CompositeEncoder(...) as it was built; its weights are replaced by the saved ones.",
        )
    kinds = {
        name: Modality(kind["kind"], tuple(kind["shape"]), kind["dtype"], kind["features"], kind["options"])
        for name, kind in config["modalities"].items()
    }
    dim = config["dim"]
    return CompositeEncoder(kinds, dim, config["width"], config["hidden"], config["fusion"], config["weights"])


def _frozen(module: Module) -> Module:
    return copy.deepcopy(module).requires_grad_(False).cpu().eval()


def _pack(module: nn.Module) -> bytes:
    return safetensors.torch.save({name: weight.contiguous() for name, weight in module.state_dict().items()})


def _fill(module: nn.Module, weights: bytes | None, what: str) -> None:
    try:
        if weights is None:
            raise ValueError("they are missing")
        module.load_state_dict(safetensors.torch.load(weights))
    except (RuntimeError, ValueError, safetensors.SafetensorError) as error:
        raise IndexFormatError(
            f"The weights of the {what} do not fit it ({error}).", "the saved weights and module", "Restore the index."
        ) from error
