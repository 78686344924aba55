"""The persisted form of a store: the folder of an index, or an empty folder for a store without nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from pam_retriever import IndexFormatError, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.adapters.lazy_index import is_filled


def check_local(fs: AbstractFileSystem | None) -> None:
    """Checks that the file system can hold an index.

    Raises:
        InvalidInput: the file system is not the local one.
    """
    if fs is not None and not isinstance(fs, LocalFileSystem):
        raise InvalidInput(
            f"Got the file system {type(fs).__name__}.", "the local one", "Persist to a local folder and copy that."
        )


def save_index(index: PredictiveAssociativeIndex | None, path: str, home: str | None) -> None:
    """Writes an index to ``path``, unless ``path`` is the folder ``home`` of the index.

    Raises:
        InvalidInput: there is no index yet, but ``path`` has contents.
        IndexFormatError: ``path`` has other contents than an index.
    """
    folder = Path(path)
    if index is None:
        # without a node the dimension is unknown, so there is no index to write
        if is_filled(folder):
            raise InvalidInput(f"The store is empty and {folder} is not.", "an empty folder", "Persist elsewhere.")
        folder.mkdir(parents=True, exist_ok=True)
    elif home is None or folder.resolve() != Path(home).resolve():
        index.save(folder, overwrite=is_filled(folder))


def load_index(path: str) -> PredictiveAssociativeIndex | None:
    """Reads an index into memory; None for the empty folder of an empty store.

    Raises:
        IndexFormatError: there is no index, or a damaged one.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise IndexFormatError(f"There is no folder {folder}.", "the folder of a persisted store", "Check the path.")
    return PredictiveAssociativeIndex.load(folder) if is_filled(folder) else None


def read_folders_from_storage(read: Callable[[str], BasePydanticVectorStore]) -> None:
    """Makes ``StorageContext.from_defaults(persist_dir=...)`` read the folders from ``StorageContext.persist``.

    It reads every vector store as a ``SimpleVectorStore``, which is a file, and LlamaIndex has no way to register
    another store. So this wraps the function that reads the file. If the path is no folder, the original function reads
    it.
    """
    read_file = SimpleVectorStore.from_persist_path.__func__  # type: ignore[attr-defined]

    def from_persist_path(
        cls: type[SimpleVectorStore], persist_path: str, fs: AbstractFileSystem | None = None
    ) -> BasePydanticVectorStore:
        if (fs is None or isinstance(fs, LocalFileSystem)) and Path(persist_path).is_dir():
            return read(persist_path)
        found: BasePydanticVectorStore = read_file(cls, persist_path, fs)
        return found

    SimpleVectorStore.from_persist_path = classmethod(from_persist_path)  # type: ignore[assignment]
