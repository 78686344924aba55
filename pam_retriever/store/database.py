"""The contract of a database: memories, trajectories and settings of one index, in SQLite or in an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pam_retriever.ann.selection import Rows
from pam_retriever.store.index_mentions import IndexMentions
from pam_retriever.store.sqlite.feedback import SQLiteFeedback
from pam_retriever.store.sqlite.times import SQLiteTimes
from pam_retriever.store.sqlite.words import ChangedWords
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Evidence, Float32, Int64, Record, Times, TrajectoryRecord

if TYPE_CHECKING:
    from pam_retriever.store.sqlite.database import SQLiteDatabase

Steps = tuple[Int64, Int64, Int64, Float32]
"""Rows, trajectories, positions and salience (by default 1) of experienced steps, (S,) each."""


@dataclass(frozen=True)
class Step:
    """One step of a trajectory, as it is stored."""

    row: int
    timestamp: float | None
    salience: float | None


@dataclass(frozen=True)
class TrajectoryEnd:
    """The end of a trajectory.

    Attributes:
        number: number of the trajectory.
        position: position of the next step.
        timestamp: the latest timestamp of its steps; None if no step has a timestamp.
    """

    number: int
    position: int
    timestamp: float | None


Grouped = tuple[int, str, object, str, object]
"""Row, id, group, kind of order, and order of a memory."""


class Memories(Protocol):
    """The memories of one index. A memory has an id from the user, and a row number, which is never reused."""

    def __len__(self) -> int:
        """The number of memories."""

    def rows(self) -> Int64:
        """All rows, sorted."""

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Returns id -> row, for the ids that are stored."""

    def rows_where(self, where: Mapping[str, object]) -> Rows:
        """Returns the rows whose metadata satisfy a filter, sorted."""

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """Returns id -> memory, for the ids that are stored."""

    def find(self, where: Mapping[str, object], limit: int | None, offset: int = 0) -> list[Record]:
        """Returns the memories whose metadata satisfy a filter, in the order of adding."""

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """Returns row -> (id, text, metadata as JSON), for the rows that are stored."""

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        """Returns all rows, sorted, and their vectors (n, dim)."""

    # ---- writing, inside a transaction

    def upsert(self, new: NewMemories, associations: Float32 | None) -> Int64:
        """Stores memories and replaces those with the same id; returns their rows (n,).

        Args:
            new: n memories.
            associations: (n, dim + code), f(p) and the episode code of each memory; None before ``fit``.
        """

    def remove(self, rows: Int64) -> None:
        """Removes memories by row, and their steps."""

    # ---- words

    @property
    def words_version(self) -> int:
        """Changes with every write that may change postings or lengths."""

    def written_since(self, version: int) -> Int64 | None:
        """Returns the rows added, changed or removed after a ``words_version``, sorted; None if they are unknown."""

    @property
    def last_row(self) -> int:
        """Returns the largest stored row, or a larger number."""

    def positions(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        """Returns postings: the sorted rows whose "text" or "labels" hold a term, and the count in each.

        Args:
            term: a stemmed term, as ``Tokenizer`` returns it.
            column: "text", or "labels" for the strings in metadata.
            most: bound on the rows, or on the occurrences, that are read.
        """

    def held(self, terms: Sequence[str]) -> list[str]:
        """Returns those of some sorted, stemmed terms that the text or a label of some memory holds."""

    def lengths(self) -> tuple[Int64, Int64]:
        """Returns the rows that have a text, and the length of each text in characters."""

    def words_since(self, version: int) -> ChangedWords | None:
        """Returns the words that changed after a ``words_version``; None if all words have to be read again."""


class Trajectories(Protocol):
    """The trajectories of one index. Each has an id, and a number. Numbers increase, and are never reused."""

    def __len__(self) -> int:
        """The number of trajectories."""

    def last_number(self) -> int:
        """The highest number that any trajectory ever had; 0 before the first."""

    def experienced(self, without: Sequence[str] = ()) -> Steps:
        """Returns all steps in order, without the trajectories with these ids."""

    def experienced_when(self) -> Times:
        """Returns the timestamp (S,) of every step, NaN for none, in the order of ``experienced``."""

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """Returns the number of steps of each of ``rows`` (n,), and the number of all steps."""

    def newest_time(self) -> float | None:
        """Returns the latest timestamp of any step, or None."""

    def last_times(self, rows: Int64) -> Times:
        """Returns the latest timestamp (n,) of each of ``rows``, NaN for none."""

    def timestamps(self, rows: Int64) -> list[tuple[int, float]]:
        """Returns row and timestamp of every step of ``rows`` that has a timestamp."""

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        """Returns (row, id, group, kind of order, order) of each memory whose metadata have ``group_by``, in order."""

    def evidence(self, cues: Int64, window: int, repeats: bool = False) -> dict[int, list[Evidence]]:
        """Returns hit row -> the trajectories in which it occurs with one of ``cues``, nearest first.

        A memory that occurs twice within the window is evidence for itself only with ``repeats``.
        """

    def end(self, id: str, timed: bool) -> TrajectoryEnd | None:
        """Returns the end of the trajectory with this id; None if there is none. It has a timestamp only if ``timed``.

        The search for the latest timestamp reads every step after it, all of them if none has one.
        """

    def end_of(self, number: int) -> int:
        """Returns the position of the next step of the trajectory with this number; 0 if it has no step."""

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        """Returns the position and the step of each step of a trajectory, in order."""

    def numbers(self, rows: Int64 | None = None, ids: Sequence[str] | None = None) -> list[int]:
        """Returns the sorted numbers of trajectories: of all, of those that hold one of ``rows``, or by ``ids``."""

    def listed(self, numbers: Sequence[int]) -> list[TrajectoryRecord]:
        """Returns the trajectories with these numbers, in this order."""

    # ---- writing, inside a transaction

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        """Stores a trajectory; it replaces a trajectory with the same id. A step of None leaves a position empty.

        Returns:
            The number of the new trajectory, and the number of the replaced trajectory or None.
        """

    def extend(self, number: int, first: int, steps: Sequence[Step]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Removes trajectories; their memories stay."""

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        """Removes trajectories without steps, among these numbers or among all trajectories."""


class Settings(Protocol):
    """Stored values besides memories and trajectories."""

    def get(self, key: str) -> object:
        """Returns the value, as JSON gives it, or None."""

    def set(self, key: str, value: object) -> None:
        """Stores a value that JSON can hold."""

    def all(self, prefix: str = "") -> dict[str, object]:
        """Returns every setting whose key begins with ``prefix``; others are not read."""

    def remove(self, key: str) -> None:
        """Removes a setting, and weights of this name, if they are there."""

    def weights(self, name: str) -> bytes | None:
        """Returns the weights of a module, as safetensors, or None."""

    def set_weights(self, name: str, safetensors: bytes) -> None:
        """Stores weights; replaces weights with the same name."""


class Database(Protocol):
    """Memories, trajectories and settings of one index."""

    @property
    def memories(self) -> Memories:
        """The memories."""

    @property
    def trajectories(self) -> Trajectories:
        """The trajectories of the memories."""

    @property
    def feedback(self) -> SQLiteFeedback:
        """Requests, and the memories that served them; for an engine, a copy."""

    @property
    def times(self) -> SQLiteTimes:
        """The times of memories; for an engine, a copy."""

    @property
    def mentions(self) -> IndexMentions:
        """The mentions of memories in texts."""

    @property
    def settings(self) -> Settings:
        """The other stored values."""

    @property
    def sharded(self) -> SQLiteDatabase | None:
        """The database itself if a training can read it shard by shard; else None."""

    def snapshot(self) -> Database:
        """Returns a snapshot that no later write changes; the caller closes it. Nobody may write meanwhile."""

    def check_writable(self) -> None:
        """Raises ReadOnlyIndex for a database that was opened to read."""

    def transaction(self) -> AbstractContextManager[None]:
        """Commits all writes of the block together, or none."""

    def forget(self, rows: Int64) -> None:
        """Inside a transaction: removes memories by row, their steps, and then trajectories without steps."""

    def discard_keys(self) -> None:
        """Inside a transaction: removes all association vectors. The memories are then as before ``fit``."""

    def close(self) -> None:
        """Closes the database. A second call does nothing."""
