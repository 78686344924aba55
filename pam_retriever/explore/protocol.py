"""What the explorer asks of an index: a part of its public class."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from pam_retriever.errors import ReadOnlyIndex
from pam_retriever.types import FitReport, Float32, Hits, Int64, Record, TrajectoryRecord

Where = Mapping[str, object] | None


class Numbers(Protocol):
    """As ``Overview``; only what is shown beside its attributes is named here."""

    @property
    def requests(self) -> int | None: ...

    @property
    def window(self) -> int: ...

    def to_dict(self) -> dict[str, object]: ...


class Points(Protocol):
    """As ``Projection``."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def points(self) -> Float32: ...

    @property
    def sessions(self) -> Int64: ...

    @property
    def values(self) -> tuple[object, ...]: ...

    @property
    def explained(self) -> tuple[float, float]: ...

    @property
    def total(self) -> int: ...


class Request(Protocol):
    """As ``Feedback``."""

    @property
    def id(self) -> str: ...

    @property
    def text(self) -> str | None: ...

    @property
    def used(self) -> dict[str, float]: ...

    @property
    def timestamp(self) -> float | None: ...


class Explorable(Protocol):
    """The methods of ``PredictiveAssociativeIndex`` that the explorer calls; see there."""

    def __len__(self) -> int: ...

    def overview(self) -> Numbers: ...

    def last_fit(self) -> FitReport | None: ...

    def project(self, limit: int = ..., *, by: str | None = ...) -> Points: ...

    def search(
        self, query: str | Float32 | None = ..., k: int = ..., where: Where = ..., *, text: str | None = ...
    ) -> Hits: ...

    def recall(
        self,
        query: str | Float32 | None = ...,
        k: int | None = ...,
        *,
        text: str | None = ...,
        where: Where = ...,
        explain: bool = ...,
        without: Sequence[str] = ...,
    ) -> Hits: ...

    def get(self, ids: Sequence[str], missing_ok: bool = ...) -> list[Record]: ...

    def find(self, where: Where = ..., limit: int | None = ..., offset: int = ...) -> list[Record]: ...

    def trajectories(
        self,
        where: Where = ...,
        limit: int | None = ...,
        offset: int = ...,
        *,
        ids: Sequence[str] | None = ...,
        holding: Sequence[str] | None = ...,
    ) -> list[TrajectoryRecord]: ...

    def surprise(self, trajectory: list[str]) -> list[float]: ...

    def feedbacks(
        self, where: Where = ..., limit: int | None = ..., offset: int = ..., *, naming: str | None = ...
    ) -> Sequence[Request]: ...

    def feedback(
        self,
        query: str | Float32 | None = ...,
        used: Sequence[str] = ...,
        *,
        unused: Sequence[str] = ...,
        text: str | None = ...,
        id: str | None = ...,
    ) -> str: ...

    def delete_feedback(self, ids: str) -> int: ...

    def close(self) -> None: ...


class Source:
    """Where the explorer has its index from: the index itself, or a folder that is opened anew.

    Args:
        index: to read.
        reopen: opens it anew, to see what a writer wrote since; None where it is live.
        writable: the index to write to, for one call, as a context; None to refuse every change.
        check: reads everything and says what is damaged; None where that cannot be asked.
        texts: whether the index has an embedder, so that questions may be words.
    """

    def __init__(
        self,
        index: Explorable,
        reopen: Callable[[], Explorable] | None = None,
        writable: Callable[[], AbstractContextManager[Explorable]] | None = None,
        check: Callable[[], list[str]] | None = None,
        texts: bool = False,
    ) -> None:
        self._index, self._reopen, self._writable = index, reopen, writable
        self.check, self.texts = check, texts
        self._lock, self._users = threading.Lock(), {id(index): 0}
        self.opened = 0  # how often it was opened anew: what was computed before may be old

    @property
    def writes(self) -> bool:
        """Whether feedback may be given."""
        return self._writable is not None

    @contextmanager
    def using(self) -> Iterator[Explorable]:
        """The index as it is now; it is not closed before the context ends."""
        with self._lock:
            index = self._index
            self._users[id(index)] += 1
        try:
            yield index
        finally:
            with self._lock:
                self._users[id(index)] -= 1
                old = index is not self._index and not self._users[id(index)]
            if old:
                self._drop(index)

    def refresh(self) -> None:
        """Opens the index anew, where it is not live."""
        if self._reopen is None:
            self.opened += 1
            return
        new = self._reopen()
        with self._lock:
            old, self._index = self._index, new
            self._users[id(new)] = 0
            unused = not self._users[id(old)]
            self.opened += 1
        if unused:
            self._drop(old)

    def _drop(self, index: Explorable) -> None:
        with self._lock:
            del self._users[id(index)]
        index.close()

    def writing(self) -> AbstractContextManager[Explorable]:
        """The index to write to, as a context.

        Raises:
            ReadOnlyIndex: the explorer only reads.
            IndexLocked: another process writes.
        """
        if self._writable is None:
            raise ReadOnlyIndex("The explorer was asked to write.", "one that may", "Start it with --write.")
        return self._writable()

    def close(self) -> None:
        """Closes the index that ``reopen`` opened; a live one is its owner's."""
        if self._reopen is not None:
            self._index.close()
