"""The access of the explorer to its index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal

from pam_retriever.errors import ReadOnlyIndex

if TYPE_CHECKING:
    import pam_retriever as pam

Method = Literal["pca", "umap"]


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
        index: pam.PredictiveAssociativeIndex,
        refresh: Callable[[], object] | None = None,
        writable: Callable[[], AbstractContextManager[pam.PredictiveAssociativeIndex]] | None = None,
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

    def writing(self) -> AbstractContextManager[pam.PredictiveAssociativeIndex]:
        """Returns the index to write to, as a context manager.

        Raises:
            ReadOnlyIndex: the explorer only reads.
            IndexLocked: another process writes.
        """
        if self._writable is None:
            raise ReadOnlyIndex("The explorer may not write.", "an explorer that may", "Start it with --write.")
        return self._writable()
