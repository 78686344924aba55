"""pgvector's binary format: float32 in both directions, without conversion to text."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

from pam_retriever.types import Float32

MOST_IN_A_ROW = 2_000  # numbers; a row has 8,160 bytes, and the other columns of a memory take up to 150


class Packed(bytes):
    """One vector in pgvector's binary form."""


class PackedList(list[Packed]):
    """Several vectors as one parameter."""


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
        return bytes(data[4:])  # big-endian; a whole column is byte-swapped at once


def adapt_vectors(connection: psycopg.Connection[Any]) -> None:
    """Registers the type ``vector`` with a connection, if the server has it already."""
    info = TypeInfo.fetch(connection, "vector")
    if info is None:
        return
    info.register(connection)
    dumper: type[Dumper] = type("PackedDumper", (_PackedDumper,), {"oid": info.oid})
    connection.adapters.register_dumper(Packed, dumper)
    lists: type[Dumper] = type("PackedListDumper", (_PackedListDumper,), {"oid": info.array_oid, "element": info.oid})
    connection.adapters.register_dumper(PackedList, lists)
    connection.adapters.register_loader(info.oid, _Unpacked)


def storage_for(width: int) -> str:
    """Returns where PostgreSQL stores vectors: in their row, which is faster to scan, if they fit into a page."""
    return "PLAIN" if width <= MOST_IN_A_ROW else "EXTERNAL"


def pack(vectors: Float32) -> PackedList:
    """Converts the rows of (n, d) to a list of parameters, which can also be passed as one array."""
    header, size = struct.pack(">HH", vectors.shape[1], 0), 4 * vectors.shape[1]
    buffer = np.ascontiguousarray(vectors, ">f4").tobytes()
    return PackedList(Packed(header + buffer[at : at + size]) for at in range(0, len(buffer), size))


def unpack(column: list[bytes], dim: int) -> Float32:
    """Returns the vectors (n, dim) of a column in binary form."""
    return np.frombuffer(b"".join(column), ">f4").reshape(len(column), dim).astype(np.float32)
