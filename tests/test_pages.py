"""Page sizes of databases: larger ones for an index, small ones for a tenant, and copies of any of them."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite.pages import OF_TENANTS, SMALLEST, page_size_for, page_size_of

DIM, WIDE = 8, 384
VECTORS = np.random.default_rng(25).standard_normal((20, DIM)).astype(np.float32)


def sizes(folder) -> dict[bool, set[int]]:
    """Returns the page sizes of all databases in a folder, by whether each is a tenant's."""
    found: dict[bool, set[int]] = {}
    for path in folder.rglob("memories-*.sqlite"):
        found.setdefault(path.parent != folder, set()).add(page_size_of(path))
    return found


def filled(index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
    for part in (index, index.tenant("ann")):
        part.add(
            np.ones((20, WIDE)) + np.arange(20)[:, None], [f"m{n}" for n in range(20)], [f"text {n}" for n in range(20)]
        )
    return index


@pytest.mark.parametrize(
    ("dim", "size"), [(1, 4096), (128, 4096), (256, 8192), (384, 8192), (512, 16384), (768, 16384), (4096, 16384)]
)
def test_five_vectors_fit_into_a_page(dim, size):
    assert page_size_for(dim) == size


def test_an_index_of_long_vectors_has_large_pages_and_its_tenants_small_ones(tmp_path):
    filled(PredictiveAssociativeIndex.open(tmp_path / "opened", WIDE)).close()
    with filled(PredictiveAssociativeIndex(WIDE)) as index:
        index.save(tmp_path / "saved")
    expected = {False: {page_size_for(WIDE)}, True: {OF_TENANTS}}
    assert sizes(tmp_path / "opened") == sizes(tmp_path / "saved") == expected
    with PredictiveAssociativeIndex.load(tmp_path / "opened") as index:
        index.save(tmp_path / "copied")
    assert sizes(tmp_path / "copied") == expected


@pytest.mark.parametrize("size", [512, 4096, 65536])
def test_an_index_with_pages_of_any_size_is_read_copied_and_repaired(tmp_path, size):
    with PredictiveAssociativeIndex(DIM) as index:
        index.add(VECTORS, [f"m{n}" for n in range(20)], [f"text {n}" for n in range(20)])
        index.save(tmp_path / "index")
    (path,) = (tmp_path / "index").glob("memories-*.sqlite")
    PredictiveAssociativeIndex.open(tmp_path / "index").add(VECTORS[:1], ["more"])  # never closed: no checksum
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode = DELETE", f"PRAGMA page_size = {size}", "VACUUM"):
        connection.execute(statement)
    connection.close()
    assert page_size_of(path) == size
    for make in (
        PredictiveAssociativeIndex.load,
        PredictiveAssociativeIndex.open,
        lambda folder: PredictiveAssociativeIndex.open(folder, read_only=True),
    ):
        with make(tmp_path / "index") as index:
            assert len(index) == 21
            assert index.recall(VECTORS[3], k=1, text="text 3").ids == ["m3"]
    assert check(tmp_path / "index") == []
    assert path.read_bytes().count(b"text 7") == 1
    path.write_bytes(path.read_bytes().replace(b"text 7", b"tear 7"))
    with pytest.raises(IndexFormatError):
        PredictiveAssociativeIndex.load(tmp_path / "index")
    assert repair(tmp_path / "index")
    with PredictiveAssociativeIndex.load(tmp_path / "index") as index:
        assert len(index) == 20


def test_a_file_that_says_no_page_size_has_the_usual(tmp_path):
    for contents in (b"", b"SQLite format 3\0", b"SQLite format 3\0" + (777).to_bytes(2, "big")):
        (tmp_path / "damaged").write_bytes(contents)
        assert page_size_of(tmp_path / "damaged") == SMALLEST
