"""Checks an index that FAISS read from a file, before it is searched.

FAISS does not check some numbers of a file: it uses the positions in the lists of an inverted file as addresses. So
each position is compared with its allowed range. Faults of FAISS while it parses a file are not covered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann.factory import CODES, Choice
from pam_retriever.ann.faiss_indexes import empty_index
from pam_retriever.ann.graph import check_graph
from pam_retriever.types import Int64

IN_BLOCKS = 2**64 - 1  # size of a code in lists that keep the codes of several positions together
SAME = ("d", "metric_type", "code_size", "nlist")


def read_checked(folder: Path, name: str, saved: dict[str, Any], width: int) -> tuple[Any, Int64, Choice]:
    """Returns a compressed index, the row at each position, and its kind.

    Args:
        folder: folder of the files.
        name: prefix of their names.
        saved: what was saved about the index.
        width: length of a key.

    Raises:
        OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError: the index is missing or damaged.
    """
    import faiss

    rows = np.load(folder / f"{name}.rows.npy", allow_pickle=False)
    index = faiss.read_index(str(folder / f"{name}.faiss"))
    if saved["width"] != width or not len(rows) == index.ntotal == int(saved["keys"]):
        raise ValueError(f"{name} does not hold what was saved")
    choice = Choice(**saved["choice"])
    if choice.code == "pq" and "measured" not in saved:
        raise ValueError(f"{name} may have wrong codes, as an earlier version added them after an erasure")
    check_choice(choice, index)
    check_read(index, empty_index(choice, width), rows)
    return index, rows, choice


def check_measured(saved: dict[str, Any], choice: Choice) -> tuple[int, int]:
    """Returns the saved number of cells that a query looks into, and the number of keys for which it was measured.

    Raises:
        ValueError, TypeError, OverflowError: they are damaged.
    """
    measured, measured_for = map(int, saved.get("measured", (0, 0)))
    if min(measured, measured_for) < 0 or measured > choice.cells:
        raise ValueError(f"Got {measured} cells for {measured_for} keys")
    return measured, measured_for


def check_choice(choice: Choice, index: Any) -> None:
    """Raises ValueError unless the saved kind and code are those of ``index``."""
    import faiss

    kinds = {faiss.IndexIVF: "ivf", faiss.IndexHNSW: "hnsw"}
    kind = next((name for one, name in kinds.items() if isinstance(index, one)), "flat")
    if choice.kind != kind or choice.code not in CODES or choice.cells != getattr(index, "nlist", 0):
        raise ValueError(f"{choice.kind},{choice.code} is not the kind of the file")


def check_read(index: Any, made: Any, rows: Int64) -> None:
    """Raises ValueError unless an index has the kind of ``made``, each position once, and edges only between positions.

    Args:
        index: the index that FAISS read.
        made: an empty index of the kind that was saved.
        rows: (n,) the row at each position.
    """
    import faiss

    if rows.dtype != np.int64 or rows.shape != (index.ntotal,):
        raise ValueError("the rows are not those of an index")
    if type(index) is not type(made) or any(getattr(index, name, 0) != getattr(made, name, 0) for name in SAME):
        raise ValueError("the file has an index of another kind")
    if isinstance(index, faiss.IndexIVF):
        _check_cells(index, rows)
        quantizer, new = (faiss.downcast_index(one.quantizer) for one in (index, made))
        graph = isinstance(new, faiss.IndexHNSW)
        if not isinstance(quantizer, faiss.IndexHNSW if graph else faiss.IndexFlat):
            raise ValueError("the centres are of another kind")
        if quantizer.d != index.d or quantizer.ntotal != index.nlist:
            raise ValueError("the numbers of centres and cells differ")
        if graph:
            check_graph(quantizer, new, np.arange(index.nlist))
    if isinstance(index, faiss.IndexHNSW):
        check_graph(index, made, rows)


def _check_cells(index: Any, rows: Int64) -> None:
    """Raises ValueError unless each position is in one cell. A removed position may be in no cell."""
    import faiss

    lists = index.invlists
    sizes = [lists.list_size(cell) for cell in range(index.nlist)]
    if lists.nlist != index.nlist or lists.code_size not in (index.code_size, IN_BLOCKS) or sum(sizes) > index.ntotal:
        raise ValueError("the number of places in the cells differs")
    cells = [faiss.rev_swig_ptr(lists.get_ids(cell), size).copy() for cell, size in enumerate(sizes) if size]
    positions = np.concatenate([np.empty(0, np.int64), *cells])
    if positions.min(initial=0) < 0 or positions.max(initial=-1) >= index.ntotal:
        raise ValueError("a place is out of range")
    times = np.bincount(positions, minlength=index.ntotal)
    if (times > 1).any() or (times[rows >= 0] == 0).any():
        raise ValueError("a place is in two cells, or in none")
