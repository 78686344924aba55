"""Kinds of stores: stores of observations, and stores in an engine, whose changes may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.space import Space
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.store.base import Store

P = ParamSpec("P")
S = TypeVar("S", bound="Store")
T = TypeVar("T")


class ObservedStore(Protocol):
    """A store that holds observations, and the vectors that an encoder made of them."""

    def observations(self, rows: Int64) -> dict[int, bytes]:
        """Returns row -> observation, for the rows that have one."""

    def unobserved(self) -> list[tuple[int, str]]:
        """Returns (row, id) of the memories that were added as vectors."""

    def move(
        self, space: Space, predictor: PredictorWeights | None, window: int, rows: Int64, vectors: Float32
    ) -> None:
        """Replaces the encoder, all vectors, and f of the vectors, in one transaction.

        Args:
            space: the encoder.
            predictor: f; None before ``fit``.
            window: tau of f.
            rows: (n,) all rows.
            vectors: (n, d).
        """


class Engine(Protocol):
    """A database server, or a database file, that holds a whole index.

    Attributes:
        name: name of the engine.
    """

    name: str

    def open_store(self, dim: int | None) -> Store:
        """Opens the index; creates it if it does not exist.

        Args:
            dim: d of the index; None for an index that exists.

        Raises:
            EngineUnavailable, InvalidInput, StorageError, IndexFormatError: the message explains the cause.
        """


def repeated(change: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Lets ``Store.again`` repeat this method of a store."""

    @wraps(change)
    def call(store: S, /, *args: P.args, **named: P.kwargs) -> T:
        return store.again(partial(change, store, *args, **named))

    return call
