"""The contract of a database: memories, trajectories and settings of one index, in SQLite or in an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pam_retriever.ann.selection import Rows
from pam_retriever.experience.feedback import Feedback, NewFeedback, PastRequests
from pam_retriever.mentions.store import MentionStore
from pam_retriever.store.times import Kind, NewTimes, StoredTimes
from pam_retriever.types import Evidence, Float32, Int64, Record, Times, TrajectoryRecord

Steps = tuple[Int64, Int64, Int64, Float32]
"""Rows, trajectories, positions and salience (1 where none was given) of experienced steps, (S,) each."""


@dataclass(frozen=True)
class Step:
    """One experienced state of a trajectory, as it is stored."""

    row: int
    timestamp: float | None
    salience: float | None


@dataclass(frozen=True)
class End:
    """Where a trajectory ends.

    Attributes:
        number: of the trajectory.
        position: of the step that would come next.
        timestamp: the latest, None for none.
    """

    number: int
    position: int
    timestamp: float | None


Grouped = tuple[int, str, object, str, object]
"""Row, id, group, kind of order, and order of a memory."""


class Memories(Protocol):
    """The memories of one index. A memory has a row number that is never reused, beside the id of its user."""

    def __len__(self) -> int:
        """How many there are."""

    def rows(self) -> Int64:
        """All rows, sorted."""

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those ids that are stored."""

    def rows_where(self, where: Mapping[str, object]) -> Rows:
        """The rows whose metadata satisfy a filter, sorted."""

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """id -> memory, of those that are stored."""

    def find(self, where: Mapping[str, object], limit: int | None, offset: int = 0) -> list[Record]:
        """The memories whose metadata satisfy a filter, in the order of adding."""

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """row -> (id, text, metadata as JSON), for the rows that are stored."""

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        """Every row, sorted, and its vector (n, dim)."""

    # ---- writing, inside a transaction

    def upsert(
        self,
        ids: Sequence[str],
        texts: Sequence[str | None],
        metadatas: Sequence[str],
        vectors: Float32,
        associations: Float32 | None,
        observed: Sequence[bytes] | None = None,
    ) -> Int64:
        """Stores memories, replacing those whose id is there; returns their rows (n,).

        Args:
            ids: n, distinct.
            texts: n.
            metadatas: n, as JSON.
            vectors: (n, dim).
            associations: (n, dim + code) f and the episode code of each; None before ``fit``.
            observed: n, what an encoder made the vectors of; None for vectors.
        """

    def remove(self, rows: Int64) -> None:
        """Removes memories by row, and their steps."""

    # ---- words

    @property
    def words_version(self) -> int:
        """Changes with everything that may change postings or lengths."""

    def written_since(self, version: int) -> Int64 | None:
        """The rows that were added or changed after a ``words_version``, sorted; None where some may have gone."""

    @property
    def last_row(self) -> int:
        """At least the largest row that is stored."""

    def places(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        """Postings: the rows whose "text" or "labels" hold a term, sorted, and how often each does.

        Args:
            term: stemmed, as ``Tokenizer`` makes it.
            column: "text", or "labels" for the strings in metadata.
            most: at most so many rows, or occurrences, are read.
        """

    def lengths(self) -> tuple[Int64, Int64]:
        """The rows that have a text, and its length in characters."""


class Trajectories(Protocol):
    """The trajectories of one index. Each has a number, which rises and is never reused, beside its id."""

    def __len__(self) -> int:
        """How many there are."""

    def last_number(self) -> int:
        """The highest number that a trajectory ever had; 0 before the first."""

    def experienced(self, without: Sequence[str] = ()) -> Steps:
        """All steps in order, but those of the trajectories with these ids."""

    def experienced_when(self) -> Times:
        """(S,) the timestamp of every step, NaN for none, in the order of ``experienced``."""

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """How often each of ``rows`` (n,) was experienced, and how many steps there are in all."""

    def newest_time(self) -> float | None:
        """The latest timestamp of any step, or None."""

    def last_times(self, rows: Int64) -> Times:
        """(n,) when each of ``rows`` was experienced last, NaN for none."""

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        """(row, id, group, kind of order, order) of each memory whose metadata have ``group_by``, in order."""

    def meetings(self, cues: Int64, window: int) -> dict[int, list[Evidence]]:
        """hit row -> the occasions on which it met one of ``cues``, nearest first."""

    def end(self, id: str) -> End | None:
        """Where the trajectory of that id ends; None if there is none."""

    def end_of(self, number: int) -> int:
        """The position that would come next in the trajectory of that number; 0 if there is none."""

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        """Position and step of a trajectory, in order."""

    def numbers(self, rows: Int64 | None = None, ids: Sequence[str] | None = None) -> list[int]:
        """The numbers of the trajectories, rising: of all, of those that hold one of ``rows``, or of those named."""

    def listed(self, numbers: Sequence[int]) -> list[TrajectoryRecord]:
        """The trajectories of those numbers, in their order."""

    # ---- writing, inside a transaction

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        """Stores a trajectory, replacing the one with that id; None leaves a position empty.

        Returns:
            Its number, and the number of the one that it replaces.
        """

    def extend(self, number: int, first: int, steps: Sequence[Step]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Removes trajectories; their memories stay."""

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        """Removes those of which no step is left, of the trajectories of these numbers or of all."""


class FeedbackTable(Protocol):
    """The feedback of one index: requests, and what served them. The order of arrival is kept."""

    def __len__(self) -> int:
        """How many requests there are."""

    @property
    def version(self) -> int:
        """Changes with everything that is written to the index; reading it costs nothing."""

    def state(self) -> tuple[int, int]:
        """What changes with every request that is stored or removed, but not with its uses."""

    def arrived(self, after: int) -> int:
        """How many there are that came after the request of that number."""

    def requests(
        self, dim: int, where: Mapping[str, object] | None = None, writer: str = "", after: int = 0
    ) -> PastRequests:
        """Those ``after`` one that satisfy a filter, in the order of time, or of arrival; ``writer`` is whose key."""

    def find(
        self, where: Mapping[str, object], limit: int | None, offset: int = 0, row: int | None = None
    ) -> list[Feedback]:
        """Requests whose metadata satisfy a filter, in the order of arrival; only those that name memory ``row``."""

    def ids_of(self, where: Mapping[str, object]) -> list[str]:
        """The ids of the requests whose metadata satisfy a filter."""

    # ---- writing, inside a transaction

    def put(self, new: NewFeedback, vectors: Float32, rows: Mapping[str, int]) -> None:
        """Stores requests and vectors (n, dim), replacing those whose id is there; ``rows`` are of all they name."""

    def remove(self, ids: Sequence[str]) -> int:
        """Removes requests; returns how many were there."""


class TimesTable(Protocol):
    """When memories were. A time that was given with a memory counts before one that a trajectory hands down."""

    @property
    def version(self) -> int:
        """Changes with everything that may change times, but for memories that go."""

    def kind(self) -> Kind | None:
        """Of which kind they are; None without any."""

    def all(self) -> StoredTimes:
        """Every memory that has one."""

    def of(self, rows: Int64) -> StoredTimes:
        """Those of ``rows`` that have one."""

    def between(self, start: float, end: float) -> tuple[Int64, Times]:
        """The memories from ``start`` on and before ``end``, the newest first, and when they were."""

    def counts(self, bins: int) -> tuple[float, float, list[int]] | None:
        """The first and the last time, and how many memories are in each of equal stretches; None for none."""

    # ---- writing, inside a transaction

    def put(self, rows: Int64, new: NewTimes) -> None:
        """The times that n memories were stored with; who has none keeps what was handed down.

        Raises:
            InvalidInput: the index has times of the other kind.
        """

    def hand_down(self, rows: Int64, times: Sequence[float]) -> None:
        """The dates of T steps of a trajectory; the earliest of a memory's steps is its own.

        Raises:
            InvalidInput: the index has times that are numbers.
        """


class KeptMentions(Protocol):
    """Which texts name which memories, kept in step with them."""

    @property
    def store(self) -> MentionStore:
        """The tables."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the metadata that are names."""

    @property
    def known(self) -> bool:
        """Whether there is anything to ask."""

    @property
    def pending(self) -> bool:
        """Whether nobody has looked for names yet."""

    # ---- writing, inside a transaction

    def set_keys(self, keys: Sequence[str]) -> None:
        """Has other keys be names."""

    def build(self) -> None:
        """Looks for names, and where there are some for mentions."""

    def follow(self, rows: Int64, metadatas: Sequence[str]) -> None:
        """Takes in memories (n,) that were just added or changed, and their metadata as JSON."""

    def forget(self, rows: Int64) -> None:
        """Takes out memories that are about to be deleted."""


class Settings(Protocol):
    """What is stored beside memories and trajectories."""

    def get(self, key: str) -> object:
        """The value, as JSON has it, or None."""

    def set(self, key: str, value: object) -> None:
        """Stores a value that JSON can hold."""

    def all(self) -> dict[str, object]:
        """Every setting."""

    def remove(self, key: str) -> None:
        """Removes a setting, if it is there."""

    def weights(self, name: str) -> bytes | None:
        """The weights of a module, as safetensors, or None."""

    def set_weights(self, name: str, safetensors: bytes) -> None:
        """Stores weights; those of that name are replaced."""


class Database(Protocol):
    """Memories, trajectories and settings of one index."""

    @property
    def memories(self) -> Memories:
        """What is stored."""

    @property
    def trajectories(self) -> Trajectories:
        """In which they were experienced."""

    @property
    def feedback(self) -> FeedbackTable | None:
        """Requests, and what served them; None where it cannot be stored."""

    @property
    def times(self) -> TimesTable | None:
        """When memories were; None where it cannot be stored."""

    @property
    def mentions(self) -> KeptMentions | None:
        """Which texts name which memories; None where that cannot be stored."""

    @property
    def settings(self) -> Settings:
        """What else the index stores."""

    @property
    def sharded(self) -> ShardedDatabase | None:
        """Itself, where a training can read it shard by shard; else None."""

    def snapshot(self) -> Database:
        """All of it as it is now, whatever is written later, to be closed. Nobody may write meanwhile."""

    def check_writable(self) -> None:
        """Raises ReadOnlyIndex for a database that was opened to read."""

    def transaction(self) -> AbstractContextManager[None]:
        """All that is written inside is committed together, or not at all."""

    def forget(self, rows: Int64) -> None:
        """Inside a transaction: removes memories by row, their steps, and trajectories of which nothing is left."""

    def close(self) -> None:
        """Closes it. Closing twice is harmless."""


class ShardedMemories(Memories, Protocol):
    """Memories that can be read some at a time."""

    def vectors_of(self, rows: Int64, dim: int) -> tuple[Int64, Float32]:
        """Those of ``rows`` that are stored, sorted, and their vectors (n, dim), as they were added."""


class ShardedTrajectories(Trajectories, Protocol):
    """Trajectories that can be read some at a time."""

    def lengths(self) -> tuple[Int64, Int64]:
        """The numbers of all trajectories, rising, and how many steps each has."""

    def between(self, first: int, last: int) -> Steps:
        """The steps of the trajectories numbered ``first`` to ``last``."""

    def memories(self) -> int:
        """How many memories were experienced."""


class ShardedDatabase(Database, Protocol):
    """A database that a training can read shard by shard."""

    @property
    def memories(self) -> ShardedMemories:
        """What is stored."""

    @property
    def trajectories(self) -> ShardedTrajectories:
        """In which they were experienced."""
