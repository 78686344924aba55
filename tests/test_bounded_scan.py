"""A scan for one query that reads no more keys than necessary finds the same as a scan of all keys."""

import numpy as np
import pytest

from pam_retriever.ann import FaissBackend, bounded
from pam_retriever.ann import scan as scanning
from pam_retriever.ann.bounded import scan_flat
from pam_retriever.ann.flat import FlatKeys
from pam_retriever.ann.scan import scan
from pam_retriever.model.keys import unit

D, CODE, N = 48, 16, 9_000
Random = np.random.Generator


@pytest.fixture(autouse=True)
def no_keys_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scanning, bounded):
        monkeypatch.setattr(module, "IN_CACHE", 0)


@pytest.fixture
def random() -> Random:
    return np.random.default_rng(3)


def _keys(random: Random, n: int = N) -> np.ndarray:
    centres = random.standard_normal((60, 2 * D + CODE), np.float32)
    keys = centres[random.integers(0, 60, n)] + 0.5 * random.standard_normal((n, 2 * D + CODE), np.float32)
    return np.concatenate([unit(keys[:, :D]), unit(keys[:, D : 2 * D]), unit(keys[:, 2 * D :])], axis=1)


def _flat(keys: np.ndarray, first: int = D) -> FlatKeys:
    flat = FlatKeys(keys.shape[1], first=first)
    flat.add(keys)
    return flat


def _check_same(flat: FlatKeys, query: np.ndarray, rows: np.ndarray, k: int = 20) -> None:
    query = query.astype(np.float32)[None]
    found, expected = scan_flat(query, flat, rows, k), scan(query, flat.blocks, rows, k)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


def _queries(random: Random, key: np.ndarray) -> dict[str, np.ndarray]:
    """Queries of every kind: for p alone, for f and e, mostly for one of them, and for keys that are all alike."""
    p, rest = key.copy(), key.copy()
    p[D:], rest[:D] = 0, 0
    noise = 0.2 * random.standard_normal(len(key)).astype(np.float32)
    return {
        "p": p + np.where(p != 0, noise, 0),
        "p again": p,
        "the rest": rest,
        "mostly the rest": 0.1 * p + 5 * rest,
        "mostly p": 5 * p + 0.1 * rest,
        "both": 3 * p + 3 * rest + noise,
        "away": -key,
        "noise": noise,
        "nothing": 0 * key,
    }


@pytest.mark.parametrize("first", [0, D])
def test_the_answers_are_those_of_a_full_scan(random: Random, first: int) -> None:
    keys, rows = _keys(random), np.arange(5, 5 + N)
    flat = _flat(keys, first)
    for at in (0, 77, 4_000):
        for query in _queries(random, keys[at]).values():
            for k in (1, 64, N // 3, N):
                _check_same(flat, query, rows, k)


def test_equal_keys_come_in_the_order_of_their_rows(random: Random) -> None:
    keys = _keys(random)
    keys[100:4_000] = keys[100]
    flat = _flat(keys)
    for query in _queries(random, keys[100]).values():
        _check_same(flat, query, np.arange(N))


def test_a_change_of_the_keys_is_seen_at_once(random: Random) -> None:
    keys, backend = _keys(random), FaissBackend(2 * D + CODE, "flat", first=D)
    backend.rebuild(np.arange(N), keys)
    for change in range(4):
        query = _queries(random, keys[change])
        for name in ("p", "both", "p again", "mostly the rest"):
            found = backend.search(query[name][None], 10)
            expected = scan(query[name][None], backend._index.blocks, backend._positions.rows, 10)
            np.testing.assert_array_equal(found[1], expected[1])
            np.testing.assert_array_equal(found[0], expected[0])
        backend.remove(np.arange(10 * change, 10 * change + 5))
        backend.add(np.array([N + change]), 40 * keys[change : change + 1])  # longer than all before


def test_keys_that_moved_up_are_measured(random: Random) -> None:
    keys = _keys(random, 300)
    flat = _flat(keys[:200])
    assert max(flat.longest) < 1.5
    flat.add(9 * keys[200:])
    flat.remove(np.arange(150))
    assert min(flat.longest) > 8.9


def test_most_keys_are_not_compared_with_the_whole_query(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, read = _keys(random), []
    flat, products = _flat(keys), bounded.few_products
    monkeypatch.setattr(bounded, "few_products", lambda q, k: (read.append(k.nbytes), products(q, k))[1])
    queries = _queries(random, keys[9])
    for name in ("p", "both"):
        _check_same(flat, queries[name], np.arange(N), 5)
    assert keys.nbytes <= sum(read) < 1.3 * keys.nbytes  # two full scans read 1.43 times the keys, and all of p twice


def test_keys_nearly_parallel_to_what_was_compared_before_are_not_lost() -> None:
    """Their distance from its direction, 3e-4, is the root of a rounding error."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        before = unit(random.standard_normal((1, 16)))[0]
        across = random.standard_normal(16)
        across = unit((across - across @ before * before)[None])[0]
        tilt = np.append(np.full(8, 1.9e-4), random.uniform(2e-4, 3.2e-4, 2))
        away = 0.5 * unit(-before + 0.3 * unit(random.standard_normal((3_000, 16))))
        flat = _flat(np.concatenate([unit(before + tilt[:, None] * across), away]).astype(np.float32), first=0)
        rows = np.arange(3_010)
        for k in (1, 5):
            scan_flat(np.float32(random.uniform(0.3, 3) * before)[None], flat, rows, 1)
            _check_same(flat, 0.55 * before + 0.835 * across, rows, k)
