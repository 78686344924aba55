"""Filters by the time of a memory, and records with it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from conftest import QUICK
from engine_servers import ENGINES, fresh_engine
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory

UTC, EAST = timezone.utc, timezone(timedelta(hours=5, minutes=30))
DAYS = [
    datetime(2023, 7, 1, 9),
    datetime(2023, 7, 2),
    datetime(2023, 7, 2, 23, 59, 59, tzinfo=EAST),
    date(2023, 7, 3),
    None,
]
IDS = list("abcde")
VECTORS = np.eye(5, dtype=np.float32)


class NoTime(datetime):
    """As NaT of pandas: a datetime without a time."""

    def timestamp(self):
        raise ValueError("no time")


@pytest.fixture(scope="module", params=["memory", *ENGINES])
def dated(request) -> PredictiveAssociativeIndex:
    backend = {} if request.param == "memory" else {"backend": fresh_engine(request.param)}
    index = PredictiveAssociativeIndex(dim=5, **backend)
    index.add(VECTORS, IDS, metadatas=[{"n": n} for n in range(5)], timestamps=DAYS)
    yield index
    index.close()


def found(index, where) -> str:
    ids = [record.id for record in index.find(where)]
    assert sorted(index.search(np.ones(5), k=9, where=where).ids) == ids  # every call with filters agrees
    return "".join(ids)


@pytest.mark.parametrize(
    ("test", "ids"),
    [
        ({"$gte": date(2023, 7, 2)}, "bcd"),
        ({"$gt": date(2023, 7, 2)}, "d"),  # after that day
        ({"$lt": date(2023, 7, 2)}, "a"),
        ({"$lte": date(2023, 7, 2)}, "abc"),  # the day is included
        ({"$gte": "2023-07-02", "$lt": "2023-07-03"}, "bc"),
        ({"$gte": "2023-07-02T00:00:01+00:00"}, "cd"),
        ({"$gt": datetime(2023, 7, 2)}, "cd"),
        ({"$gte": datetime(2023, 7, 2)}, "bcd"),
        ({"$lt": datetime(2023, 7, 2, 23, 59, 59, tzinfo=EAST)}, "ab"),
        ({"$lte": datetime(2023, 7, 2, 18, 29, 59)}, "abc"),  # the same moment in UTC
        ({"$gt": date(2023, 7, 3), "$lt": date(2023, 7, 1)}, ""),
        (date(2023, 7, 2), "bc"),
        ("20230702", "bc"),  # a day, as "2023-07-02" is
        ({"$gte": "2023-07-02T00:00:00Z"}, "bcd"),
        (datetime(2023, 7, 2), "b"),
        ({"$ne": date(2023, 7, 2)}, "ade"),
        ({"$in": [date(2023, 7, 1), date(2023, 7, 3)]}, "ad"),
        ({"$nin": [date(2023, 7, 1), date(2023, 7, 3)]}, "bce"),
        ({"$in": []}, ""),
        ({"$exists": True}, "abcd"),
        ({"$exists": False}, "e"),
    ],
)
def test_a_filter_by_time(dated, test, ids):
    assert found(dated, {"$time": test}) == ids


def test_it_stands_beside_others_and_below_them(dated):
    """``$time`` can be combined with other conditions, and nested in them."""
    assert found(dated, {"$time": {"$gte": date(2023, 7, 2)}, "n": {"$lt": 3}}) == "bc"
    assert found(dated, {"$or": [{"n": 4}, {"$not": {"$time": {"$gte": date(2023, 7, 2)}}}]}) == "ae"


def test_it_limits_recall_and_deletes(anywhere):
    index = anywhere(dim=5)
    index.add(VECTORS, IDS, timestamps=DAYS)
    index.fit([IDS], config=QUICK, progress=False)
    assert set(index.recall("a", k=9, where={"$time": {"$gte": date(2023, 7, 2)}}, cue_where={}).ids) <= {"b", "c", "d"}
    assert index.delete(where={"$time": {"$lt": date(2023, 7, 2)}}) == 1
    assert found(index, {"$time": {"$exists": True}}) == "bcd"


def test_inherited_and_later_times_are_filtered(anywhere):
    index = anywhere(dim=5)
    index.add(VECTORS, IDS)
    late = {"$time": {"$gte": date(2023, 7, 2)}}
    assert found(index, late) == ""
    index.observe(Trajectory(ids=["a", "b"], timestamps=[datetime(2023, 7, 1), datetime(2023, 7, 5)]))
    assert found(index, late) == "b"
    index.add(VECTORS[:1], ["a"], timestamps=[datetime(2023, 7, 9)])
    assert found(index, late) == "ab"


numbers = st.integers(-3, 3)


@given(
    st.lists(st.none() | numbers, min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"]), numbers, min_size=1, max_size=4),
)
def test_numbers_compare_as_in_python(times, tests):
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((len(times) + 1, 2)), [str(n) for n in range(len(times) + 1)], timestamps=[*times, 0])
    python = {
        "$gt": lambda a, b: a is not None and a > b,
        "$gte": lambda a, b: a is not None and a >= b,
        "$lt": lambda a, b: a is not None and a < b,
        "$lte": lambda a, b: a is not None and a <= b,
        "$eq": lambda a, b: a == b,
        "$ne": lambda a, b: a != b,
    }
    expected = [str(n) for n, time in enumerate([*times, 0]) if all(python[op](time, to) for op, to in tests.items())]
    assert [record.id for record in index.find({"$time": tests})] == expected


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"$gte": "last week"}, "recall"),
        ({"$gte": True}, "True"),
        ({"$gte": None}, "None"),
        ({"$gte": float("nan")}, "nan"),
        ({"$gte": 10**400}, "10000"),
        ({"$gte": "1779062400"}, "1779062400"),  # seconds since 1970 as text
        (np.datetime64("2023-07-01"), r"np\.datetime64\('2023-07-01'\)|numpy\.datetime64"),
        (NoTime(2023, 7, 1), "NoTime"),
        ({"$gte": 5}, "numbers to compare with times that are dates"),
        ({"$gte": 5, "$lt": date(2023, 7, 1)}, "numbers"),
        ({"$contains": "2023"}, "contains"),
        ({"$in": date(2023, 7, 1)}, "in"),
        ({"$exists": 1}, "exists"),
        ({}, "has no operator"),
    ],
)
def test_what_is_no_test_of_time_is_refused(dated, test, message):
    with pytest.raises(InvalidInput, match=message):
        dated.find({"$time": test})


def test_feedback_has_no_times(dated):
    with pytest.raises(InvalidInput, match="metadata"):
        dated.feedbacks({"$time": {"$gte": date(2023, 7, 2)}})


@pytest.mark.parametrize("kind", ENGINES)
def test_a_period_of_many_memories_is_no_long_expression(kind):
    with PredictiveAssociativeIndex(dim=5, backend=fresh_engine(kind)) as index:
        ids, times = [f"m{n}" for n in range(1100)], [DAYS[0]] * 1090 + [DAYS[3]] * 10
        index.add(np.ones((1100, 5)), ids, timestamps=times)
        assert sorted(index.search(np.ones(5), k=2000, where={"$time": DAYS[0]}).ids) == sorted(ids[:1090])
        assert len(index.find({"$time": DAYS[3]})) == 10


def test_records_have_their_time(dated, tmp_path):
    times = [record.time for record in dated.get(IDS)]
    assert times == [
        datetime(2023, 7, 1, 9, tzinfo=UTC),
        datetime(2023, 7, 2, tzinfo=UTC),
        DAYS[2],
        datetime(2023, 7, 3, tzinfo=UTC),
        None,
    ]
    assert times[2].utcoffset() == timedelta(hours=5, minutes=30)
    dated.save(tmp_path / "saved")
    with PredictiveAssociativeIndex.open(tmp_path / "saved", read_only=True) as again:
        assert [record.time for record in again.find()] == times
    numbered = PredictiveAssociativeIndex(dim=5)
    numbered.add(VECTORS[:2], ["a", "b"], timestamps=[-2.5, None])
    assert [record.time for record in numbered.find()] == [-2.5, None]
