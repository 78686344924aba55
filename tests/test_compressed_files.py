"""A compressed index refuses a file with impossible contents, even if its checksum is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from pam_retriever.ann.faiss import FaissBackend

COUNT, WIDTH = 2_000, 8
KEYS = np.random.default_rng(4).standard_normal((COUNT, WIDTH)).astype(np.float32)
KEYS /= np.linalg.norm(KEYS, axis=1, keepdims=True)


def place_beyond(index: Any) -> None:
    cell = next(cell for cell in range(index.nlist) if index.invlists.list_size(cell))
    faiss.rev_swig_ptr(index.invlists.get_ids(cell), 1)[0] = 1 << 40


def place_twice(index: Any) -> None:
    cells = [cell for cell in range(index.nlist) if index.invlists.list_size(cell)]
    first, second = (faiss.rev_swig_ptr(index.invlists.get_ids(cell), 1) for cell in cells[:2])
    first[0] = second[0]


def other_centres(index: Any) -> None:
    index.quantizer.add(KEYS[:1])


def entry_beyond(index: Any) -> None:
    index.hnsw.entry_point = COUNT - 1


def no_change(index: Any) -> None:
    """Leaves the file as it is."""


def restored(kind: str, folder: Path, change: Callable[[Any], None]) -> FaissBackend:
    made = FaissBackend(WIDTH, kind, folder)
    made.rebuild(np.arange(1, COUNT + 1), KEYS)
    saved = made.save(folder, "ann-0123456789ab")
    path = str(folder / "ann-0123456789ab.faiss")
    index = faiss.read_index(path)
    change(index)
    faiss.write_index(index, path)
    found = FaissBackend(WIDTH, kind, folder)
    found.restore(folder, saved, read_only=True)
    return found


@pytest.mark.parametrize("kind", ["flat,fp16", "hnsw,sq8", "ivf,sq8", "ivf,pq"])
def test_a_sound_file_is_read(kind, tmp_path):
    found = restored(kind, tmp_path, no_change)
    _, rows = found.search(KEYS[:50], 1)
    assert rows[:, 0].tolist() == list(range(1, 51))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("ivf,sq8", place_beyond),
        ("ivf,pq", place_twice),
        ("ivf,fp16", other_centres),
        ("hnsw,sq8", entry_beyond),
    ],
)
def test_a_wrong_number_is_refused(kind, change, tmp_path):
    with pytest.raises((ValueError, RuntimeError)):
        restored(kind, tmp_path, change)
