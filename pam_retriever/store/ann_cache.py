"""A compressed index that stays in the folder from ``close`` to ``open``, so that opening need not build it again.

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

from pam_retriever.ann import WritableAnnIndex, restore_backend
from pam_retriever.errors import StorageError
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store.files import blocks, crc32_of, matching
from pam_retriever.store.sqlite_database import SQLiteDatabase
from pam_retriever.store.verification import Copy

log = logging.getLogger(__name__)

SETTING, NAME = SQLiteDatabase.DERIVED, re.compile(r"ann-[0-9a-f]{12}")
STEP = np.dtype([("row", "<i8"), ("trajectory", "<i8"), ("position", "<i8"), ("salience", "<f4")])
UNUSABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError)


def save(database: SQLiteDatabase, folder: Path, whole: WritableAnnIndex, links: CooccurrenceGraph) -> None:
    """Saves the index over whole keys and the links, if it has files and changed since it was saved."""
    files = whole.files
    if files is None or _is_cached(database, folder, files.name):
        return
    try:
        files.erase_removed()
        saved = files.save(folder)
        _save_links(folder / f"{saved['name']}.links.npy", links)
        checksums = {
            end: crc32_of(blocks(folder / f"{saved['name']}.{end}")) for end in ("faiss", "rows.npy", "links.npy")
        }
    except (OSError, RuntimeError, StorageError) as error:
        warnings.warn(f"The compressed index was not saved ({error}): the next open builds it.", RuntimeWarning, 3)
        return
    with database.transaction():
        database.settings.set(SETTING, {**saved, "checksums": checksums})


def take(database: SQLiteDatabase, folder: Path, backend: str, width: int) -> WritableAnnIndex | None:
    """The index that was saved, if there is one of what the database holds now."""
    try:
        saved = _saved(database)
        if saved is not None:
            for end in ("faiss", "rows.npy"):
                _check(folder, saved, end)
            return restore_backend(backend, width, folder, saved, database.read_only)
    except UNUSABLE as error:
        log.info("The index that was saved cannot be used (%s): it is built from the database.", error)
    return None


def take_links(database: SQLiteDatabase, folder: Path) -> CooccurrenceGraph | None:
    """The links that were saved, if there are any of what the database holds now."""
    try:
        saved = _saved(database)
        if saved is not None:
            steps = np.load(_check(folder, saved, "links.npy"), allow_pickle=False)
            if steps.dtype != STEP or steps.ndim != 1:
                raise ValueError(f"these are no steps: {steps.dtype}")
            return CooccurrenceGraph(*(np.ascontiguousarray(steps[name]) for name in STEP.names or ()))
    except UNUSABLE as error:
        log.info("The links that were saved cannot be used (%s): they are read from the database.", error)
    return None


def full_keys(database: SQLiteDatabase, folder: Path) -> Copy | None:
    """What the file of full keys has to hold: too much to look at before the first answer."""
    saved = _saved(database)
    if saved is None:
        return None
    path = folder / f"{str(saved['name']).replace('ann', 'keys')}.f32"
    return Copy(path, 4 * int(saved["width"]) * int(saved["keys"]), int(saved["keys_checksum"]))


def damaged(database: SQLiteDatabase, folder: Path) -> Iterator[str]:
    """What is not as it was saved, a line for each file."""
    try:
        saved, full = _saved(database), full_keys(database, folder)
        if saved is None or full is None:
            return
        for end in ("faiss", "rows.npy", "links.npy"):
            _check(folder, saved, end)
        if crc32_of(blocks(full.path, full.size)) != full.checksum:
            raise ValueError(f"{full.path} is damaged: its checksum differs")
    except UNUSABLE as error:
        yield f"the index that was saved is not whole ({error}); it can be built from the database"


def _is_cached(database: SQLiteDatabase, folder: Path, name: str) -> bool:
    """Whether that very index is, with links that are whole; what could not be taken was built anew."""
    saved = _saved(database)
    try:
        return saved is not None and saved["name"] == name and _check(folder, saved, "links.npy").exists()
    except UNUSABLE:
        return False


def _saved(database: SQLiteDatabase) -> dict[str, Any] | None:
    """What the setting says."""
    saved = database.settings.get(SETTING)
    return saved if isinstance(saved, dict) and NAME.fullmatch(str(saved.get("name"))) else None


def _check(folder: Path, saved: dict[str, Any], end: str) -> Path:
    """The file of that ending, which is what was saved, or ValueError."""
    path = folder / f"{saved['name']}.{end}"
    if crc32_of(blocks(path)) != saved["checksums"][end]:
        raise ValueError(f"{path} is damaged: its checksum differs")
    return path


def _save_links(path: Path, links: CooccurrenceGraph) -> None:
    columns = links.steps()
    steps = np.empty(len(columns[0]), STEP)
    for name, column in zip(STEP.names or (), columns, strict=True):
        steps[name] = column
    np.save(path, steps)


def remove_others(database: SQLiteDatabase, folder: Path, in_use: str | None = None) -> list[str]:
    """Deletes the files of indexes that are not saved, such as those of a process that was killed; returns their names.

    Args:
        database: which says what is saved.
        folder: of the index.
        in_use: name of the index whose full keys are being used.
    """
    gone, settings = [], [database.settings.get(name) for name in (SETTING, SQLiteDatabase.GRAPH)]
    names = tuple(str(saved.get("name")) for saved in settings if isinstance(saved, dict))
    for path in matching(folder, "ann-*", "keys-*.f32"):
        used = in_use is not None and path.name == f"{in_use.replace('ann', 'keys')}.f32"
        if not used and not path.name.replace("keys-", "ann-").startswith(names):
            path.unlink(missing_ok=True)
            gone.append(path.name)
    return gone
