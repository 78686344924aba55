"""Copies an index in an engine to the database of a folder."""

from __future__ import annotations

from typing import Protocol

from pam_retriever.ann import AnnIndex
from pam_retriever.engines.base import EngineMemories, EngineTrajectories
from pam_retriever.engines.kept import Kept
from pam_retriever.filters import to_json
from pam_retriever.store.columns import checksum, to_blobs
from pam_retriever.store.database import Settings
from pam_retriever.store.sqlite_database import SQLiteDatabase


class Copied(Protocol):
    """The parts of a copy, as in ``EngineDatabase``."""

    @property
    def memories(self) -> EngineMemories: ...
    @property
    def trajectories(self) -> EngineTrajectories: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def kept(self) -> Kept: ...
    @property
    def dim(self) -> int: ...


def copy_of(engine: Copied, associative: AnnIndex | None) -> SQLiteDatabase:
    """Returns a database in memory with all data of an engine; rows and numbers stay the same.

    Args:
        engine: with the index.
        associative: over the keys [p ; f(p) ; e(p)], None before ``fit``.
    """
    copy, dim = SQLiteDatabase(), engine.dim
    with copy.closed_on_error(), copy.transaction():
        run_many = copy.connection.run_many
        rows, vectors = engine.memories.all_vectors(dim)
        blobs, listed, contents = to_blobs(vectors), rows.tolist(), engine.memories.contents(rows)
        run_many(
            "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?)",
            ((row, *contents[row], _checksum(contents[row], blob)) for row, blob in zip(listed, blobs, strict=True)),
        )
        predicted = [None] * len(rows) if associative is None else to_blobs(associative.keys(rows)[:, dim:])
        run_many("INSERT INTO vectors VALUES (?, ?, ?)", zip(listed, blobs, predicted, strict=True))
        run_many("INSERT INTO trajectories (trajectory, id) VALUES (?, ?)", engine.trajectories.named())
        run_many(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            engine.trajectories.steps(),
        )
        run_many(
            "INSERT INTO settings VALUES (?, ?)",
            ((key, to_json(value)) for key, value in engine.settings.all().items()),
        )
        engine.kept.copy_to(copy)
    return copy


def _checksum(contents: tuple[str, str | None, str], vector: bytes) -> int:
    id, text, metadata = contents
    return checksum(id, text, metadata, vector)
