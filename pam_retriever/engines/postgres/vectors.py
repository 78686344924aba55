"""pgvector's binary format: float32 in, float32 out, without a detour over text."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

from pam_retriever.types import Float32


class Packed(bytes):
    """One vector as pgvector sends and receives it."""


class PackedList(list[Packed]):
    """Several of them, as one parameter."""


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed) -> bytes:
        return obj


class _PackedListDumper(Dumper):
    format = Format.BINARY
    element = 0  # oid of the type "vector"

    def dump(self, obj: PackedList) -> bytes:
        header = struct.pack(">iiIii", 1, 0, self.element, len(obj), 1)
        return header + b"".join(struct.pack(">i", len(vector)) + vector for vector in obj)


class _Unpacked(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> bytes:
        return bytes(data[4:])  # big-endian; a whole column is turned around at once


def adapt_vectors(connection: psycopg.Connection[Any]) -> None:
    """Teaches a connection the type ``vector``, if the server has it already."""
    info = TypeInfo.fetch(connection, "vector")
    if info is None:
        return
    info.register(connection)
    dumper: type[Dumper] = type("PackedDumper", (_PackedDumper,), {"oid": info.oid})
    connection.adapters.register_dumper(Packed, dumper)
    lists: type[Dumper] = type("PackedListDumper", (_PackedListDumper,), {"oid": info.array_oid, "element": info.oid})
    connection.adapters.register_dumper(PackedList, lists)
    connection.adapters.register_loader(info.oid, _Unpacked)


def pack(vectors: Float32) -> PackedList:
    """The rows of (n, d), for parameters: each by itself, or all as an array."""
    header, size = struct.pack(">HH", vectors.shape[1], 0), 4 * vectors.shape[1]
    buffer = np.ascontiguousarray(vectors, ">f4").tobytes()
    return PackedList(Packed(header + buffer[at : at + size]) for at in range(0, len(buffer), size))


def unpack(column: list[bytes], dim: int) -> Float32:
    """(n, dim) of a column that was read."""
    return np.frombuffer(b"".join(column), ">f4").reshape(len(column), dim).astype(np.float32)
