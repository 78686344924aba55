"""Chooses a FAISS index and a compression by the number of keys."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pam_retriever.errors import InvalidInput

KINDS, CODES = ("auto", "flat", "hnsw", "ivf"), ("fp16", "sq8", "pq")

# Sizes at which "auto" changes its choice: a scan of 100,000 keys still takes milliseconds, and
# above a million the HNSW graph costs more memory and building time than it saves, and float32 keys gigabytes.
FLAT_UP_TO = 100_000
HNSW_UP_TO = 1_000_000
IVF_FROM = 1_600  # fewer keys cannot train cells, nor a quantiser
KEYS_OF_CELL, SAMPLED = 20, 50_000  # number of keys per cell, and smallest total, to train cells and quantisers
HNSW_NEIGHBOURS = 32
# from this many cells on, a graph finds the cell of an added key. With fewer, a scan takes as long in bulk, and a graph
# put one key in forty into a wrong cell (benchmarks/notes/scaling.md)
GRAPH_OVER_CELLS_FROM = 5_000
MOST_CELLS = 16_384  # more cells take hours to train on one core


@dataclass(frozen=True)
class Choice:
    """A choice of index.

    Attributes:
        kind: "flat", "hnsw" or "ivf".
        code: "fp16", "sq8" or "pq"; "" keeps float32 keys in memory.
        factory: kind and code as a string for FAISS's index factory.
        cells: number of cells of an inverted file.
        reason: the reason for the choice, in words.
    """

    kind: str
    code: str
    factory: str
    cells: int
    reason: str

    @property
    def sample(self) -> int:
        """The number of keys on which the index is trained."""
        return max(KEYS_OF_CELL * self.cells, SAMPLED)


def read_kind(name: str) -> tuple[str, str]:
    """Parses the kind and the compression after "faiss:", for example "ivf,sq8".

    Raises:
        InvalidInput: the kind or the code is unknown, or they cannot be combined.
    """
    found = re.fullmatch(r"(\w+?)(?:,(\w+))?", name or "auto")
    kind, code = (found[1], found[2] or "") if found else (name, "")
    if kind not in KINDS or code not in ("", *CODES):
        raise InvalidInput(
            f"Got the FAISS index kind {name!r}.",
            f"one of {', '.join(KINDS)}, on its own or with one of {', '.join(CODES)}, such as 'ivf,sq8'",
            "Use 'faiss' if in doubt: it chooses by size.",
        )
    if code == "pq" and kind in ("flat", "hnsw"):
        raise InvalidInput(
            f"Got 'faiss:{name}'.", "'faiss:ivf,pq'", "Product quantisation is of the distances to IVF's cells."
        )
    return kind, code


def choose(kind: str, code: str, size: int, width: int) -> Choice:
    """Returns an index for ``size`` keys of ``width`` numbers. "auto" and "" are chosen by size."""
    if kind == "auto" and code == "pq":
        kind = "ivf"
    if size < IVF_FROM and (code or kind == "ivf"):
        return Choice("flat", "", "Flat", 0, f"fewer than {IVF_FROM:,} keys can train neither cells nor a quantiser")
    reason = "asked for"
    if kind == "auto":
        gigabytes = 4e-9 * width * size
        if size <= FLAT_UP_TO:
            kind, reason = "flat", f"a scan of up to {FLAT_UP_TO:,} keys is exact and takes milliseconds"
        elif size <= HNSW_UP_TO:
            kind, reason = "hnsw", f"up to {HNSW_UP_TO:,} keys a graph has the best recall a millisecond"
        else:
            kind, code = "ivf", code or "sq8"
            reason = f"above {HNSW_UP_TO:,} keys a graph builds slowly, and float32 keys are {gigabytes:.1f} GB"
    parts = width if width % 2 else width // 2  # FAISS wants parts of equal width
    coded = {"": "Flat", "fp16": "SQfp16", "sq8": "SQ8", "pq": f"PQ{parts}x4fs"}[code]
    if kind == "ivf":
        root = int(size**0.5)
        many = max(4 * root, min(8 * root, GRAPH_OVER_CELLS_FROM))  # smaller cells have more of what is near per key
        cells = min(many, size // KEYS_OF_CELL, MOST_CELLS)
        graph = f"_HNSW{HNSW_NEIGHBOURS}" if cells > GRAPH_OVER_CELLS_FROM else ""
        return Choice(kind, code, f"IVF{cells}{graph},{coded}", cells, reason)
    factory = f"HNSW{HNSW_NEIGHBOURS},{coded}" if kind == "hnsw" else coded
    return Choice(kind, code, factory, 0, reason)
