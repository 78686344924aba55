"""The graphs of an HNSW index, saved in the folder by ``close`` for ``open``, because building them takes minutes.

Only edges are saved; keys come from the database. The setting "graph" names the files, their checksums and the version
of the database. Memories that changed since that version are removed from the graphs and added again. If the changes
are not known, the graphs are built again. So readers beside a writer can use the graphs, and so can ``open`` after a
kill.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann import Chunked, Graph, WritableAnnIndex
from pam_retriever.model.keys import make_keys
from pam_retriever.store.folder.ann_cache import (
    MOST_CHANGED,
    UNUSABLE,
    changes_since,
    check_saved,
    forget,
    new_name,
    read_saved,
)
from pam_retriever.store.folder.files import blocks, crc32_of
from pam_retriever.store.key_indexes import IndexBuilder, KeyIndexes
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.stored_keys import PrefixKeys, StoredKeys
from pam_retriever.types import Int64

log = logging.getLogger(__name__)

SETTING = SQLiteDatabase.GRAPH
ARRAYS = ("levels", "neighbours", "rows")


@dataclass(frozen=True)
class Stored:
    """The source of the keys of graphs.

    Attributes:
        database: the database of the memories.
        built: settings of the indexes to build.
        rows: (n,) the rows of all memories, sorted.
        width: length of whole keys; d before ``fit``.
    """

    database: SQLiteDatabase
    built: IndexBuilder
    rows: Int64
    width: int

    def keys(self, rows: Int64) -> StoredKeys:
        """Returns the whole keys of some rows."""
        return StoredKeys(self.database.memories, rows, self.built.dim, self.width - self.built.dim)


def save(database: SQLiteDatabase, folder: Path, indexes: KeyIndexes, taken: bool) -> None:
    """Saves the graphs, if there are any. Saves nothing if they were ``taken`` and no memory changed since."""
    graphs = {part: index.graph for part, index in indexes.parts().items()}
    present = {part: graph for part, graph in graphs.items() if graph is not None}
    saved = read_saved(database, SETTING)
    if len(present) < len(graphs):
        if saved is not None:
            forget(database, SETTING)
        return
    if taken and saved is not None and _is_recent(database, saved):
        return
    name, version = new_name(), database.connection.version
    try:
        parts = {part: _write(folder / f"{name}.{part}", graph) for part, graph in present.items()}
        with database.transaction():
            stored = {"name": name, "version": version, "width": indexes.width, "parts": parts}
            database.settings.set(SETTING, stored)
    except OSError as error:
        warnings.warn(f"The graphs were not saved ({error}): the next open builds them.", RuntimeWarning, 3)


def _write(path: Path, graph: Graph) -> dict[str, Any]:
    checksums = {}
    for array in ARRAYS:
        file = path.with_name(f"{path.name}.{array}.npy")
        np.save(file, getattr(graph, array))
        checksums[array] = crc32_of(blocks(file))
    return {"entry": graph.entry, "checksums": checksums}


def take(folder: Path, stored: Stored) -> KeyIndexes | None:
    """Returns the indexes with the saved graphs, updated to the contents of the database."""
    database, built = stored.database, stored.built
    try:
        saved = read_saved(database, SETTING)
        changes = None if saved is None else changes_since(database, saved)
        if saved is None or changes is None or int(saved["width"]) != stored.width:
            return None
        changed = np.array(sorted(changes.rows), np.int64)
        wanted = ("whole", "own") if stored.width > built.dim else ("whole",)
        graphs = {part: _without(_read(folder, saved, part), stored.rows, changed) for part in wanted}
        whole = built.empty(stored.width)
        _fill(whole, graphs["whole"], stored)
        if "own" not in graphs:
            return KeyIndexes(whole, None, stored.width, built)
        own = built.empty(built.dim)
        _fill(own, graphs["own"], stored, whole)
        return KeyIndexes(whole, own, stored.width, built)
    except UNUSABLE as error:
        log.info("The graphs that were saved cannot be used (%s): they are built.", error)
    return None


def _without(graph: Graph, rows: Int64, changed: Int64) -> Graph:
    """Returns a graph without memories that were removed or changed since.

    Raises:
        ValueError: too many memories changed.
    """
    there = np.isin(graph.rows, rows) & ~np.isin(graph.rows, changed)
    if there.sum() < (1 - MOST_CHANGED) * max(len(rows), len(graph.rows)):
        raise ValueError("too much changed since")
    return Graph(graph.levels, graph.neighbours, np.where(there, graph.rows, -1), graph.entry)


def _fill(index: WritableAnnIndex, graph: Graph, stored: Stored, whole: WritableAnnIndex | None = None) -> None:
    """Adds to an index a graph, the keys of its rows, and the rows that the graph lacks.

    Args:
        index: an empty index.
        graph: the graph of the index.
        stored: source of the keys.
        whole: the index over whole keys, if ``index`` is the index over p.
    """
    known = np.sort(graph.rows[graph.rows >= 0])
    new = np.setdiff1d(stored.rows, known, assume_unique=True)
    keys: Chunked = stored.keys(known) if whole is None else PrefixKeys(whole, known, stored.built.dim)
    index.rebuild_with_graph(graph, known, keys)
    if len(new):
        memories, dim = stored.database.memories, stored.built.dim
        added = make_keys(*memories.stored(new, dim, stored.width - dim))
        index.add(new, added if whole is None else np.ascontiguousarray(added[:, :dim]))


def damaged(database: SQLiteDatabase, folder: Path) -> Iterator[str]:
    """Returns a line for each saved file that is damaged."""
    try:
        saved = read_saved(database, SETTING)
        for part in () if saved is None else saved["parts"]:
            _read(folder, saved, part)
    except UNUSABLE as error:
        yield f"the graphs that were saved are not whole ({error}); they can be built from the database"


def _is_recent(database: SQLiteDatabase, saved: dict[str, Any]) -> bool:
    try:
        changes = changes_since(database, saved)
    except UNUSABLE:
        return False
    return changes is not None and not changes.rows


def _read(folder: Path, saved: dict[str, Any] | None, part: str) -> Graph:
    """Reads a graph whose files have the saved checksums. Does not check the graph itself."""
    assert saved is not None
    description, arrays = saved["parts"][part], {}
    if part not in ("whole", "own"):
        raise ValueError(f"there is no part {part!r}")
    for array in ARRAYS:
        path = folder / f"{saved['name']}.{part}.{array}.npy"
        check_saved(path, description["checksums"][array])
        # mapped before reading: a damaged header may name more bytes than the file has
        arrays[array] = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
    return Graph(arrays["levels"], arrays["neighbours"], arrays["rows"], int(description["entry"]))
