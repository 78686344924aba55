"""A compressed inverted file looks into as many cells as its own keys need, and behind a filter until enough pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam_retriever.ann import FaissBackend
from pam_retriever.ann import cells as looking
from pam_retriever.ann.cells import Cells
from pam_retriever.ann.selection import Inside
from pam_retriever.model.keys import unit
from pam_retriever.store.folder.ann_cache import UNUSABLE

WIDTH, COUNT = 24, 30_000


def world(seed: int, topics: int, noise: float, count: int = COUNT) -> np.ndarray:
    """Returns the first ``count`` keys of a world, whatever the count."""
    random = np.random.default_rng(seed)
    centres, topic = random.standard_normal((topics, WIDTH)), random.integers(0, topics, 2 * COUNT)[:count]
    return unit((centres[topic] + noise * random.standard_normal((count, WIDTH))).astype(np.float32))


@pytest.fixture(scope="module")
def spread() -> tuple[FaissBackend, np.ndarray]:
    """An index of keys that fill the space, of which many cells have to be looked into."""
    keys = world(0, 40, 1.0)
    backend = FaissBackend(WIDTH, "ivf,sq8")
    backend.rebuild(np.arange(COUNT), keys)
    return backend, keys


def found(backend: FaissBackend, keys: np.ndarray, asked: np.ndarray, k: int, inside=None) -> float:
    """Returns the share of the exact answer that the index finds."""
    rows = np.arange(COUNT) if inside is None else inside
    right = rows[np.argsort(-(asked @ keys[rows].T), axis=1)[:, :k]]
    answers = backend.search(asked, k, inside)[1]
    return float(np.mean([np.isin(best, answer).mean() for best, answer in zip(right, answers, strict=True)]))


def test_the_number_of_cells_follows_the_keys(spread):
    """Keys in tight clusters need few cells, keys that fill the space many. New keys of both find their nearest."""
    tight, keys = FaissBackend(WIDTH, "ivf,sq8"), world(1, 300, 0.1, COUNT + 300)
    tight.rebuild(np.arange(COUNT), keys[:COUNT])
    assert tight._cells.measured * 3 < spread[0]._cells.measured
    assert found(tight, keys[:COUNT], keys[COUNT:], 10) >= 0.98
    assert found(*spread, world(0, 40, 1.0, COUNT + 300)[COUNT:], 10) >= 0.98


def test_more_hits_need_more_cells(spread):
    backend, keys = spread
    asked = keys[:100]
    assert backend._cells.number(asked, 160) == 2 * backend._cells.number(asked, 10)
    assert backend._cells.number(asked, 1) == backend._cells.measured
    assert found(backend, keys, asked, 100) >= 0.97


@pytest.mark.parametrize("passing", ["half", "a tenth", "one side", "other side", "far corner"])
def test_a_filter_of_any_kind_loses_little(spread, passing, monkeypatch):
    monkeypatch.setattr("pam_retriever.ann.faiss.SCAN_UP_TO", 0)
    backend, keys = spread
    along = keys @ unit(np.random.default_rng(5).standard_normal((1, WIDTH)).astype(np.float32))[0]
    drawn = np.random.default_rng(6).random(COUNT)
    inside = {
        "half": drawn < 0.5,
        "a tenth": drawn < 0.1,
        "one side": along > 0,
        "other side": along < 0,
        "far corner": along > np.quantile(along, 0.98),
    }[passing]
    asked = keys[along < np.quantile(along, 0.3)][:200] if passing == "far corner" else keys[:200]
    assert found(backend, keys, asked, 10, np.flatnonzero(inside)) >= 0.97


def cells_behind(backend, queries, mask, number):
    """Returns the scores and the numbers of the cells that a search behind a filter looks into."""
    cells = backend._cells
    return cells._behind(Inside(COUNT, mask=mask), number, 1).cells(cells._scores(queries))


def test_cells_in_which_nothing_passes_are_left_out(spread):
    backend, keys = spread
    cell = backend._cells._of(np.arange(COUNT))
    _, chosen = cells_behind(backend, keys[:30], cell % 2 == 1, 40)
    assert set(np.unique(chosen[chosen >= 0] % 2)) == {1}
    best = np.argsort(-(keys[:30] @ backend._cells.centres.reconstruct_n(0, backend.choice.cells).T), axis=1)
    for at in range(30):
        visited = chosen[at][chosen[at] >= 0]
        np.testing.assert_array_equal(visited, [one for one in best[at] if one % 2][: len(visited)])


def test_a_sample_counts_what_passes_nearly_as_well(spread, monkeypatch):
    backend, keys = spread
    inside = np.random.default_rng(8).random(COUNT) < 0.5
    exact = (cells_behind(backend, keys[:50], inside, 20)[1] >= 0).sum()
    monkeypatch.setattr(looking, "COUNTED", 3_000)
    assert abs((cells_behind(backend, keys[:50], inside, 20)[1] >= 0).sum() / exact - 1) < 0.1


@pytest.mark.parametrize("k", [500, 5_000, COUNT])
@pytest.mark.parametrize("passing", [1.0, 0.5])
def test_as_many_hits_come_as_are_asked_for(spread, k, passing, monkeypatch):
    monkeypatch.setattr("pam_retriever.ann.faiss.SCAN_UP_TO", 0)
    backend, keys = spread
    inside = None if passing == 1.0 else np.flatnonzero(np.random.default_rng(9).random(COUNT) < passing)
    rows = backend.search(keys[:20], k, inside)[1]
    assert rows.shape[1] == min(k, COUNT if inside is None else len(inside))
    assert (rows >= 0).all()


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_filter_loses_little_where_cells_have_grown(share, monkeypatch):
    """One topic that grew later fills a few cells. A handful of these has many passing keys, yet not the nearest."""
    monkeypatch.setattr("pam_retriever.ann.faiss.SCAN_UP_TO", 0)
    random = np.random.default_rng(12)
    centre, half = random.standard_normal((1, WIDTH)), COUNT // 2
    topic = unit((centre + 0.5 * random.standard_normal((half, WIDTH))).astype(np.float32))
    backend, keys = FaissBackend(WIDTH, "ivf"), np.concatenate([world(1, 100, 0.1, half), topic])
    backend.rebuild(np.arange(half), keys[:half])
    backend.add(np.arange(half, COUNT), keys[half:])
    inside = np.flatnonzero(random.random(COUNT) < share)
    assert found(backend, keys, keys[-200:], 10) >= 0.97
    assert found(backend, keys, keys[-200:], 10, inside) >= 0.97


@pytest.mark.parametrize("code", ["", ",sq8", ",fp16", ",pq"])
@pytest.mark.parametrize("kind", ["equal", "few different", "one heavy cell", "zero"])
def test_equal_keys_leave_no_hits_out(kind, code, monkeypatch):
    """Thousands of equal keys lie in one cell, and the cells nearest to a query may be empty."""
    monkeypatch.setattr("pam_retriever.ann.faiss.SCAN_UP_TO", 0)
    random = np.random.default_rng(10)
    keys = {
        "equal": np.ones((3_000, WIDTH)),
        "few different": random.standard_normal((7, WIDTH))[random.integers(0, 7, 3_000)],
        "one heavy cell": np.concatenate([np.ones((2_500, WIDTH)), random.standard_normal((500, WIDTH))]),
        "zero": np.zeros((3_000, WIDTH)),
    }[kind].astype(np.float32)
    asked = np.concatenate([random.standard_normal((20, WIDTH)).astype(np.float32), keys[-3:]])
    backend = FaissBackend(WIDTH, f"ivf{code}")
    backend.rebuild(np.arange(3_000), keys)
    backend.remove(np.arange(0, 500, 2))
    for inside in (None, np.arange(250, 2_000), np.arange(251, 257)):
        left = np.setdiff1d(np.arange(3_000) if inside is None else inside, np.arange(0, 500, 2))
        for k in (1, 10, 700, 3_000):
            scores, rows = backend.search(asked, k, inside)
            assert rows.shape[1] == min(k, len(left))
            assert np.isin(rows, left).all()
            assert all(len(set(row)) == len(row) for row in rows.tolist())
            np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", asked, keys[rows]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_keys_of_any_width_can_be_compressed(width):
    keys = np.random.default_rng(11).standard_normal((2_000, width)).astype(np.float32)
    for code in ("sq8", "fp16", "pq"):
        backend = FaissBackend(width, f"ivf,{code}")
        backend.rebuild(np.arange(2_000), keys)
        scores, rows = backend.search(keys[:50], 10)
        np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", keys[:50], keys[rows]), rtol=1e-4, atol=1e-4)


def test_it_is_measured_again_when_there_are_a_quarter_more_keys(monkeypatch):
    counts = []
    real = Cells.measure
    monkeypatch.setattr(Cells, "measure", lambda *args: (counts.append(len(args[1])), real(*args))[1])
    keys, backend = world(0, 40, 1.0), FaissBackend(WIDTH, "ivf,sq8")
    backend.rebuild(np.arange(4_000), keys[:4_000])
    for start in range(4_000, 16_000, 1_000):
        backend.add(np.arange(start, start + 1_000), keys[start : start + 1_000])
    assert counts == [4_000, 5_000, 7_000, 9_000, 12_000, 15_000]


def test_new_keys_that_are_unlike_the_old_ones_are_found():
    keys, old = np.concatenate([world(1, 100, 0.1, 20_000), world(0, 40, 1.0, 10_000)]), 20_000
    backend = FaissBackend(WIDTH, "ivf")
    backend.rebuild(np.arange(old), keys[:old])
    for start in range(old, COUNT, 1_000):
        backend.add(np.arange(start, start + 1_000), keys[start : start + 1_000])
    assert found(backend, keys, keys[-300:], 10) >= 0.9  # 0.47 with what was measured on the old keys


def test_a_query_of_learnt_parts_looks_into_no_fewer_cells_than_usual():
    """What is measured is similarity, the first part of a key. A query of other parts takes the larger number."""
    keys = np.concatenate([world(1, 300, 0.1), world(2, 40, 1.0)], axis=1)
    backend = FaissBackend(2 * WIDTH, "ivf,sq8", first=WIDTH)
    backend.rebuild(np.arange(COUNT), keys)
    first = keys[:5].copy()
    first[:, WIDTH:] = 0
    assert backend._cells.number(first, 10) == backend._cells.measured
    assert backend._cells.number(keys[:5], 10) == max(backend._cells.measured, backend._cells.usual)


def test_what_was_measured_is_saved(tmp_path: Path):
    keys, backend = world(0, 40, 1.0), FaissBackend(WIDTH, "ivf,sq8", tmp_path)
    backend.rebuild(np.arange(COUNT), keys)
    saved, other = backend.save(tmp_path, "ann-0123456789ab"), FaissBackend(WIDTH, "ivf,sq8")
    other.restore(tmp_path, saved, read_only=True)
    assert (other._cells.measured, other._cells.measured_for) == (backend._cells.measured, COUNT)
    inside = np.flatnonzero(np.arange(COUNT) % 2)
    for allowed in (None, inside):
        for one, again in zip(
            backend.search(keys[:50], 10, allowed), other.search(keys[:50], 10, allowed), strict=True
        ):
            np.testing.assert_array_equal(one, again)
    older = {name: value for name, value in saved.items() if name not in ("first", "measured")}
    old = FaissBackend(WIDTH, "ivf,sq8")
    old.restore(tmp_path, older, read_only=True)
    assert old._cells.number(keys[:1], 10) == old._cells.usual
    with pytest.raises(ValueError, match="-3 cells"):
        FaissBackend(WIDTH, "ivf,sq8").restore(tmp_path, saved | {"measured": [-3, 5]}, read_only=True)


@pytest.mark.parametrize("code", ["sq8", "pq"])
def test_damaged_settings_are_refused_before_a_search(tmp_path: Path, code):
    keys, backend = world(0, 40, 1.0, 3_000), FaissBackend(WIDTH, f"ivf,{code}", tmp_path)
    backend.rebuild(np.arange(3_000), keys)
    saved, cells = backend.save(tmp_path, "ann-0123456789ab"), backend.choice.cells
    damaged = [{"measured": numbers} for numbers in ([10**400, 3_000], [cells + 1, 3_000], [float("inf"), 3], None)]
    damaged += [{name: float("inf")} for name in ("first", "trained_for", "keys", "keys_checksum")]
    damaged += [{"choice": saved["choice"] | {"code": other}} for other in ("zz", None)]
    damaged += [{"choice": saved["choice"] | {"kind": other}} for other in ("flat", "hnsw", "zz", None)]
    for change in damaged:
        with pytest.raises(UNUSABLE):  # these make an index be built from the database
            FaissBackend(WIDTH, f"ivf,{code}").restore(tmp_path, saved | change, read_only=True)
