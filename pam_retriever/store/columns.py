"""Contents of columns: row numbers, vectors as bytes, metadata as JSON, and a checksum over text and vector."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any

import numpy as np

from pam_retriever.errors import IndexFormatError, counted
from pam_retriever.types import Float32, Float64, Int64


def number_rows(ids: Sequence[str], known: Mapping[str, int], last: int) -> tuple[Int64, int]:
    """Returns the row of each id (n,) and the last row in use. A known id keeps its row; new ids get the next rows."""
    rows = np.array([known.get(id, -1) for id in ids], np.int64)
    new = np.flatnonzero(rows < 0)
    rows[new] = last + 1 + np.arange(len(new))
    return rows, last + len(new)


def checksum(id: str, text: str | None, metadata: str, vector: bytes | bytearray) -> int:
    """CRC-32 of a memory. It covers the lengths of the parts, so that bytes cannot move between parts unnoticed."""
    contents = f"[{quoted(id)},{'null' if text is None else quoted(text)},{quoted(metadata)}]"  # as ``to_json``
    return zlib.crc32(vector, zlib.crc32(contents.encode()))


def from_json(text: str, what: str) -> Any:
    """Parses stored JSON.

    Raises:
        IndexFormatError: the JSON is damaged.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise IndexFormatError(
            f"{what} is damaged ({error}).",
            "JSON",
            "Restore the folder from a copy, or run pam-retriever repair on it.",
        ) from error


def to_blobs(vectors: Float32) -> list[bytearray]:
    """Returns the rows as little-endian bytes: copies, which the caller's array does not change.

    Python passes a ``bytearray`` to SQLite at once. It first looks for an adapter of other bytes, and of None.
    """
    if not vectors.size:
        return []
    buffer, size = np.ascontiguousarray(vectors, "<f4").data.cast("B"), 4 * vectors.shape[1]
    return [bytearray(buffer[at : at + size]) for at in range(0, len(buffer), size)]


def from_blobs(blobs: list[bytes], dim: int) -> Float32:
    """Returns the vectors (n, dim) of blobs.

    Raises:
        IndexFormatError: a vector has another length, or no direction.
    """
    if not {*map(type, blobs)} <= {bytes} or not {*map(len, blobs)} <= {4 * dim}:
        raise IndexFormatError(
            "The database holds a vector of another length than the index.",
            f"{dim} float32 numbers in each",
            "Run pam-retriever check on the folder.",
        )
    array: Float32 = np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dim).astype(np.float32, copy=False)
    if not np.isfinite(array).all() or not array.any(axis=1).all():
        raise IndexFormatError(
            "The database holds a vector that is all zeros, NaN or infinite.",
            "vectors with a direction",
            "Run pam-retriever check on the folder.",
        )
    return array


def finite_numbers(given: Any, length: int) -> Float64:
    """Returns a stored list of numbers as an array (length,).

    Raises:
        TypeError, ValueError: it is something else, or has numbers that float32 cannot hold.
    """
    row: Float64 = np.array(given, np.float64)
    if row.shape != (length,):
        raise ValueError(f"an array of shape {row.shape} in place of {counted(length, 'number')}")
    if not (np.abs(row) <= np.finfo(np.float32).max).all():
        raise ValueError("a number that is not finite")
    return row
