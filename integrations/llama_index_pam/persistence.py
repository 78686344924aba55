"""Where a store is persisted: the folder of an index, or an empty one for a store without nodes."""

from __future__ import annotations

from pathlib import Path

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from pam_retriever import IndexFormatError, InvalidInput, PredictiveAssociativeIndex


def check_local(fs: AbstractFileSystem | None) -> None:
    """Refuses file systems that cannot hold an index.

    Raises:
        InvalidInput: for any but the local one.
    """
    if fs is not None and not isinstance(fs, LocalFileSystem):
        raise InvalidInput(
            f"Got the file system {type(fs).__name__}.", "the local one", "Persist to a local folder and copy that."
        )


def is_filled(path: str | Path) -> bool:
    """Whether there is anything in a folder, or a file in its place."""
    folder = Path(path)
    return folder.is_file() or (folder.is_dir() and any(folder.iterdir()))


def save_index(index: PredictiveAssociativeIndex | None, path: str, home: str | None) -> None:
    """Writes an index to ``path``, unless that is its ``home``, where it is durable.

    Raises:
        InvalidInput: there is no index yet, but something at ``path``.
        IndexFormatError: what is at ``path`` is no index.
    """
    folder = Path(path)
    if index is None:
        # the dimension is not known before the first node, so that there is no index to write
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
