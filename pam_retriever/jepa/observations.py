"""Observations of n moments; modalities may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.errors import IndexFormatError, InvalidInput, counted
from pam_retriever.jepa.modalities import Modality
from pam_retriever.types import Int64

Array = npt.NDArray[Any]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Observations:
    """n moments.

    Attributes:
        values: name of the modality -> (n, *shape); any value if it is missing.
        present: name of the modality -> (n,) whether it is present. Each moment has at least one modality.
    """

    values: dict[str, Array]
    present: dict[str, Bool]

    def __len__(self) -> int:
        return len(next(iter(self.present.values())))

    def __getitem__(self, rows: Int64 | slice) -> Observations:
        return Observations(
            {name: value[rows] for name, value in self.values.items()},
            {name: there[rows] for name, there in self.present.items()},
        )

    def __repr__(self) -> str:
        senses = ", ".join(f"{name} {there.mean():.0%}" for name, there in self.present.items())
        return f"Observations({counted(len(self), 'moment')}: {senses})"

    def without(self, *names: str) -> Observations:
        """Removes modalities from all moments.

        Raises:
            InvalidInput: a moment would have none left.
        """
        there = {name: p & (name not in names) for name, p in self.present.items()}
        _check_some(there, "the observations")
        return Observations(self.values, there)

    def pack(self) -> list[bytes]:
        """Returns each moment as bytes: a line of JSON, then its present modalities."""
        names = [name for name in self.values if self.present[name].any()]
        columns = [_as_bytes(self.values[name]) for name in names]
        there = np.stack([self.present[name] for name in names], axis=1)
        packed = []
        for at, row in enumerate(there.tolist()):
            parts = [(name, column[at]) for name, column, is_there in zip(names, columns, row, strict=True) if is_there]
            header = json.dumps({name: len(part) for name, part in parts}).encode()
            packed.append(b"\n".join([header, b"".join(part for _, part in parts)]))
        return packed


def unpack(blobs: Sequence[bytes], modalities: Mapping[str, Modality]) -> Observations:
    """Reads the output of ``pack``.

    Raises:
        IndexFormatError: the bytes do not fit the modalities.
    """
    values = {name: np.zeros((len(blobs), *_inner(kind)), kind.stored) for name, kind in modalities.items()}
    present = {name: np.zeros(len(blobs), np.bool_) for name in modalities}
    for row, blob in enumerate(blobs):
        end = blob.index(b"\n")
        at = end + 1
        for name, length in json.loads(blob[:end]).items():
            if name not in modalities:
                raise IndexFormatError(
                    f"A memory holds the modality {name!r}.", f"one of {list(modalities)}", "Restore it."
                )
            part = blob[at : at + length]
            kind = modalities[name]
            if kind.loader:
                values[name][row] = part.decode()
            else:
                values[name][row] = np.frombuffer(part, kind.stored).reshape(kind.shape)
            present[name][row] = True
            at += length
    return Observations(values, present)


def read_observations(given: Any, modalities: Mapping[str, Modality], where: str) -> Observations:
    """Checks n observations, as a list of dicts or as a dict of n values each (None: missing).

    Raises:
        InvalidInput: a modality is unknown, a shape is wrong, a value is not finite, or a moment has no modality.
    """
    if isinstance(given, Observations):
        columns: dict[str, Any] = {n: _with_gaps(v, given.present[n]) for n, v in given.values.items()}
    elif isinstance(given, Mapping):
        columns = dict(given)
    elif not isinstance(given, Iterable):
        raise InvalidInput(f"Got {given!r} in {where}.", "a list of dicts of modalities", "Wrap a dict in [ ].")
    else:
        moments = list(given)
        wrong = [moment for moment in moments if not isinstance(moment, Mapping)]
        if wrong or not moments:
            raise InvalidInput(
                f"Got {type(wrong[0]).__name__ if wrong else 'nothing'} in {where}.",
                "a list of dicts of modalities",
                "The index has an encoder: pass observations, not vectors.",
            )
        columns = {
            name: [moment.get(name) for moment in moments] for name in dict.fromkeys(n for m in moments for n in m)
        }
    unknown = [name for name in columns if name not in modalities]
    if unknown:
        raise InvalidInput(
            f"Got the modality {unknown[0]!r} in {where}.", f"some of {list(modalities)}", "Check its name."
        )
    count = _common_length(columns, where)
    values, present = {}, {}
    for name, kind in modalities.items():
        column = columns.get(name, [None] * count)
        there = np.array([one is not None for one in column], np.bool_)
        value = np.zeros((count, *_inner(kind)), kind.stored)
        if there.any():
            some = column if there.all() else [one for one in column if one is not None]
            value[there] = kind.read(some, f"{name!r} in {where}")
        values[name], present[name] = value, there
    if not count:
        raise InvalidInput(f"Got no observations in {where}.", "at least one", "Skip the call for an empty batch.")
    _check_some(present, where)
    return Observations(values, present)


def _common_length(columns: Mapping[str, Any], where: str) -> int:
    single = [name for name, column in columns.items() if isinstance(column, str) or not isinstance(column, Sized)]
    if single:
        got = f"Got {columns[single[0]]!r} for {single[0]!r} in {where}."
        raise InvalidInput(got, "a list with a value for each moment", "Wrap a dict of one moment in [ ].")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"The modalities of {where} have {lengths} values.", "as many of each", "Use None for gaps.")
    return next(iter(lengths.values()), 0)


def _check_some(present: Mapping[str, Bool], where: str) -> None:
    nothing = ~np.any(list(present.values()), axis=0)
    if nothing.any():
        raise InvalidInput(
            f"Observation {int(nothing.argmax())} of {where} has no modality at all.",
            f"at least one of {list(present)}",
            "Leave the observation out.",
        )


def _with_gaps(values: Array, there: Bool) -> Array | list[Any]:
    return values if there.all() else [one if is_there else None for one, is_there in zip(values, there, strict=True)]


def _inner(kind: Modality) -> tuple[int, ...]:
    return () if kind.loader else kind.shape


def _as_bytes(values: Array) -> list[bytes]:
    if values.dtype == object:
        return [str(one).encode() for one in values]
    buffer, size = np.ascontiguousarray(values).tobytes(), values[:1].nbytes
    return [buffer[at : at + size] for at in range(0, len(buffer), size)]
