"""A compressed ANN index that is saved in the folder by ``close``, so that ``open`` need not build it again.

The index and the links are derived from the database. The setting "ann" names their files. The first change of the
database deletes this setting in the same transaction. The next ``open`` deletes files that no setting names.
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
from pam_retriever.store.folder.files import blocks, crc32_of, matching
from pam_retriever.store.folder.verification import Copy
from pam_retriever.store.sqlite.database import SQLiteDatabase

log = logging.getLogger(__name__)

SETTING, NAME = SQLiteDatabase.DERIVED, re.compile(r"ann-[0-9a-f]{12}")
STEP = np.dtype([("row", "<i8"), ("trajectory", "<i8"), ("position", "<i8"), ("salience", "<f4")])
UNUSABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError)


def save(database: SQLiteDatabase, folder: Path, whole: WritableAnnIndex, links: CooccurrenceGraph) -> None:
    """Saves the index over whole keys, and the links, if the index has files and changed since its last save."""
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
    """Returns the saved index, if it matches the database; else None."""
    try:
        saved = read_saved(database)
        if saved is not None:
            for end in ("faiss", "rows.npy"):
                _check(folder, saved, end)
            return restore_backend(backend, width, folder, saved, database.read_only)
    except UNUSABLE as error:
        log.info("The index that was saved cannot be used (%s): it is built from the database.", error)
    return None


def take_links(database: SQLiteDatabase, folder: Path) -> CooccurrenceGraph | None:
    """Returns the saved links, if they match the database; else None."""
    try:
        saved = read_saved(database)
        if saved is not None:
            steps = np.load(_check(folder, saved, "links.npy"), allow_pickle=False)
            if steps.dtype != STEP or steps.ndim != 1:
                raise ValueError(f"these are no steps: {steps.dtype}")
            return CooccurrenceGraph(*(np.ascontiguousarray(steps[name]) for name in STEP.names or ()))
    except UNUSABLE as error:
        log.info("The links that were saved cannot be used (%s): they are read from the database.", error)
    return None


def full_keys(database: SQLiteDatabase, folder: Path) -> Copy | None:
    """Describes the file of full keys for a check in the background: it is too large to check before an answer."""
    saved = read_saved(database)
    if saved is None:
        return None
    path = folder / f"{str(saved['name']).replace('ann', 'keys')}.f32"
    return Copy(path, 4 * int(saved["width"]) * int(saved["keys"]), int(saved["keys_checksum"]))


def damaged(database: SQLiteDatabase, folder: Path) -> Iterator[str]:
    """Returns a line for each saved file that is damaged."""
    try:
        saved, full = read_saved(database), full_keys(database, folder)
        if saved is None or full is None:
            return
        for end in ("faiss", "rows.npy", "links.npy"):
            _check(folder, saved, end)
        check_saved(full.path, full.checksum, full.size)
    except UNUSABLE as error:
        yield f"the index that was saved is not whole ({error}); it can be built from the database"


def _is_cached(database: SQLiteDatabase, folder: Path, name: str) -> bool:
    """Whether this index and complete links are saved. False if the saved index was unreadable and built again."""
    saved = read_saved(database)
    try:
        return saved is not None and saved["name"] == name and _check(folder, saved, "links.npy").exists()
    except UNUSABLE:
        return False


def read_saved(database: SQLiteDatabase, setting: str = SETTING) -> dict[str, Any] | None:
    """Returns a setting that names saved files; None if there is none."""
    saved = database.settings.get(setting)
    return saved if isinstance(saved, dict) and NAME.fullmatch(str(saved.get("name"))) else None


def check_saved(path: Path, checksum: int, size: int | None = None) -> Path:
    """Returns the path of a saved file, or of its first ``size`` bytes.

    Raises:
        ValueError: it is damaged.
        OSError: it is missing.
    """
    if crc32_of(blocks(path, size)) != checksum:
        raise ValueError(f"{path} is damaged: its checksum differs")
    return path


def _check(folder: Path, saved: dict[str, Any], end: str) -> Path:
    return check_saved(folder / f"{saved['name']}.{end}", saved["checksums"][end])


def _save_links(path: Path, links: CooccurrenceGraph) -> None:
    columns = links.steps()
    steps = np.empty(len(columns[0]), STEP)
    for name, column in zip(STEP.names or (), columns, strict=True):
        steps[name] = column
    np.save(path, steps)


def remove_others(database: SQLiteDatabase, folder: Path, in_use: str | None = None) -> list[str]:
    """Deletes the files of indexes that no setting names, and returns their names. A killed process leaves such files.

    Args:
        database: its setting "ann" names the saved index.
        folder: of the index.
        in_use: name of the index whose full keys are being used.
    """
    found, gone = matching(folder, "ann-*", "keys-*.f32"), list[str]()
    settings = [database.settings.get(name) for name in (SETTING, SQLiteDatabase.GRAPH)] if found else []
    names = tuple(str(saved.get("name")) for saved in settings if isinstance(saved, dict))
    for path in found:
        used = in_use is not None and path.name == f"{in_use.replace('ann', 'keys')}.f32"
        if not used and not path.name.replace("keys-", "ann-").startswith(names):
            path.unlink(missing_ok=True)
            gone.append(path.name)
    return gone
