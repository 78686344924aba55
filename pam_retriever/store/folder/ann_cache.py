"""A compressed ANN index that is saved in the folder by ``close``, so that ``open`` need not build it again.

The index and the links are derived from the database. The setting "ann-saved" names their files, their checksums and
the version of the database. Memories that changed since that version are removed from the index and added again. If
the changes are not known, or too many, the index is built again. So readers beside a writer can use it, and so can
``open`` after a kill. Each save has new names, so a named file never changes; only the file of full keys is kept: it
grows, and removed keys are overwritten. ``open`` and ``close`` delete files that no setting names.
"""

from __future__ import annotations

import logging
import re
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann import WritableAnnIndex, restore_backend
from pam_retriever.errors import StorageError, counted
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import blocks, crc32_of, matching
from pam_retriever.store.folder.verification import Copy
from pam_retriever.store.key_indexes import IndexBuilder, KeyIndexes
from pam_retriever.store.sqlite.changes import Changes, changes_between
from pam_retriever.store.sqlite.database import SQLiteDatabase

log = logging.getLogger(__name__)

SETTING = SQLiteDatabase.ANN
NAME, FULL = re.compile(r"ann-[0-9a-f]{12}"), re.compile(r"keys-[0-9a-f]{12}\.f32")
MOST_CHANGED = 0.2  # of all memories: if more changed, an index is built again
STEP = np.dtype([("row", "<i8"), ("trajectory", "<i8"), ("position", "<i8"), ("salience", "<f4")])
UNUSABLE = (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError)


def save(database: SQLiteDatabase, folder: Path, whole: WritableAnnIndex, links: CooccurrenceGraph) -> None:
    """Saves the index over whole keys, and the links, if the index has files and changed since its last save."""
    files = whole.files
    if files is None:  # as after most memories were deleted: the files that were saved still hold their keys
        forget(database, SETTING)
        return
    if _is_saved(database, folder, files.full):
        return
    name, version = new_name(), database.connection.version
    try:
        if files.holds_removed:  # keys are overwritten in a file that the setting describes
            forget(database, SETTING)
            files.erase_removed()
        saved = files.save(folder, name)
        _save_links(folder / f"{name}.links.npy", links)
        checksums = {end: crc32_of(blocks(folder / f"{name}.{end}")) for end in ("faiss", "rows.npy", "links.npy")}
        with database.transaction():
            database.settings.set(SETTING, {**saved, "checksums": checksums, "version": version})
    except (OSError, RuntimeError, StorageError) as error:
        warnings.warn(f"The compressed index was not saved ({error}): the next open builds it.", RuntimeWarning, 3)


def forget(database: SQLiteDatabase, *settings: str) -> None:
    """Removes settings that name saved files. The cleanup of unnamed files deletes the files then."""
    present = [name for name in settings if database.settings.get(name) is not None]
    if present:
        with database.transaction():
            for name in present:
                database.settings.remove(name)


def take(database: SQLiteDatabase, folder: Path, built: IndexBuilder, width: int) -> KeyIndexes | None:
    """Returns the saved index, updated to the contents of the database; None if it has to be built.

    Args:
        database: names the saved index.
        folder: of the index.
        built: settings of the indexes.
        width: length of whole keys.
    """
    try:
        saved = read_saved(database)
        changes = None if saved is None else changes_since(database, saved)
        if saved is None or changes is None:
            return None
        for end in ("faiss", "rows.npy"):
            _check(folder, saved, end)
        full = full_keys(database, folder)
        if full is not None and not database.unverified:  # then there is no check in the background
            check_saved(full.path, full.checksum, full.size)
        whole = restore_backend(built.backend, width, folder, saved, database.read_only)
        return None if whole is None else _updated(whole, database, changes.rows, built, width)
    except UNUSABLE as error:
        log.info("The index that was saved cannot be used (%s): it is built from the database.", error)
    return None


def _updated(
    whole: WritableAnnIndex, database: SQLiteDatabase, changed: set[int], built: IndexBuilder, width: int
) -> KeyIndexes:
    """Returns the indexes with the present keys of the rows that changed.

    Raises:
        ValueError: too many memories changed, or the index has other memories than the database.
    """
    if len(changed) > MOST_CHANGED * len(whole):
        raise ValueError(f"{counted(len(changed), 'memory')} changed since")
    indexes = KeyIndexes(whole, None, width, built)
    indexes.update(database.memories, np.array(sorted(changed), np.int64))
    if len(whole) != len(database.memories):
        raise ValueError(f"it holds {len(whole):,}, and the database {counted(len(database.memories), 'memory')}")
    return indexes


def changes_since(database: SQLiteDatabase, saved: dict[str, Any]) -> Changes | None:
    """Returns the changes since an index was saved; None if they are unknown, or include everything."""
    changes = changes_between(database.connection.fetch, int(saved["version"]), database.connection.version)
    return None if changes is None or changes.refitted else changes


def take_links(database: SQLiteDatabase, folder: Path) -> CooccurrenceGraph | None:
    """Returns the saved links, if they match the database; else None."""
    try:
        saved = read_saved(database)
        if saved is not None and _links_are_recent(changes_since(database, saved)):
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
    path = folder / str(saved["full"])

    def in_use() -> bool:
        if not database.connection.in_place():  # a save over the index removed the file with the database
            return False
        with closing(database.snapshot()) as latest:
            return read_saved(latest) == saved

    return Copy(path, 4 * int(saved["width"]) * int(saved["keys"]), int(saved["keys_checksum"]), in_use)


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


def _is_saved(database: SQLiteDatabase, folder: Path, full: str) -> bool:
    """Whether this index and complete links are saved. False if the saved index was unreadable and built again."""
    saved = read_saved(database)
    try:
        return (
            saved is not None
            and saved["full"] == full
            and _links_are_recent(changes_since(database, saved))
            and _check(folder, saved, "links.npy").exists()
        )
    except UNUSABLE:
        return False


def _links_are_recent(changes: Changes | None) -> bool:
    return changes is not None and not (changes.rows or changes.removed or changes.grown)


def new_name() -> str:
    """Returns a name for the files of one save."""
    return f"ann-{uuid.uuid4().hex[:12]}"


def read_saved(database: SQLiteDatabase, setting: str = SETTING) -> dict[str, Any] | None:
    """Returns a setting that names saved files; None if there is none."""
    saved = database.settings.get(setting)
    if not isinstance(saved, dict) or not NAME.fullmatch(str(saved.get("name"))):
        return None
    return saved if setting != SETTING or FULL.fullmatch(str(saved.get("full"))) else None


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
        database: its settings name the saved files.
        folder: of the index.
        in_use: name of the file of full keys that is being used.

    Raises:
        StorageError: a file cannot be deleted.
    """
    gone = list[str]()
    with explained(folder):
        found = matching(folder, "ann-*", "keys-*.f32")
        settings = [read_saved(database, name) for name in (SETTING, SQLiteDatabase.GRAPH)] if found else []
        named = [saved for saved in settings if saved is not None]
        names = tuple(f"{saved['name']}." for saved in named)
        for path in found:
            if not path.name.startswith(names) and path.name not in (in_use, *(saved.get("full") for saved in named)):
                path.unlink(missing_ok=True)
                gone.append(path.name)
    return gone
