"""The part of the public class of an index that the explorer uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from pam_retriever.errors import ReadOnlyIndex
from pam_retriever.types import FitReport, Float32, Hits, Int64, Record, TrajectoryRecord

Where = Mapping[str, object] | None
Method = Literal["pca", "umap"]


class Numbers(Protocol):
    """The attributes of ``Overview`` that the explorer uses."""

    @property
    def requests(self) -> int | None: ...

    @property
    def window(self) -> int: ...

    def to_dict(self) -> dict[str, object]: ...


class Counts(Protocol):
    """See ``TimeCounts``."""

    def to_dict(self) -> dict[str, object]: ...


class Points(Protocol):
    """See ``Projection``."""

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
    """See ``Feedback``."""

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

    def time_counts(self, bins: int = ...) -> Counts | None: ...

    def project(self, limit: int = ..., method: Method = ..., *, by: str | None = ...) -> Points: ...

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


class Source:
    """The access of the explorer to its index.

    Args:
        index: the index to read.
        refresh: updates ``index`` to the writes of others; None if it needs no update.
        writable: the index to write to, for one call, as a context; None to refuse every change.
        check: reads everything and lists the damage; None if that is not possible.
        texts: whether the index has an embedder, so that questions may be texts.
    """

    def __init__(
        self,
        index: Explorable,
        refresh: Callable[[], object] | None = None,
        writable: Callable[[], AbstractContextManager[Explorable]] | None = None,
        check: Callable[[], list[str]] | None = None,
        texts: bool = False,
    ) -> None:
        self.index, self.check, self.texts = index, check, texts
        self._refresh, self._writable = refresh, writable
        self.refreshed = 0  # number of refreshes: earlier results may be stale

    @property
    def writes(self) -> bool:
        """Whether feedback may be stored."""
        return self._writable is not None

    def refresh(self) -> None:
        """Updates the index to the writes of others."""
        if self._refresh is not None:
            self._refresh()
        self.refreshed += 1

    def writing(self) -> AbstractContextManager[Explorable]:
        """Returns the index to write to, as a context manager.

        Raises:
            ReadOnlyIndex: the explorer only reads.
            IndexLocked: another process writes.
        """
        if self._writable is None:
            raise ReadOnlyIndex("The explorer may not write.", "an explorer that may", "Start it with --write.")
        return self._writable()
