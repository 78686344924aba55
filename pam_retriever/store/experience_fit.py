"""The stored form of what ``fit`` learns from experience, besides the predictor: what ``check`` verifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from pam_retriever.errors import IndexFormatError
from pam_retriever.store import last_fit
from pam_retriever.store.columns import finite_numbers
from pam_retriever.store.database import Settings
from pam_retriever.store.feedback_fit import OF_CALIBRATION
from pam_retriever.store.learnt import LAST_FIT, NEXT, SPREAD
from pam_retriever.types import Float32, Float64

KINDS = ("known step", "new step")  # whether the newest step was experienced before
REMEDY = "Fit again, or run pam-retriever repair on the folder."


def unreadable(why: str) -> IndexFormatError:
    """Returns the error of damaged weights of ``recall_next``."""
    return IndexFormatError(
        f"The stored weights of recall_next cannot be read ({why}).", "the weights that fit stored", REMEDY
    )


@dataclass(frozen=True)
class StoredNext:
    """The weights of ``recall_next``, of one size for all kinds, and without NaN.

    Attributes:
        features: names; F + S of them, unless another version stored them.
        weights: (kinds, F).
        parts: (kinds, S).
        calibration: (kinds, 3).
        fitted: for each kind, whether its weights were fitted.
    """

    features: tuple[str, ...]
    weights: Float32
    parts: Float32
    calibration: Float64
    fitted: tuple[bool, ...]

    @classmethod
    def read(cls, stored: object) -> StoredNext:
        """Reads what ``NextMixture.to_dict`` returns.

        Raises:
            IndexFormatError: ``stored`` is something else.
        """
        try:
            given: Mapping[str, Any] = dict(stored)  # type: ignore[call-overload]  # else a TypeError, as below
            return cls(
                tuple(map(str, given["features"])),
                _rows(given["weights"]).astype(np.float32),
                _rows(given["parts"]).astype(np.float32),
                _rows(given["calibration"], OF_CALIBRATION),
                tuple(bool(given["fitted"][at]) for at in range(len(KINDS))),
            )
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise unreadable(f"{type(error).__name__}: {error}") from error


def _rows(given: Mapping[str, Any], length: int | None = None) -> Float64:
    length = len(given[KINDS[0]]) if length is None else length
    return np.stack([finite_numbers(given[kind], length) for kind in KINDS])


def read_matrices(packed: bytes) -> tuple[Float32, Float32]:
    """Returns the factors (d, r) and (r, d) of the bilinear model of ``recall_next``.

    Raises:
        IndexFormatError: the contents are damaged.
    """
    try:
        arrays = safetensors.numpy.load(packed)
        left, right = arrays["left"], arrays["right"]
        if left.dtype != np.float32 or right.dtype != np.float32 or left.shape != right.T.shape:
            raise ValueError(f"shapes {left.shape} and {right.shape}")
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            raise ValueError("values that are not finite")
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise IndexFormatError(
            f"The weights of recall_next cannot be read ({error}).", "the matrices that fit stored", REMEDY
        ) from error
    return left, right


def read_spread(stored: Mapping[str, Any]) -> tuple[int, float, float]:
    """Returns the number of neighbours, the intercept and the slope of the spread of imagined points.

    Raises:
        IndexFormatError: they are damaged.
    """
    try:
        found = int(stored["neighbours"]), float(stored["intercept"]), float(stored["slope"])
        if found[0] < 1 or not np.isfinite(found[1:]).all():
            raise ValueError(str(found))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise IndexFormatError(
            f"The spread of imagined points cannot be read ({error!r}).", "the numbers that fit stored", REMEDY
        ) from error
    return found


def defects(settings: Settings) -> Iterator[tuple[str, str]]:
    """Returns the name of each of these results of ``fit`` that is damaged, and a description of the damage."""
    reads: dict[str, Callable[[object], object]] = {
        NEXT: StoredNext.read,
        SPREAD: lambda stored: read_spread(stored if isinstance(stored, Mapping) else {}),
        LAST_FIT: last_fit.from_stored,
    }
    for name, read in reads.items():
        try:
            if (stored := settings.get(name)) is not None:
                read(stored)
                if name == NEXT and (packed := settings.weights(NEXT)):
                    read_matrices(packed)
        except IndexFormatError as error:  # noqa: PERF203 - three of them
            yield name, error.got
