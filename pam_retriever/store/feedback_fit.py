"""The stored form of what ``fit`` learns from feedback: what ``check`` verifies, and recall reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from pam_retriever.errors import IndexFormatError
from pam_retriever.experience.existed import EXISTED, Existed
from pam_retriever.experience.feedback import LEARNT_REQUESTS, MIXTURE
from pam_retriever.store.columns import finite_numbers
from pam_retriever.store.database import Settings
from pam_retriever.types import Float32, Float64, Int64

KINDS = ("question", "seen cue", "unseen cue")
OF_CALIBRATION = 3  # weights of one calibration


def unreadable(what: str, why: object) -> IndexFormatError:
    """Returns the error of a damaged result of learning from feedback."""
    return IndexFormatError(
        f"The {what} that fit learnt from feedback cannot be read ({why}).",
        "what fit stored",
        "Fit again, or run pam-retriever repair on the folder: it then answers without.",
    )


@dataclass(frozen=True)
class StoredMixture:
    """The weights of the features, and the calibrations, with sizes that fit together, and without NaN.

    Attributes:
        features: F names.
        weights: (kinds, F).
        calibration: (kinds, 3).
        uninfluenced: (F,) or None.
        worded: whether the weights are also those of questions in words.
        reach: the cosine with the nearest past request from which on the weights count in full; None for no limit.
    """

    features: tuple[str, ...]
    weights: Float32
    calibration: Float64
    uninfluenced: Float32 | None
    worded: bool
    reach: float | None

    @classmethod
    def read(cls, stored: object) -> StoredMixture:
        """Reads what ``Mixture.to_dict`` returns.

        Raises:
            IndexFormatError: ``stored`` is something else.
        """
        try:
            given: Mapping[str, Any] = dict(stored)  # type: ignore[call-overload]  # else a TypeError, as below
            features = tuple(map(str, given["features"]))
            weights = [finite_numbers(given["weights"][kind], len(features)) for kind in KINDS]
            calibration = [finite_numbers(given["calibration"][kind], OF_CALIBRATION) for kind in KINDS]
            worded = given.get("worded") is not False  # versions up to 0.1 did not store it, nor the next
            alone = given.get("uninfluenced")
            uninfluenced = None if alone is None else finite_numbers(alone, len(features)).astype(np.float32)
            reach = given.get("reach")  # nor this
            reach = None if reach is None else float(finite_numbers([reach], 1)[0])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise unreadable("mixture", f"{type(error).__name__}: {error}") from error
        return cls(features, np.stack(weights).astype(np.float32), np.stack(calibration), uninfluenced, worded, reach)


@dataclass(frozen=True)
class StoredRegression:
    """The regression over past requests.

    Attributes:
        requests: (n,) distinct numbers of requests.
        memories: (T,) rows of memories, rising.
        weights: (n, T).
    """

    requests: Int64
    memories: Int64
    weights: Float32

    def pack(self) -> bytes:
        """Returns the contents of a safetensors file."""
        arrays = {"requests": self.requests, "memories": self.memories, "weights": self.weights}
        return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})

    @classmethod
    def unpack(cls, packed: bytes) -> StoredRegression:
        """Reads the output of ``pack``.

        Raises:
            IndexFormatError: the contents are damaged.
        """
        try:
            arrays = safetensors.numpy.load(packed)
            requests, memories, weights = (arrays[name] for name in ("requests", "memories", "weights"))
            if (*requests.shape, *memories.shape) != weights.shape or weights.dtype != np.float32:
                raise ValueError(f"weights of shape {weights.shape} and type {weights.dtype}")
            if requests.dtype != np.int64 or memories.dtype != np.int64:
                raise ValueError(f"numbers of type {requests.dtype} and rows of type {memories.dtype}")
            if len(np.unique(requests)) < len(requests) or not (np.diff(memories) > 0).all():
                raise ValueError("a request or a memory that occurs twice, or memories that are not in order")
            if not (np.abs(weights).sum(axis=0, dtype=np.float64) <= np.finfo(np.float32).max).all():
                raise ValueError("values that are not finite, or whose sum is not")
        except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise unreadable("regression over past requests", error) from error
        return cls(requests, memories, weights)


@dataclass(frozen=True)
class LearntFrom:
    """The data of the regression over past requests.

    Attributes:
        last: the highest number of a request.
        requests: how many requests there are up to it.
        memories: rows of memories.
    """

    last: int
    requests: int
    memories: Int64

    @classmethod
    def read(cls, about: Any) -> LearntFrom:
        """Reads the setting of the regression.

        Raises:
            IndexFormatError: it is damaged.
        """
        try:
            last, requests = np.array([about["last"], about["requests"]], np.int64).tolist()
            memories = np.array(about["memories"], np.int64)
            if memories.ndim != 1:
                raise ValueError(f"rows of shape {memories.shape}")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise unreadable("regression over past requests", f"{type(error).__name__}: {error}") from error
        return cls(last, requests, memories)


def settings_of(settings: Settings) -> tuple[object, object]:
    """Returns what ``fit`` stored: the mixture, and what belongs to the regression over requests; None for nothing.

    Raises:
        IndexFormatError: one of them is no JSON.
    """
    try:
        return settings.get(MIXTURE), settings.get(LEARNT_REQUESTS)
    except IndexFormatError as error:
        raise unreadable("mixture", error.got) from error


def read_regression(settings: Settings, about: object) -> tuple[StoredMixture, StoredRegression]:
    """Returns the regression, and the mixture that belongs to it.

    Args:
        settings: of the index.
        about: the setting of the regression.

    Raises:
        IndexFormatError: one of them is damaged.
    """
    LearntFrom.read(about)
    mixture = StoredMixture.read(about.get("mixture") if isinstance(about, dict) else about)
    try:
        packed = settings.weights(LEARNT_REQUESTS)
    except IndexFormatError as error:
        raise unreadable("regression over past requests", error.got) from error
    return mixture, StoredRegression.unpack(packed or b"")


def defects(settings: Settings) -> Iterator[tuple[str, str]]:
    """Returns the name of each setting about past requests that is damaged, and a description of the damage."""
    try:
        mixture = settings.get(MIXTURE)
        if mixture is not None:
            StoredMixture.read(mixture)
    except IndexFormatError as error:
        yield MIXTURE, error.got
    try:
        about = settings.get(LEARNT_REQUESTS)
        if about is not None:
            read_regression(settings, about)
    except IndexFormatError as error:
        yield LEARNT_REQUESTS, error.got
    try:
        Existed.read(settings.get(EXISTED))
    except IndexFormatError as error:
        yield EXISTED, error.got
