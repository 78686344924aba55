"""Flat, HNSW and IVF indexes, with full or compressed keys, chosen by name or by size. All but flat use FAISS.

A map translates between rows and FAISS's own positions. So every index type gives the same guarantees: a search never
returns a removed row, a replaced row has only its new key, and no row is renumbered. A compressed index finds
candidates, and the full keys in a memory-mapped file rank them. So scores are exact with every code.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann.base import AnnFiles, Chunked, chunks, read_keys
from pam_retriever.ann.bounded import scan_flat
from pam_retriever.ann.cells import Cells, map_cells
from pam_retriever.ann.checked import check_measured, read_checked
from pam_retriever.ann.factory import choose, read_kind
from pam_retriever.ann.faiss_indexes import (
    OldKeys,
    bytes_of,
    cached_parameters,
    empty_index,
    erase_codes,
    graph_keys,
    ranked,
    search_parameters,
)
from pam_retriever.ann.flat import FlatKeys
from pam_retriever.ann.graph import Graph, graph_of, put_graph
from pam_retriever.ann.id_map import IdMap
from pam_retriever.ann.scan import scan
from pam_retriever.ann.selection import Inside, Rows
from pam_retriever.ann.training import NOT_BEFORE, Training
from pam_retriever.ann.vector_file import VectorFile
from pam_retriever.errors import counted
from pam_retriever.types import Float32, Int64

log = logging.getLogger(__name__)

BLOCK = 100_000  # keys per call of FAISS, which links them with several threads
HNSW_BUILD, HNSW_SEARCH = 100, 128
SCAN_UP_TO = 10_000  # a filter with at most this many rows is answered exactly, by a scan
# filtered graph search: look up this many times the k nearest, up to a limit; see ``_among_nearest``
SPARE, MOST_NEAREST = 4, 500
DEAD_SHARE = 0.25  # share of removed rows at which HNSW and IVF are rebuilt without them
CLUSTERING_ROUNDS = 5  # more rounds did not change the measured recall (docs/reference/scaling.md)
# candidates that a code needs, as a factor of k plus a constant, to lose under 1 % of recall@10
CANDIDATES = {"": (1, 0), "fp16": (1, 8), "sq8": (2, 32), "pq": (8, 160)}


class FaissBackend:
    """Inner-product search. NumPy scans a flat index; FAISS searches the others, and is imported only for them.

    Args:
        width: length of a key.
        kind: "flat" (exact), "hnsw", "ivf", or "auto" by size; with ",fp16", ",sq8" or ",pq" (ivf only) to
            compress the keys in memory and keep the full ones on disk. See ``choice``.
        folder: the folder for the full keys of a compressed index; None for a temporary file.
        first: length of the prefix of a key for which there are separate queries. A flat index has the prefixes in a
            separate block.

    Attributes:
        width: length of a key.
        kind: "flat", "hnsw" or "ivf": the current kind.
        choice: the kind with its code and the reason.
        probed: number of IVF's cells that a query searches. More cells find more and take longer. None: by size.

    Raises:
        InvalidInput: the kind is unknown.
    """

    def __init__(self, width: int, kind: str = "auto", folder: Path | None = None, first: int = 0) -> None:
        self._wanted, self._wanted_code = read_kind(kind)
        self.width, self._folder, self._first = width, folder, first
        self.probed: int | None = None
        self._index: Any
        self._positions: IdMap
        self._full: VectorFile | None
        self._cells: Cells | None  # of a trained inverted file
        self.choice = choose(self._wanted, self._wanted_code, 0, width)
        self._reset(0)

    def __len__(self) -> int:
        return len(self._positions)

    def __repr__(self) -> str:
        code = f", {self.choice.code}" if self.choice.code else ""
        return f"FaissBackend({counted(len(self), 'row')} of {self.width}, {self.kind}{code}: {self.choice.reason})"

    @property
    def kind(self) -> str:
        return self.choice.kind

    @property
    def answers_for_first(self) -> bool:
        return bool(self.choice.code) or (self._is_plain and self._first > 0)

    @property
    def rows(self) -> Int64:
        return np.sort(self._positions.rows[self._positions.stored()])

    @property
    def description(self) -> str:
        why = "" if self.choice.reason == "asked for" else f": {self.choice.reason}"
        return f"{self.kind}{',' if self.choice.code else ''}{self.choice.code}{why}"

    @property
    def bytes(self) -> int:
        """Bytes of keys and positions in memory; the full keys of a compressed index are on the disk."""
        return bytes_of(self._index) + self._positions.bytes

    def rebuild(self, rows: Int64, keys: Chunked) -> None:
        count = len(rows)
        self._reset(count)
        if self._is_plain:
            for chunk in chunks(count):
                self._index.add(keys[chunk])
            self._positions = IdMap(rows.copy())
            return
        if count <= BLOCK:
            keys = read_keys(keys, slice(0, count), self.width)  # once, for training and adding
        if count and not self._index.is_trained:
            self._train(keys, count)
        for at in range(0, count, BLOCK):
            self._append(rows[at : at + BLOCK], read_keys(keys, slice(at, min(at + BLOCK, count)), self.width))
        self._measure_cells()

    def _train(self, keys: Chunked, count: int) -> None:
        """Trains the cells and the quantiser on a sample of ``count`` keys."""
        step = max(1 if count <= BLOCK else 2, count // self.choice.sample)
        if self.kind == "ivf":
            import faiss

            clustering = faiss.extract_index_ivf(self._index)
            clustering.cp.niter, clustering.cp.min_points_per_centroid = CLUSTERING_ROUNDS, 1
        self._index.train(np.ascontiguousarray(keys[0:count:step], np.float32))
        self._use_cells()

    def _use_cells(self, measured: int = 0, measured_for: int = 0) -> None:
        if self.kind == "ivf":
            map_cells(self._index)
            self._cells = Cells(self._index, self._first, measured, measured_for)

    def _measure_cells(self) -> None:
        if self._cells is None or not self._cells.is_due(len(self)):
            return

        def nearest(asked: Int64, number: int, cells: int) -> tuple[Float32, Int64]:
            queries = np.array(self._keys_at(asked))
            queries[:, self._first or self.width :] = 0
            return queries, self._look_up(queries, number, cells, None)[1]

        self._cells.measure(self._positions.stored(), nearest)

    def add(self, rows: Int64, keys: Float32) -> None:
        if not len(rows):
            return
        self.remove(rows)
        after = len(self) + len(rows)
        wanted = choose(self._wanted, self._wanted_code, after, self.width)
        if (wanted.kind, wanted.code) != (self.kind, self.choice.code) or self._training.is_outgrown(after):
            self._rebuild_with(rows, np.ascontiguousarray(keys, np.float32))
        else:
            self._append(rows, np.ascontiguousarray(keys, np.float32))
            self._train_if_outdated()
            self._measure_cells()

    def _train_if_outdated(self) -> None:
        """Trains the index again if many added keys are unlike those of the training."""
        if not self._training.is_due(len(self)):
            return

        def errors(positions: Int64) -> Float32:
            at = self._index.reconstruct_batch if self._cells is None else self._cells.centres_at
            squared: Float32 = np.square(self._keys_at(positions) - at(positions)).sum(axis=1)
            return squared

        if self._training.is_outdated(self._positions.stored(), errors):
            self._rebuild_with(np.empty(0, np.int64), np.empty((0, self.width), np.float32))
            self._training.not_before = int(NOT_BEFORE * len(self))

    def reserve_disk(self, count: int) -> None:
        """Reserves disk space for ``count`` more full keys, if there are any.

        Raises:
            StorageError: the disk has no space.
        """
        if self._full is not None:
            self._full.reserve_disk(count)

    def remove(self, rows: Int64) -> None:
        positions = self._positions.of(rows)
        positions = positions[positions >= 0]
        if not len(positions):
            return
        if self._is_plain:
            self._index.remove(positions)
            self._positions.drop(positions)
            return
        self._positions.empty(positions)
        if self._positions.dead > DEAD_SHARE * len(self._positions.rows):
            self._rebuild_with(np.empty(0, np.int64), np.empty((0, self.width), np.float32))

    def keys(self, rows: Int64) -> Float32:
        return self._keys_at(self._positions.of(rows))

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        queries = np.ascontiguousarray(queries, np.float32)
        inside = None if allowed is None else self._positions.inside(allowed)
        count = len(self) if inside is None else len(inside)
        k = min(k, count)
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        if self._is_plain or (inside is not None and count <= SCAN_UP_TO):
            return self._scan(queries, k, inside)
        if inside is not None and self.kind == "hnsw":
            return self._among_nearest(queries, k, inside)
        return self._nearest(queries, k, inside)

    def _scan(self, queries: Float32, k: int, inside: Inside | None) -> tuple[Float32, Int64]:
        """Returns the ``k`` best of all keys, or of those ``inside``, exactly."""
        positions, rows = None if inside is None else inside.positions, self._positions.rows
        if self._is_plain:
            return scan_flat(queries, self._index, rows, k, positions)
        assert positions is not None
        if self._full is not None or self.kind == "hnsw":
            keys = graph_keys(self._index) if self._full is None else self._full.mapped
            return scan(queries, [keys], rows, k, positions)
        return scan(queries, [self._index.reconstruct_batch(positions)], rows[positions], k)

    def _among_nearest(self, queries: Float32, k: int, inside: Inside) -> tuple[Float32, Int64]:
        """Returns the ``k`` best of the keys ``inside``, by a graph.

        A graph search that skips positions outside the filter misses many inside. So this looks up the nearest of all
        positions, and keeps those inside. If too few are left for a query, it scans.
        """
        wide = int(SPARE * k * len(self) / len(inside))
        if wide > max(MOST_NEAREST, SPARE * k):
            return self._scan(queries, k, inside)
        scores, positions = self._look_up(queries, min(wide, len(self)), 0, None)
        allowed = inside.mask[positions] & (positions >= 0)
        first = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
        rows = self._positions.rows[np.take_along_axis(positions, first, axis=1)]
        best = np.take_along_axis(scores, first, axis=1), rows
        few = np.flatnonzero(allowed.sum(axis=1) < k)
        if len(few):
            best[0][few], best[1][few] = self._scan(queries[few], k, inside)
        return best

    def _nearest(self, queries: Float32, k: int, inside: Inside | None) -> tuple[Float32, Int64]:
        """Returns the ``k`` best by the index. If a graph finds fewer, the rest is row -1."""
        cells = 0 if self._cells is None else self.probed or self._cells.number(queries, k)
        scores, positions = self._look_up(queries, k, cells, inside)
        found = positions >= 0
        if found[:, -1].all():  # missing results come last
            return scores, self._positions.rows[positions]
        best = np.where(found, scores, -np.inf), np.where(found, self._positions.rows[positions], -1)
        if self._cells is not None:
            # a cell may be empty while another has thousands of equal keys; FAISS skips 4-bit codes of the lowest score
            few = np.flatnonzero(~found[:, -1])
            look = self._nearest if inside is None else self._scan
            best[0][few], best[1][few] = look(queries[few], k, inside or self._positions.all())
        return best

    def _look_up(self, queries: Float32, k: int, cells: int, inside: Inside | None) -> tuple[Float32, Int64]:
        """Returns the scores and positions of the ``k`` best; -1 after the last. ``cells`` is for IVF."""
        times, more = CANDIDATES[self.choice.code]
        candidates, selector = min(times * k + more, len(self._positions.rows)), self._selector(inside)
        if self._cells is not None:
            scores, positions = self._cells.search(queries, candidates, cells, inside, selector)
        else:
            wide = max(HNSW_SEARCH, 2 * candidates) if self.kind == "hnsw" else 0
            parameters = cached_parameters(wide) if selector is None else search_parameters(wide, selector)
            scores, positions = self._index.search(queries, candidates, params=parameters)
        return (scores, positions) if self._full is None else ranked(self._full, queries, positions, k)

    @property
    def _is_plain(self) -> bool:
        """Whether the index is flat and uncompressed. Only this kind is exact and can drop a position."""
        return self.kind == "flat" and not self.choice.code

    def _keys_at(self, positions: Int64) -> Float32:
        keys: Float32 = self._index.reconstruct_batch(positions) if self._full is None else self._full[positions]
        return keys

    def _selector(self, inside: Inside | None) -> Any:
        """FAISS's selector of the positions that a search may return; None for all."""
        import faiss

        if inside is None and not self._positions.dead:
            return None
        mask = self._positions.alive() if inside is None else inside.mask
        return faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))

    def _reset(self, size: int) -> None:
        """Replaces the index by an empty one of the kind that fits ``size`` rows."""
        choice = choose(self._wanted, self._wanted_code, size, self.width)
        if (choice.kind, choice.code) != (self.kind, self.choice.code):
            log.info("%s keys of %s: %s, because %s", f"{size:,}", self.width, choice.factory, choice.reason)
        self.choice, self._training = choice, Training(choice, size)
        self._positions = IdMap()
        self._index = FlatKeys(self.width, size, self._first) if self._is_plain else empty_index(choice, self.width)
        self._full = VectorFile(self.width, self._folder) if choice.code else None
        self._cells = None
        if self.kind == "hnsw":
            self._index.hnsw.efConstruction = HNSW_BUILD

    # ---- files

    @property
    def graph(self) -> Graph | None:
        return graph_of(self._index, self._positions.rows) if self.kind == "hnsw" and self._full is None else None

    def rebuild_with_graph(self, graph: Graph, rows: Int64, keys: Chunked) -> None:
        self._reset(len(rows))
        if self.kind != "hnsw" or self._full is not None:
            raise ValueError(f"{len(rows):,} keys have no graph")
        put_graph(self._index, graph)
        self._positions, stored = IdMap(graph.rows), graph_keys(self._index)
        for chunk in chunks(len(rows)):
            stored[self._positions.of(rows[chunk])] = keys[chunk]
        erase_codes(self._index, self._positions.alive())

    @property
    def files(self) -> AnnFiles | None:
        return None if self._full is None or self._full.name is None else self

    @property
    def full(self) -> str:
        """The name of the file of its full keys."""
        assert self._full is not None and self._full.name is not None
        return self._full.name

    @property
    def holds_removed(self) -> bool:
        return self._positions.dead > 0

    def erase_removed(self) -> None:
        """Overwrites the codes and the full keys of removed rows."""
        assert self._full is not None
        if self._positions.dead:
            erase_codes(self._index, self._positions.alive())
            self._full.erase(np.flatnonzero(~self._positions.alive()))

    def save(self, folder: Path, name: str) -> dict[str, Any]:
        """Writes a compressed index beside the file of its full keys; returns the arguments of ``restore``."""
        import faiss

        assert self._full is not None
        faiss.write_index(self._index, str(folder / f"{name}.faiss"))
        np.save(folder / f"{name}.rows.npy", self._positions.rows)
        self._full.keep()
        return {
            "name": name,
            "full": self.full,
            "width": self.width,
            "keys": len(self._full),
            "keys_checksum": self._full.checksum,
            "choice": asdict(self.choice),
            "trained_for": self._training.count,
            "trained_not_before": self._training.not_before,
            "first": self._first,
            "measured": (0, 0) if self._cells is None else (self._cells.measured, self._cells.measured_for),
        }

    def restore(self, folder: Path, saved: dict[str, Any], read_only: bool) -> None:
        """Reads the output of ``save``: reads the codes into memory, and maps the full keys.

        Raises:
            OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError: the index is missing or damaged.
        """
        name = str(saved["name"])
        index, rows, choice = read_checked(folder, name, saved, self.width)
        checksum = int(saved["keys_checksum"])
        self._full = VectorFile(self.width, folder, str(saved["full"]), len(rows), checksum, read_only)
        self._index, self._positions, self.choice = index, IdMap(rows), choice
        self._training = Training.read(choice, saved, len(rows))
        self._first = int(saved.get("first", 0))
        self._use_cells(*check_measured(saved, choice))

    def _append(self, rows: Int64, keys: Float32) -> None:
        if not len(rows):
            return
        keys = np.ascontiguousarray(keys, np.float32)
        self._index.add(keys)
        if self._full is not None:
            self._full.append(keys)
        self._positions.append(rows)

    def _rebuild_with(self, rows: Int64, keys: Float32) -> None:
        """Builds the index again from stored and new keys, without removed keys. Never holds all keys in memory."""
        stored = self._positions.stored()
        old = OldKeys(self._index, self._full, stored, keys)
        self.rebuild(np.concatenate([self._positions.rows[stored], rows]), old)
