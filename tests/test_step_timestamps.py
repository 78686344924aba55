"""Timestamps may be datetimes, dates, or numbers in any unit."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from conftest import QUICK

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.experience.dates import read_timestamp, times_of


def test_a_datetime_counts_in_seconds_and_as_utc_without_an_offset():
    east = timezone(timedelta(hours=2))
    assert read_timestamp(datetime(1970, 1, 1, 0, 1)) == 60.0
    assert read_timestamp(datetime(1970, 1, 1, 2, 1, tzinfo=east)) == 60.0
    assert read_timestamp(date(1970, 1, 2)) == 86_400.0
    assert read_timestamp(7) == 7.0


@pytest.mark.parametrize("bad", ["2023-01-01", float("nan"), float("inf"), True, object()])
def test_other_times_are_refused(bad):
    with pytest.raises(InvalidInput, match="timestamp"):
        read_timestamp(bad)


def test_a_number_in_words_is_no_date():
    """Python reads the first eight digits of such a text as a date: seconds since 1970 became the year 1779."""
    values = ["1779062400", "1779062400123", "2122031652212.4", "937405126081222400", "2026-05", "10:00"]
    assert times_of([{"date": value} for value in values], ["date"]) is None
    days = ["20260518", "2026-05-18", "2026-05-18T00:00:00Z", "2026-05-18 00:00:00"]
    assert {read_timestamp(time) for time in times_of([{"date": day} for day in days], ["date"])} == {1779062400.0}
    assert type(times_of([{"date": "20260518"}], ["date"])[0]) is date


def test_a_refused_time_of_numpy_or_pandas_says_what_to_pass():
    value = np.datetime64("2026-05-18T10:00", "ns")
    with pytest.raises(InvalidInput, match=r"astype\('datetime64\[us\]'\)\.item\(\)"):
        read_timestamp(value)
    assert read_timestamp(value.astype("datetime64[us]").item()) == 1779098400.0


def test_trajectories_take_datetimes():
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1, 0], [0, 1], [1, 1]], ["a", "b", "c"])
    days = [datetime(2023, 5, 8), datetime(2023, 5, 9), datetime(2023, 5, 10)]
    index.observe(Trajectory(ids=["a", "b", "c"], timestamps=days))
    week = timedelta(days=7).total_seconds()
    recent, old = index.recall([1.0, 1.0], k=2, mode="similarity", decay=week)[:2]
    assert (recent.id, old.id) == ("c", "b")
    with pytest.raises(InvalidInput, match="fall"):
        index.observe(Trajectory(ids=["a", "b", "c"], timestamps=days[::-1]))
    with pytest.raises(InvalidInput, match="timestamp"):
        index.observe(Trajectory(ids=["a", "b"], timestamps=["monday", "tuesday"]))


def test_dates_with_offsets_order_a_group_by_their_instants():
    """As text, half past eleven at night in New York came before the next midnight in UTC; it is later."""
    index = PredictiveAssociativeIndex(dim=2)
    whens = ["2026-05-18T23:30:00-05:00", "2026-05-19", "2026-05-19T05:00:00Z", "2026-05-19T04:00:00+00:00"]
    index.add(np.eye(4, 2) + 1, list("abcd"), metadatas=[{"s": 1, "at": when} for when in whens])
    index.fit(group_by="s", order_by="at", config=QUICK, progress=False)
    assert [trajectory.ids for trajectory in index.trajectories()] == [("b", "d", "a", "c")]


def test_a_trajectory_with_dates_grows():
    """If a trajectory is observed again with more steps, the new steps keep their dates."""
    index = PredictiveAssociativeIndex(dim=2)
    ids = index.add([[1, 0], [0, 1], [1, 1]], ids=["a", "b", "c"])
    days = [datetime(2026, 11, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    for length in (2, 3, 3):
        index.observe(Trajectory(ids=ids[:length], timestamps=days[:length], id="walk"))
    (walk,) = index.trajectories()
    assert walk.timestamps == tuple(day.timestamp() for day in days)
    assert [hit.id for hit in index.recall(when=(days[2], None))] == ["c"]


def test_a_number_is_refused_where_times_are_dates_and_the_reverse():
    """A number would be stored as a step without a date: questions about times would not find it."""
    noon = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
    index = PredictiveAssociativeIndex(dim=2)
    index.append("chat", [1, 0], id="a", timestamp=noon)
    for session in ("chat", "another"):
        with pytest.raises(InvalidInput, match=r"timestamps that are numbers.*dates.*fromtimestamp"):
            index.append(session, [0, 1], id="b", timestamp=2e9)
    assert (len(index), len(index.trajectories())) == (1, 1)
    index.append("chat", [0, 1], id="b")  # without a time
    numbers = PredictiveAssociativeIndex(dim=2)
    numbers.append("walk", [1, 0], id="a", timestamp=3)
    with pytest.raises(InvalidInput, match=r"dates.*numbers"):
        numbers.append("walk", [0, 1], id="b", timestamp=noon)
    assert len(numbers) == 1


def test_trajectories_with_dates_can_be_copied_by_their_seconds():
    """``observe`` takes numbers also in an index with dates: records have seconds."""
    old, new = PredictiveAssociativeIndex(dim=2), PredictiveAssociativeIndex(dim=2)
    for at, day in enumerate(november(1, 2, 3)):
        old.append("walk", [1, at], id=str(at), timestamp=day)
    new.add([record.vector for record in old.find()], list("012"), timestamps=[record.time for record in old.find()])
    (walk,) = old.trajectories()
    new.observe(Trajectory(ids=walk.ids, timestamps=walk.timestamps, id=walk.id))
    assert new.trajectories() == [walk]
    assert dates_of(new) == dates_of(old) == {"0": 1, "1": 2, "2": 3}


def dates_of(index):
    return {record.id: None if record.time is None else record.time.day for record in index.find()}


def november(*days):
    return [datetime(2026, 11, day, tzinfo=timezone.utc) for day in days]


def test_a_trajectory_that_is_stored_again_takes_its_dates_back(anywhere):
    """The memories kept the earliest date that the trajectory ever had."""
    index = anywhere(dim=2)
    index.add([[1, 0], [0, 1], [1, 1], [2, 1]], list("abcd"), timestamps=[None, None, None, *november(30)])
    index.observe(Trajectory(ids=list("abcd"), timestamps=november(3, 4, 5, 6), id="walk"))
    index.observe(Trajectory(ids=list("bc"), timestamps=november(10, 20), id="other"))
    assert dates_of(index) == {"a": 3, "b": 4, "c": 5, "d": 30}
    index.observe(Trajectory(ids=list("abc"), timestamps=november(7, 8, 25), id="walk"))
    assert dates_of(index) == {"a": 7, "b": 8, "c": 20, "d": 30}  # a given time stays
    index.observe(Trajectory(ids=list("abc"), timestamps=november(1, 2, 3), id="walk"))
    assert dates_of(index) == {"a": 1, "b": 2, "c": 3, "d": 30}
    index.observe(Trajectory(ids=list("abc"), id="walk"))  # without dates
    assert dates_of(index) == {"a": None, "b": 10, "c": 20, "d": 30}
    assert index.recall(when="November 2026").ids == ["d", "c", "b"]


def test_a_deleted_trajectory_takes_its_dates_with_it(anywhere):
    """So it can be stored again with other dates; a number of another trajectory does not become a date."""
    index = anywhere(dim=2)
    index.add([[1, 0], [0, 1], [1, 1]], list("abc"))
    for at, numbers in enumerate(([1.0, 2.0, 3.0], [1.8e12, 1.9e12, 2e12])):  # seconds of a film, milliseconds
        index.observe(Trajectory(ids=list("abc"), timestamps=numbers, id=f"numbers{at}"))
    index.observe(Trajectory(ids=list("abc"), timestamps=november(3, 4, 5), id="walk"))
    index.observe(Trajectory(ids=list("cb"), timestamps=november(5, 6), id="other"))
    index.delete_trajectory(["walk"])
    assert dates_of(index) == {"a": None, "b": 6, "c": 5}
    index.observe(Trajectory(ids=list("abc"), timestamps=november(13, 14, 15), id="walk"))
    assert dates_of(index) == {"a": 13, "b": 6, "c": 5}
    index.delete_trajectory(["walk", "other"])
    assert dates_of(index) == {"a": None, "b": None, "c": None}
    index.add([[1, 0]], ["a"], timestamps=[5])  # the index has no dates any more


def test_an_appended_memory_has_the_date_of_its_step_without_a_time_of_its_own(anywhere):
    """If it was stored with the step, too, and not only if the step is of a stored memory."""
    index = anywhere(2)
    for at, id in enumerate(["updated", "replaced", "later"]):
        index.append("talk", [1, at], id=id, timestamp=datetime(2024, 5, 1 + at))
    index.update("updated", timestamp=None)
    index.add([[0, 1]], ["replaced"])
    assert index.recall(when="May 2024", k=3).ids == ["later", "replaced", "updated"]
    index.delete_trajectory("talk")
    assert index.recall(when="May 2024", k=3).ids == ["later"]


def test_readers_see_the_dates_that_a_trajectory_takes_back(tmp_path):
    question = {"text": "what did we do on 3 November 2026?", "explain": True}
    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=2) as index:
        index.add([[1, 0], [0, 1]], list("ab"), ["a walk", "a swim"])
        index.observe(Trajectory(ids=list("ab"), timestamps=november(3, 4), id="walk"))
        with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True) as reader:
            for change in (
                lambda: index.observe(Trajectory(ids=list("ba"), timestamps=november(3, 4), id="walk")),
                lambda: index.delete_trajectory(["walk"]),
            ):
                before = [one.recall([1, 1], **question) for one in (index, reader)]
                change()
                with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True) as fresh:
                    expected, listed = fresh.recall([1, 1], **question), dates_of(fresh)
                assert [one.recall([1, 1], **question) for one in (index, reader)] == [expected, expected]
                assert [dates_of(one) for one in (index, reader)] == [listed, listed]
                assert before[0] != expected
