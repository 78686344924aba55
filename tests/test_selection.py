"""Rows as a mask, and the positions that a filter leaves, against plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.ann.id_map import IdMap
from pam_retriever.ann.selection import RowMask, holds
from pam_retriever.store.sqlite import metadata_columns

rows_of_an_index = st.lists(st.integers(0, 40), unique=True, max_size=30)


def mask_of(first, rows):
    """Returns the rows as a mask that starts at ``first``."""
    last = max([*rows, first])
    return RowMask(first, np.isin(np.arange(first, last + 1), rows))


@given(st.integers(0, 20), st.sets(st.integers(0, 30)), st.lists(st.integers(-5, 80), max_size=20))
def test_a_mask_is_the_sorted_array_of_its_rows(first, offsets, asked):
    rows = sorted(first + offset for offset in offsets)
    mask = mask_of(first, rows)
    assert len(mask) == len(rows)
    assert np.asarray(mask).tolist() == rows
    assert np.asarray(mask, np.float32).dtype == np.float32
    assert holds(mask, np.array(asked, np.int64)).tolist() == [one in rows for one in asked]


@settings(max_examples=300)
@given(
    st.one_of(rows_of_an_index, st.integers(0, 30).map(lambda n: list(range(5, 5 + n)))),
    rows_of_an_index,
    st.sets(st.integers(0, 60)),
    st.sets(st.integers(0, 60)),
    st.integers(0, 10),
)
def test_a_mask_and_a_list_leave_the_same_positions(stored, more, removed, allowed, first):
    more = [row for row in more if row not in stored]
    positions = IdMap(np.array(stored, np.int64))
    if more:
        positions.append(np.array(more, np.int64))
    gone = positions.of(np.array([row for row in [*stored, *more] if row in removed], np.int64))
    positions.empty(gone)
    there = sorted(row for row in allowed if row >= first)
    expected = [at for at, row in enumerate(positions.rows.tolist()) if row in there]
    for rows in (np.array(there, np.int64), mask_of(first, there)):
        inside = positions.inside(rows)
        assert len(inside) == len(expected)
        assert np.flatnonzero(inside.mask).tolist() == expected
        inside = positions.inside(rows)
        assert sorted(inside.positions.tolist()) == expected
        assert np.flatnonzero(inside.mask).tolist() == expected


@pytest.mark.parametrize("backend", ["faiss:flat", "faiss:hnsw", "faiss:ivf", "faiss:ivf,sq8", "exact"])
@pytest.mark.parametrize("many", [0, metadata_columns.MANY])
def test_a_filter_leaves_the_same_memories_after_every_kind_of_write(backend, many, monkeypatch):
    monkeypatch.setattr(metadata_columns, "MANY", many)
    monkeypatch.setattr("pam_retriever.ann.faiss.SCAN_UP_TO", 50)  # so that graphs and cells answer behind filters
    random = np.random.default_rng(0)
    vectors, groups = random.standard_normal((900, 16)).astype(np.float32), {}
    index = PredictiveAssociativeIndex(dim=16, backend=backend)

    def put(numbers):
        for n in numbers:
            groups[f"m{n}"] = int(random.integers(0, 10))
        names = [f"m{n}" for n in numbers]
        index.add(vectors[list(numbers)], names, metadatas=[{"group": groups[name]} for name in names])

    def check():
        for where, passes in [({"group": {"$gte": 3}}, lambda g: g >= 3), ({"group": 4}, lambda g: g == 4)]:
            expected = {name for name, group in groups.items() if passes(group)}
            hits = index.search(vectors[5], k=len(groups), where=where)
            assert {hit.id for hit in hits} == expected
            first = max(expected, key=lambda name: unit(vectors[int(name[1:])]) @ unit(vectors[5]))
            assert hits[0].id == first

    put(range(600))
    check()
    put(range(600, 900))
    check()
    index.delete([f"m{n}" for n in range(0, 200, 3)])
    for n in range(0, 200, 3):
        del groups[f"m{n}"]
    check()
    put(range(301, 500, 2))  # changes memories
    check()


def unit(vector):
    return vector / np.linalg.norm(vector)
