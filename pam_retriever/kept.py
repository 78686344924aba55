"""A compressed index that is kept in the folder from ``close`` to ``open``, so that opening need not build it again.

It is a copy of what SQLite holds. The setting "ann" says that it is one, and which files it is; the first change of
the database deletes that setting in the same transaction. What no setting names is deleted by the next open.
"""

from __future__ import annotations

import logging
import re
import warnings
import zlib
from pathlib import Path

from pam_retriever.backends import Backend, FaissBackend, make_backend
from pam_retriever.storage.documents import Documents

log = logging.getLogger(__name__)

SETTING, NAME = Documents.DERIVED, re.compile(r"ann-[0-9a-f]{12}")


def keep(documents: Documents, folder: Path, whole: Backend | None) -> None:
    """Saves the index over whole keys, if it is compressed and changed since it was saved."""
    if not isinstance(whole, FaissBackend) or not whole.choice.code or documents.settings.get(SETTING) is not None:
        return
    try:
        saved = whole.save(folder)
        checksums = [_checksum(path) for path in _files(folder, str(saved["name"]))]
    except (OSError, RuntimeError) as error:
        warnings.warn(f"The compressed index was not kept ({error}): the next open builds it.", RuntimeWarning, 3)
        return
    with documents.transaction():
        documents.settings.set(SETTING, {**saved, "checksums": checksums})


def take(documents: Documents, folder: Path, backend: str, width: int) -> FaissBackend | None:
    """The index that was kept, if there is one of what the database holds now."""
    saved = documents.settings.get(SETTING)
    if not isinstance(saved, dict) or not NAME.fullmatch(str(saved.get("name"))):
        return None
    read_only = documents.database.read_only
    made = make_backend(backend, width, None if read_only else folder)
    try:
        if isinstance(made, FaissBackend):
            if [_checksum(path) for path in _files(folder, saved["name"])] != saved["checksums"]:
                return None
            made.restore(folder, saved, read_only)
            return made
    except (OSError, RuntimeError, ValueError, TypeError, KeyError) as error:
        log.info("The index that was kept cannot be used (%s): it is built from the database.", error)
    return None


def _files(folder: Path, name: str) -> list[Path]:
    """The codes and the rows; the full keys are too many to look at all of them."""
    return [folder / f"{name}.faiss", folder / f"{name}.rows.npy"]


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while part := file.read(1 << 24):
            found = zlib.crc32(part, found)
    return found


def remove_others(documents: Documents, folder: Path) -> None:
    """Deletes the files of indexes that are not kept, such as those of a process that was killed."""
    saved = documents.settings.get(SETTING)
    name = str(saved.get("name")) if isinstance(saved, dict) else "none"
    for path in [*folder.glob("ann-*"), *folder.glob("keys-*.f32")]:
        if not path.name.replace("keys-", "ann-").startswith(name):
            path.unlink(missing_ok=True)
