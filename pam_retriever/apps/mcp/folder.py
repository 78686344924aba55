"""An index in a folder that several processes read and write: readers follow the writers, which take turns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pam_retriever.apps.code import CodeMemory, state_of
from pam_retriever.embedding import Embedder
from pam_retriever.embedding.text_models import TextModel
from pam_retriever.errors import IndexLocked, InvalidInput, PAMError, ReadOnlyIndex, counted
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.locks import Mutex
from pam_retriever.store.folder.manifest import has_manifest
from pam_retriever.types import Float32

WAIT = 10.0  # seconds that a write waits for other writers
FIT_AFTER = 50  # number of new steps and requests that start a fit
FIT_SECONDS = 4.0  # seconds of a training: other processes wait for it, at most ``WAIT``

log = logging.getLogger(__name__)


class LockedModel:
    """A model that one thread at a time may call, because tokenizers are not thread-safe.

    It caches the last text of each kind. So a text can be embedded before a write, while other processes need not wait.

    Args:
        model: the model to call.
    """

    def __init__(self, model: TextModel) -> None:
        self.model_name, self._model, self._turn = model.model_name, model, Mutex()
        self._last: dict[str, tuple[list[str], Float32]] = {}

    def encode_document(self, texts: list[str], show_progress_bar: bool = False) -> Float32:
        """Returns vectors (n, d) of texts to store."""
        return self._encode("document", texts, show_progress_bar)

    def encode_query(self, texts: list[str], show_progress_bar: bool = False) -> Float32:
        """Returns vectors (n, d) of queries."""
        return self._encode("query", texts, show_progress_bar)

    encode = encode_document

    def _encode(self, kind: str, texts: list[str], show_progress_bar: bool) -> Float32:
        with self._turn:
            last = self._last.get(kind)
            if last is None or last[0] != texts:
                encode = self._model.encode_query if kind == "query" else self._model.encode_document
                last = self._last[kind] = list(texts), encode(texts, show_progress_bar=show_progress_bar)
            return last[1]


class SharedFolder:
    """An index that this process shares with others.

    Readers follow the writers. A write opens the index, changes it and closes it, so that all processes get their turn,
    and acknowledged writes are on disk.

    Args:
        path: the folder; the first call creates it.
        model: makes vectors of texts.
        read_only: refuse writes.
        wait: seconds that a write waits for other writers.
        fit_after: number of new steps and requests after which ``wrote`` starts a fit; None for never.
    """

    def __init__(
        self,
        path: Path,
        model: TextModel,
        *,
        read_only: bool = False,
        wait: float = WAIT,
        fit_after: int | None = FIT_AFTER,
    ) -> None:
        self.path, self.read_only, self.model = path, read_only, LockedModel(model)
        self._wait, self._fit_after = wait, fit_after
        self._opening, self._writing = Mutex(), threading.Lock()
        self._reader: PredictiveAssociativeIndex | None = None
        self._code: tuple[object, CodeMemory] | None = None
        self._new = 0
        self._fitting: threading.Thread | None = None
        self.last_fit = "none yet"

    def reader(self) -> PredictiveAssociativeIndex:
        """Returns the current index; creates it if it does not exist.

        Raises:
            InvalidInput: the index does not exist and may not be created; or another model made its vectors.
        """
        if self._reader is None and not has_manifest(self.path):
            self._make()  # outside the lock, which a writer takes, too
        with self._opening:
            if self._reader is None:
                self._reader = PredictiveAssociativeIndex.open(
                    self.path, embedder=self.model, read_only=True, follow=True
                )
            return self._reader

    def _make(self) -> None:
        if self.read_only:
            raise InvalidInput(f"There is no index at {self.path}.", "one, with --read-only", "Leave --read-only out.")
        with self.writing():
            pass

    def drop_reader(self) -> None:
        """Makes the next query open the folder again, for example after damage or a replacement."""
        with self._opening:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def code(self) -> CodeMemory:
        """Returns the index as a code memory.

        Raises:
            InvalidInput: the index is no code memory.
        """
        index = self.reader()
        state = state_of(index)
        head = None if state is None else (state.get("head"), state.get("files_at"))
        if self._code is None or self._code[0] != head:
            self._code = head, CodeMemory(index, Embedder(self.model))
        return self._code[1]

    @contextmanager
    def writing(self) -> Iterator[PredictiveAssociativeIndex]:
        """Opens the index for changes; nobody else changes it meanwhile.

        Raises:
            ReadOnlyIndex: this process must not write.
            IndexLocked: other processes wrote for longer than the wait.
        """
        if self.read_only:
            raise ReadOnlyIndex("The server was started with --read-only.", "a server that may write", "Start one.")
        until = time.monotonic() + self._wait
        if not self._writing.acquire(timeout=self._wait):
            raise IndexLocked(f"{self.path} is being written to.", f"a turn within {self._wait:g} s", "Try again.")
        try:
            left = max(0.0, until - time.monotonic())
            with PredictiveAssociativeIndex.open(self.path, embedder=self.model, lock_timeout=left) as index:
                yield index
            with self._opening:
                if self._reader is not None:
                    self._reader.refresh()  # this process sees its own write at once
        finally:
            self._writing.release()

    def wrote(self) -> None:
        """Counts a new step or request, and starts a fit in the background if there are enough."""
        self._new += 1
        running = self._fitting is not None and self._fitting.is_alive()
        if self._fit_after is None or self._new < self._fit_after or running:
            return
        self._new = 0
        self._fitting = threading.Thread(target=self._fit, name="fit")
        self._fitting.start()

    def _fit(self) -> None:
        try:
            import torch  # noqa: F401 - loaded before the lock is taken

            with self.writing() as index:
                report = index.fit(time_budget=FIT_SECONDS, progress=False)
            self.last_fit = (
                f"{counted(report.memories, 'memory')}, {counted(report.requests, 'request')}, {report.seconds:.1f} s"
            )
        except PAMError as error:  # tried again after more experience
            log.warning("fit: %s", error)
            self.last_fit = f"failed: {error}"

    def close(self) -> None:
        """Waits for a fit, and closes the reader."""
        if self._fitting is not None:
            self._fitting.join()
        self.drop_reader()
