"""The filter language selects the same memories as plain Python, in memory and in engines."""

from __future__ import annotations

import operator

import pytest
from engine_servers import ENGINES, fresh_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import InvalidInput, PredictiveAssociativeIndex

KEYS = ["a", "b", 'odd "key"', "dotted.key", "$like", "ключ", "a.b", "a.b.c", "a..", "b.0"]
SAFE_KEYS = [key for key in KEYS if not key.startswith("$")]
numbers = st.one_of(st.integers(-3, 3), st.floats(-2, 2, width=16), st.booleans(), st.integers(2**62, 2**65))
texts = st.sampled_from(["", "x", "X", "é", "1", "true", "x\x01'", '"'])
values = st.one_of(numbers, texts, st.none(), st.lists(st.one_of(st.integers(0, 1), texts), max_size=2))
inside = st.sampled_from(["a", "b", "c", "", "0", "b.c"])
nested = st.dictionaries(inside, st.one_of(values, st.dictionaries(inside, values, max_size=2)), max_size=3)
metadatas = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.one_of(values, nested), max_size=4), min_size=1, max_size=8
)

comparable = st.one_of(numbers, texts)
tests = st.one_of(
    comparable.map(lambda v: {"$eq": v}),
    st.none(),
    values,
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne"]), comparable).map(lambda t: {t[0]: t[1]}),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(comparable, max_size=3)).map(lambda t: {t[0]: t[1]}),
    st.booleans().map(lambda b: {"$exists": b}),
    comparable.map(lambda v: {"$contains": v}),
)
leaves = st.dictionaries(st.sampled_from(SAFE_KEYS), tests, max_size=3)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda f: {"$and": f}),
        st.lists(inner, max_size=3).map(lambda f: {"$or": f}),
        inner.map(lambda f: {"$not": f}),
    ),
    max_leaves=6,
)
ORDER = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def same_kind(a, b) -> bool:
    def kind(v):
        return "number" if isinstance(v, int | float) else type(v).__name__

    return kind(a) == kind(b)


def holds(metadata, where) -> bool:
    for key, wanted in where.items():
        if key == "$and":
            ok = all(holds(metadata, one) for one in wanted)
        elif key == "$or":
            ok = any(holds(metadata, one) for one in wanted)
        elif key == "$not":
            ok = not holds(metadata, wanted)
        else:
            conditions = wanted if isinstance(wanted, dict) else {"$eq": wanted}
            ok = all(passes(metadata, key, op, value) for op, value in conditions.items())
        if not ok:
            return False
    return True


MISSING = object()


def look_up(metadata, key):
    """Returns the entry with this key, or else the entry at the path of keys that dots separate."""
    if key in metadata:
        return metadata[key]
    at = metadata
    for part in key.split("."):
        if not isinstance(at, dict) or part not in at:
            return MISSING
        at = at[part]
    return at


def passes(metadata, key, op, value) -> bool:
    stored = look_up(metadata, key)
    there = stored is not MISSING
    if op == "$exists":
        return there == value
    if op == "$ne":
        return not passes(metadata, key, "$eq", value)
    if op == "$in":
        return any(passes(metadata, key, "$eq", one) for one in value)
    if op == "$nin":
        return not passes(metadata, key, "$in", value)
    if op == "$contains":
        if isinstance(stored, list):
            return any(same_kind(one, value) and one == value for one in stored)
        return isinstance(stored, str) and isinstance(value, str) and value in stored
    if not there or not same_kind(stored, value):
        return False
    if op == "$eq":
        return stored == value
    return ORDER[op](stored, value)


@settings(max_examples=150)
@given(metadatas, filters)
def test_a_filter_finds_what_python_finds(stored, where):
    compare(PredictiveAssociativeIndex(dim=1, backend="exact"), stored, where)


@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_finds_what_python_finds(kind, examples):
    index = PredictiveAssociativeIndex(dim=1, backend=fresh_engine(kind))

    @settings(max_examples=examples, deadline=None)
    @given(metadatas, filters)
    def follow(stored, where):
        index.delete([str(n) for n in range(8)])
        compare(index, stored, where)

    follow()
    index.close()


ZEROS = [0, 0.0, -0.0, False]


@pytest.mark.parametrize("kind", ["exact", *ENGINES])
def test_zero_is_zero_whatever_its_sign(kind):
    index = PredictiveAssociativeIndex(dim=1, backend=kind if kind == "exact" else fresh_engine(kind))
    stored = [*({"b": zero} for zero in ZEROS), {"b": ZEROS}, {"b": [-0.0]}, {"b": 1}, {"b": -1e-300}, {"b": "0"}, {}]
    many = [100 + n for n in range(20)]  # a filter with many values uses another query
    for zero in ZEROS:
        for condition in ({"$eq": zero}, {"$in": [zero]}, {"$in": [*many, zero]}, {"$gte": zero, "$lte": zero}):
            compare(index, stored, {"b": condition})
        for op in ("$ne", "$gt", "$gte", "$lt", "$lte", "$contains"):
            compare(index, stored, {"b": {op: zero}})
        compare(index, stored, {"b": {"$nin": [zero]}})
    index.close()


def compare(index, stored, where):
    ids = index.add([[1.0]] * len(stored), [str(n) for n in range(len(stored))], metadatas=stored)
    expected = {id for id, metadata in zip(ids, stored, strict=True) if holds(metadata, where)}
    assert {hit.id for hit in index.search([1.0], k=100, where=where)} == expected
    assert {record.id for record in index.find(where)} == expected


@pytest.mark.parametrize(
    "where",
    [
        {"a": {"$near": 1}},
        {"$xor": []},
        {"$and": {"a": 1}},
        {"$not": [1]},
        {"a": {"$in": "x"}},
        {"a": {"$exists": 1}},
        {"a": {"$gt": None}},
        {"a": {"$gt": [1]}},
        {"a": {"$eq": float("nan")}},
        {"a": object()},
        {"a": "\ud800"},
        {"a\x00": 1},
        {"a": {"$contains": None}},
        {1: 2},
        {"must": [{"key": "a", "match": {"value": 1}}]},
        {"AND": [{"a": 1}, {"b": 2}]},
        "a = 1",
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(where):
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]])
    with pytest.raises(InvalidInput, match="Expected"):
        index.search([1.0], where=where)


def test_nesting_without_end_is_refused():
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]])
    where: dict = {"a": 1}
    for _ in range(5000):
        where = {"$not": where}
    with pytest.raises(InvalidInput, match="deeper"):
        index.search([1.0], where=where)


def test_a_filter_of_many_values_and_the_deepest_allowed_nesting_work():
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0], [1.0]], ["x", "y"], metadatas=[{"a": 499, "b": "x"}, {"a": 1_000_000}])
    assert [hit.id for hit in index.search([1.0], where={"a": {"$in": list(range(50_000))}})] == ["x"]
    assert [hit.id for hit in index.search([1.0], where={"$or": [{"a": n} for n in range(2000)]})] == ["x"]
    where: dict = {"a": 499, "b": {"$in": ["x", 1, None]}}
    for _ in range(5):
        where = {"$or": [{"$not": {"$not": where}}, {"c": {"$nin": [1], "$exists": True}}, {"c": 1}]}
    assert [hit.id for hit in index.search([1.0], where=where)] == ["x"]
