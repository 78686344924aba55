"""Metadata values without a JSON type, for example dates, are stored and compared in one form."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from enum import Enum
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

from pam_retriever import InvalidInput, PredictiveAssociativeIndex


class Colour(Enum):
    RED = "red"
    TWO = 2


NAME = UUID("12345678123456781234567812345678")
EAST = timezone(timedelta(hours=5, minutes=30))


@pytest.fixture
def index() -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=2)
    index.add(
        [[1, 0], [0, 1], [1, 1]],
        ["a", "b", "c"],
        metadatas=[
            {"at": datetime(2023, 5, 8, 12), "day": date(2023, 5, 8), "name": NAME, "colour": Colour.RED},
            {"at": datetime(2023, 5, 8, 12, 0, 0, 5), "day": date(2023, 5, 9), "n": np.int64(3), "colour": Colour.TWO},
            {"zoned": datetime(2023, 5, 8, 3, tzinfo=EAST), "x": np.float32(0.5), "flag": np.bool_(True)},
        ],
    )
    return index


def found(index: PredictiveAssociativeIndex, where: dict[str, object]) -> list[str]:
    return [record.id for record in index.find(where)]


def test_they_come_back_as_json_has_them(index):
    a, b, c = index.get(["a", "b", "c"])
    assert a.metadata == {"at": "2023-05-08T12:00:00", "day": "2023-05-08", "name": str(NAME), "colour": "red"}
    assert b.metadata == {"at": "2023-05-08T12:00:00.000005", "day": "2023-05-09", "n": 3, "colour": 2}
    assert c.metadata == {"zoned": "2023-05-07T21:30:00+00:00", "x": 0.5, "flag": True}


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ({"at": datetime(2023, 5, 8, 12)}, ["a"]),
        ({"at": {"$gt": datetime(2023, 5, 8, 12)}}, ["b"]),
        ({"at": {"$gte": date(2023, 5, 8)}}, ["a", "b"]),
        ({"day": {"$in": [date(2023, 5, 9), date(2024, 1, 1)]}}, ["b"]),
        ({"name": NAME}, ["a"]),
        ({"colour": Colour.RED}, ["a"]),
        ({"colour": {"$in": [Colour.TWO]}}, ["b"]),
        ({"n": np.int32(3)}, ["b"]),
        ({"x": {"$lt": np.float64(0.75)}}, ["c"]),
        ({"flag": np.bool_(True)}, ["c"]),
        # the same moment in another zone
        ({"zoned": datetime(2023, 5, 7, 21, 30, tzinfo=timezone.utc)}, ["c"]),
    ],
)
def test_filters_take_them_too(index, where, ids):
    assert found(index, where) == ids


def test_what_has_no_such_form_is_refused_and_nothing_is_stored(index):
    with pytest.raises(InvalidInput, match="complex"):
        index.add([[1, 0]], ["d"], metadatas=[{"z": 1j}])
    assert "d" not in index


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (np.datetime64("2023-05-08T12:00", "ns"), "2023-05-08T12:00:00"),  # as pandas holds times
        (np.datetime64("2023-05-08T12:00", "s"), "2023-05-08T12:00:00"),
        (np.datetime64("2023-05-08"), "2023-05-08"),
        (np.longdouble("0.5"), 0.5),
    ],
)
def test_a_time_or_a_number_of_any_precision_is_one(index, value, stored):
    index.add([[1, 0]], ["d"], metadatas=[{"one": value}])
    assert index.get(["d"])[0].metadata == {"one": stored}
    assert found(index, {"one": value}) == ["d"]


@pytest.mark.parametrize("missing", [pd.NaT, np.datetime64("NaT"), float("nan"), np.datetime64(10**9, "Y")], ids=str)
def test_a_missing_time_or_number_is_refused_and_its_place_is_named(index, missing):
    with pytest.raises(InvalidInput, match=r"metadatas\[1\]\['notes'\]\[2\]\['at'\] cannot.*NaN and NaT"):
        index.add(np.eye(2), ["d", "e"], metadatas=[{"n": 1}, {"n": 1, "notes": [1, 2, {"at": missing}]}])
    assert "d" not in index
    with pytest.raises(InvalidInput, match="to compare with"):
        index.find({"at": missing})


@pytest.mark.parametrize("value", [np.array([1, 2]), pd.Series([1, 2])], ids=["array", "Series"])
def test_the_error_names_the_type_that_json_cannot_hold(index, value):
    with pytest.raises(InvalidInput, match=rf"{type(value).__name__} is not a value that JSON can hold"):
        index.add([[1, 0]], ["d"], metadatas=[{"one": value}])


def test_a_filter_that_tests_nothing_is_refused(index):
    with pytest.raises(InvalidInput, match="has no operator"):
        index.find({"user": {}})
    with pytest.raises(InvalidInput, match="has no operator"):
        index.search([1.0, 0.0], where={"$and": [{"user": {}}]})
