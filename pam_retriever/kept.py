"""A compressed index that is kept in the folder from ``close`` to ``open``, so that opening need not build it again.

It is a copy of what SQLite holds, and so are the links beside it. The setting "ann" says that it is one, and which
files it is; the first change of the database deletes that setting in the same transaction. What no setting names is
deleted by the next open.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.backends import Backend, FaissBackend, make_backend
from pam_retriever.links import Links
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.files import blocks, crc32_of
from pam_retriever.storage.verification import Copy

log = logging.getLogger(__name__)

SETTING, NAME = Documents.DERIVED, re.compile(r"ann-[0-9a-f]{12}")
STEP = np.dtype([("row", "<i8"), ("trajectory", "<i8"), ("position", "<i8"), ("salience", "<f4")])
UNUSABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError)


def keep(documents: Documents, folder: Path, whole: Backend | None, links: Links) -> None:
    """Saves the index over whole keys and the links, if it is compressed and changed since it was saved."""
    if not isinstance(whole, FaissBackend) or not whole.choice.code or _is_kept(documents, folder, whole):
        return
    try:
        saved = whole.save(folder)
        _save_links(folder / f"{saved['name']}.links.npy", links)
        checksums = {
            end: crc32_of(blocks(folder / f"{saved['name']}.{end}")) for end in ("faiss", "rows.npy", "links.npy")
        }
    except (OSError, RuntimeError) as error:
        warnings.warn(f"The compressed index was not kept ({error}): the next open builds it.", RuntimeWarning, 3)
        return
    with documents.transaction():
        documents.settings.set(SETTING, {**saved, "checksums": checksums})


def take(documents: Documents, folder: Path, backend: str, width: int) -> FaissBackend | None:
    """The index that was kept, if there is one of what the database holds now."""
    read_only = documents.database.read_only
    made = make_backend(backend, width, None if read_only else folder)
    try:
        saved = _saved(documents)
        if saved is not None and isinstance(made, FaissBackend):
            for end in ("faiss", "rows.npy"):
                _check(folder, saved, end)
            made.restore(folder, saved, read_only)
            return made
    except UNUSABLE as error:
        log.info("The index that was kept cannot be used (%s): it is built from the database.", error)
    return None


def take_links(documents: Documents, folder: Path) -> Links | None:
    """The links that were kept, if there are any of what the database holds now."""
    try:
        saved = _saved(documents)
        if saved is not None:
            steps = np.load(_check(folder, saved, "links.npy"), allow_pickle=False)
            if steps.dtype != STEP or steps.ndim != 1:
                raise ValueError(f"these are no steps: {steps.dtype}")
            return Links(*(np.ascontiguousarray(steps[name]) for name in STEP.names or ()))
    except UNUSABLE as error:
        log.info("The links that were kept cannot be used (%s): they are read from the database.", error)
    return None


def full_keys(documents: Documents, folder: Path) -> Copy | None:
    """What the file of full keys has to hold: too much to look at before the first answer."""
    saved = _saved(documents)
    if saved is None:
        return None
    path = folder / f"{str(saved['name']).replace('ann', 'keys')}.f32"
    return Copy(path, 4 * int(saved["width"]) * int(saved["keys"]), int(saved["keys_checksum"]))


def damaged(documents: Documents, folder: Path) -> Iterator[str]:
    """What is not as it was kept, a line for each file."""
    try:
        saved, full = _saved(documents), full_keys(documents, folder)
        if saved is None or full is None:
            return
        for end in ("faiss", "rows.npy", "links.npy"):
            _check(folder, saved, end)
        if crc32_of(blocks(full.path, full.size)) != full.checksum:
            raise ValueError(f"{full.path} is damaged: its checksum differs")
    except UNUSABLE as error:
        yield f"the index that was kept is not whole ({error}); it can be built from the database"


def _is_kept(documents: Documents, folder: Path, whole: FaissBackend) -> bool:
    """Whether that very index is, with links that are whole; what could not be taken was built anew."""
    saved = _saved(documents)
    try:
        return saved is not None and saved["name"] == whole.name and _check(folder, saved, "links.npy").exists()
    except UNUSABLE:
        return False


def _saved(documents: Documents) -> dict[str, Any] | None:
    """What the setting says."""
    saved = documents.settings.get(SETTING)
    return saved if isinstance(saved, dict) and NAME.fullmatch(str(saved.get("name"))) else None


def _check(folder: Path, saved: dict[str, Any], end: str) -> Path:
    """The file of that ending, which is what was saved, or ValueError."""
    path = folder / f"{saved['name']}.{end}"
    if crc32_of(blocks(path)) != saved["checksums"][end]:
        raise ValueError(f"{path} is damaged: its checksum differs")
    return path


def _save_links(path: Path, links: Links) -> None:
    columns = links.steps()
    steps = np.empty(len(columns[0]), STEP)
    for name, column in zip(STEP.names or (), columns, strict=True):
        steps[name] = column
    np.save(path, steps)


def remove_others(documents: Documents, folder: Path) -> None:
    """Deletes the files of indexes that are not kept, such as those of a process that was killed."""
    saved = documents.settings.get(SETTING)
    name = str(saved.get("name")) if isinstance(saved, dict) else "none"
    for path in [*folder.glob("ann-*"), *folder.glob("keys-*.f32")]:
        if not path.name.replace("keys-", "ann-").startswith(name):
            path.unlink(missing_ok=True)
