"""Memories have dates, and recall uses the times in questions: a small world, end to end."""

import builtins
import json
import shutil
import sqlite3
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import QUICK

from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.errors import InvalidInput, MissingExtra, ReadOnlyIndex
from pam_retriever.retrieval.hybrid import TIME
from pam_retriever.store.folder.repair import repair
from pam_retriever.store.sqlite import words
from pam_retriever.timewords import dates
from pam_retriever.timewords.periods import Period
from pam_retriever.timewords.reader import read_text
from pam_retriever.timewords.scores import TextPeriods as Named
from pam_retriever.timewords.scores import time_scores

GOLDEN = Path(__file__).parent / "golden" / "1" / "index"
UTC = timezone.utc
NOW = datetime(2024, 1, 3, tzinfo=UTC)
DIM = 16
N = 36  # three memories for each month of 2023: on the 5th, the 15th and the 25th
DAYS = [datetime(2023, 1 + n // 3, 5 + 10 * (n % 3), 9, tzinfo=UTC) for n in range(N)]
IDS = [f"m{n}" for n in range(N)]
TEXTS = [f"we talked about topic {n}" for n in range(N)]
TEXTS[13] = "we went camping in March"  # its own date is in May
VECTORS = (1 + 0.2 * np.random.default_rng(0).normal(size=(N, DIM))).astype(np.float32)
QUESTION = VECTORS.mean(axis=0)


def world(make=PredictiveAssociativeIndex):
    index = make(dim=DIM)
    index.add(VECTORS, IDS, TEXTS, timestamps=DAYS)
    return index


def of_month(hits, month):
    return [DAYS[int(hit.id[1:])].month == month for hit in hits]


# ---- times of memories


def test_when_lists_memories_newest_first(anywhere):
    index = world(anywhere)
    assert index.recall(when="July 2023", now=NOW).ids == ["m20", "m19", "m18"]
    assert index.recall(when="last month", now=NOW, k=2).ids == ["m35", "m34"]
    # a date as the end includes the day
    assert index.recall(when=(date(2023, 7, 5), date(2023, 7, 15))).ids == ["m19", "m18"]
    # a datetime as the end is excluded
    assert index.recall(when=(None, datetime(2023, 1, 15, 9, tzinfo=UTC))).ids == ["m0"]
    assert index.recall(when=("December 2023", None), k=None).ids == ["m35", "m34", "m33"]
    assert len(index.recall(when="1999")) == 0


def test_when_filters_every_mode_and_beside_where(anywhere):
    index = world(anywhere)
    index.add(VECTORS[:3], IDS[:3], TEXTS[:3], [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}], timestamps=DAYS[:3])
    inside = {"m18", "m19", "m20"}
    for options in ({"text": "topic"}, {"mode": "similarity"}):
        assert set(index.recall(QUESTION, k=10, when="July 2023", **options).ids) == inside
    assert set(index.recall(QUESTION, mode="similarity", when="January 2023", where={"kind": "a"}).ids) == {"m0", "m2"}
    assert index.recall(when="January 2023", where={"kind": "a"}).ids == ["m2", "m0"]
    batch = index.recall_many(np.stack([QUESTION, VECTORS[0]]), mode="similarity", when="July 2023")
    assert [set(hits.ids) for hits in batch] == [inside, inside]


def test_when_filters_association_and_its_hops(anywhere):
    index = world(anywhere)
    index.fit([IDS[:20], IDS[16:]], config=QUICK, progress=False)
    for hops in (1, 2):
        found = index.recall("m18", k=10, hops=hops, when="July 2023", mode="association").ids
        assert set(found) <= {"m19", "m20"}
        assert found


def test_numbers_are_a_kind_of_their_own(anywhere):
    """Timestamps may be plain numbers: then ``when`` is a pair of numbers, and words of time have no effect."""
    index = anywhere(dim=DIM)
    index.add(VECTORS, IDS, TEXTS, timestamps=list(range(N)))
    assert index.recall(when=(3, 6)).ids == ["m5", "m4", "m3"]
    assert index.recall(when=(None, 2.0)).ids == ["m1", "m0"]
    with pytest.raises(InvalidInput, match="pair"):
        index.recall(when="last week")
    with pytest.raises(InvalidInput, match="start before the end"):
        index.recall(when=(6, 3))
    plain = PredictiveAssociativeIndex(dim=DIM)
    plain.add(VECTORS, IDS, TEXTS)
    asked = {"k": 10, "text": "what did we say in July 2023?"}
    assert index.recall(QUESTION, **asked) == plain.recall(QUESTION, **asked)


def test_kinds_are_not_mixed(anywhere):
    """An index has either dates or numbers as timestamps, and refuses the other type."""
    index = world(anywhere)
    for given in ([5.0], [5]):
        with pytest.raises(InvalidInput, match="numbers, for an index whose timestamps are dates"):
            index.add(VECTORS[:1], ["new"], timestamps=given)
    assert "new" not in index
    with pytest.raises(InvalidInput, match="in part dates"):
        index.add(VECTORS[:2], ["a", "b"], timestamps=[1.0, DAYS[0]])
    with pytest.raises(InvalidInput, match="Wrap it"):
        index.add(VECTORS[:1], ["a"], timestamps=DAYS[0])
    with pytest.raises(InvalidInput, match="timestamps of length 3 for 1 vector"):
        index.add(VECTORS[:1], ["a"], timestamps=DAYS[:3])
    with pytest.raises(InvalidInput, match="timestamp"):
        index.add(VECTORS[:1], ["a"], timestamps=["yesterday"])
    with pytest.raises(InvalidInput, match="in part dates"):
        index.observe(Trajectory(ids=["m0", "m1"], timestamps=[1.0, DAYS[1]]))
    numbers = anywhere(dim=DIM)
    numbers.add(VECTORS, IDS, timestamps=range(N))
    with pytest.raises(InvalidInput, match="dates, for an index whose timestamps are numbers"):
        numbers.observe(Trajectory(ids=["m0", "m1"], timestamps=DAYS[:2]))
    numbers.delete(IDS)
    numbers.add(VECTORS, IDS, timestamps=DAYS)  # no timestamps of the other kind remain
    assert numbers.recall(when="July 2023").ids == ["m20", "m19", "m18"]


def test_memories_inherit_the_dates_of_trajectories(anywhere):
    index = anywhere(dim=DIM)
    index.add(VECTORS[:3], IDS[:3], timestamps=[DAYS[0], None, None])
    later = [DAYS[9], DAYS[10], DAYS[10]]
    index.observe(Trajectory(ids=["m0", "m1", "m2"], timestamps=later))
    index.observe(Trajectory(ids=["m1", "m2"], timestamps=[DAYS[5], DAYS[20]]))
    index.observe(Trajectory(vectors=VECTORS[10:12], timestamps=[DAYS[30], DAYS[31]], id="t"))
    assert index.recall(when="January 2023").ids == ["m0"]  # a given time has precedence
    assert index.recall(when="February 2023").ids == ["m1"]  # of several steps the earliest counts
    assert index.recall(when="April 2023").ids == ["m2"]
    assert index.recall(when="November 2023").ids == ["t/1", "t/0"]
    index.add(VECTORS[:1], ["m0"])  # replaced without a time, so only the trajectory's time remains
    assert index.recall(when="April 2023").ids == ["m2", "m0"]
    index.observe(Trajectory(ids=["m0", "m1"], timestamps=[1.0, 2.0]))  # plain numbers are no time of a memory
    assert index.recall(when="1970").ids == []


def test_a_memory_that_is_replaced_or_deleted_loses_its_time(anywhere):
    index = world(anywhere)
    index.add(VECTORS[18:19], ["m18"], ["other"])
    index.delete("m19")
    assert index.recall(when="July 2023").ids == ["m20"]


@pytest.mark.parametrize(
    "time",
    [
        datetime.max,
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_a_date_at_the_end_of_the_calendar_can_be_read_again(anywhere, time):
    index = anywhere(dim=DIM)
    index.add(VECTORS[:2], IDS[:2], TEXTS[:2], timestamps=[time, DAYS[1]])
    end = datetime.max if time.year > 1 else datetime.min
    assert [record.time for record in index.find()] == [end.replace(tzinfo=UTC), DAYS[1]]
    assert set(index.recall(QUESTION, text="topic 1 in January 2023", explain=True).ids) == {"m0", "m1"}


def test_an_aware_time_keeps_its_offset_for_what_was_said(anywhere):
    east = timezone(timedelta(hours=10))
    index = anywhere(dim=DIM)
    index.add(VECTORS[:1], ["a"], ["I fell yesterday"], timestamps=[datetime(2023, 7, 12, 3, tzinfo=east)])
    (hit,) = index.recall(when=(date(2023, 7, 11), date(2023, 7, 11)), explain=True)
    (named,) = hit.times
    assert (named.start, named.end) == (datetime(2023, 7, 10, 14, tzinfo=UTC), datetime(2023, 7, 11, 14, tzinfo=UTC))


def test_the_date_of_a_step_that_is_appended_is_that_of_its_memory(anywhere):
    index = anywhere(dim=DIM)
    east = timezone(timedelta(hours=10))
    index.append("s", VECTORS[0], text="I fell yesterday", id="a", timestamp=datetime(2023, 7, 12, 3, tzinfo=east))
    index.append("s", VECTORS[1], text="and today?", id="b")
    index.add(VECTORS[2:3], ["c"])
    index.append("s", id="c", timestamp=date(2023, 8, 1))
    with pytest.raises(InvalidInput, match="numbers"):
        index.append("t", VECTORS[3], id="d", timestamp=5.0)
    assert index.recall(when=("1970", None)).ids == ["c", "a"]
    (named,) = index.recall(when="July 2023", explain=True)[0].times
    assert named.start == datetime(2023, 7, 10, 14, tzinfo=UTC)
    index.update("a", text="I fell the day before yesterday")
    assert index.recall(when="July 2023").ids == ["a"]
    index.append("s", VECTORS[0], id="a")
    assert index.recall(when="July 2023").ids == ["a"]  # the date of its first step
    index.delete_trajectory("s")
    with pytest.raises(InvalidInput, match="have no times"):
        index.recall(when="July 2023")


# ---- questions


def test_a_period_in_a_question_raises_the_memories_of_then(anywhere):
    index = world(anywhere)
    plain = index.recall(QUESTION, k=10, text="what did we talk about?", now=NOW)
    dated = index.recall(QUESTION, k=10, text="what did we talk about in July 2023?", now=NOW)
    assert all(of_month(dated[:3], 7))
    assert sum(of_month(plain[:3], 7)) < 3
    assert len(dated) == 10  # the time raises scores, but excludes no memory
    last = index.recall(QUESTION, k=3, text="what did we talk about last month?", now=date(2023, 10, 1))
    assert all(of_month(last, 9))


def test_a_month_that_half_of_a_few_notes_have_counts_still():
    index = PredictiveAssociativeIndex(dim=DIM)
    days = [datetime(2023, month, day) for month, day in ((3, 1), (5, 2), (4, 20), (5, 28), (8, 1), (5, 9))]
    index.add(VECTORS[:6], IDS[:6], TEXTS[:6], timestamps=days)
    hits = index.recall(VECTORS[0], k=3, text="what was there in May 2023?", now=NOW)
    assert set(hits.ids) == {IDS[1], IDS[3], IDS[5]}


def test_a_time_in_a_text_counts_as_its_time(anywhere):
    index = world(anywhere)
    asked = {"k": 4, "now": NOW, "explain": True}
    hits = index.recall(QUESTION, text="what did we do in March 2023?", **asked)
    assert set(hits.ids) == {"m6", "m7", "m8", "m13"}
    lines = {hit.id: [str(time) for time in hit.times] for hit in hits}
    assert lines["m6"] == ['"March 2023" -> 2023-03-01 to 2023-03-31, said on 2023-03-05']
    assert lines["m13"] == [
        '"March 2023" -> 2023-03-01 to 2023-03-31, said on 2023-05-15',
        '"March" -> 2023-03-01 to 2023-03-31, said on 2023-05-15',
    ]
    assert [time.source for time in hits[hits.ids.index("m13")].times] == ["question", "text"]
    assert lines["m6"][0] in repr(hits[hits.ids.index("m6")])
    assert json.loads(json.dumps(hits.to_dicts()))
    assert all(hit.times is None for hit in index.recall(QUESTION, text="what did we do in March 2023?"))


def test_a_question_without_a_time_and_an_index_without_dates_are_as_ever():
    timed, plain = world(), PredictiveAssociativeIndex(dim=DIM)
    plain.add(VECTORS, IDS, TEXTS)
    for text in ("what did we talk about?", "topic 7", "may I march?"):
        assert timed.recall(QUESTION, text=text, k=N) == plain.recall(QUESTION, text=text, k=N)
    base = plain.recall(QUESTION, text="what did we talk about in July 2023?", k=N)
    before = {hit.id: hit.score for hit in base}
    raised = timed.recall(QUESTION, text="what did we talk about in July 2023?", k=N, now=NOW)
    assert {hit.id for hit in raised if hit.score > before[hit.id]} >= {"m18", "m19", "m20"}


def test_the_bonus_is_that_of_the_scores_that_were_measured():
    """A time in a question adds to each score the bonus that the measured formula gives."""
    timed, plain = world(), PredictiveAssociativeIndex(dim=DIM)
    plain.add(VECTORS, IDS, TEXTS)
    question = "what did we talk about in March 2023?"
    start, end = datetime(2023, 3, 1, tzinfo=UTC), datetime(2023, 4, 1, tzinfo=UTC)
    times = np.array([day.timestamp() for day in DAYS])
    named = Named.of([read_text(text, day) for text, day in zip(TEXTS, DAYS, strict=True)])
    expected = TIME * time_scores([Period(start, end, "", (0, 0), "month")], times, named)
    before = {hit.id: hit.score for hit in plain.recall(QUESTION, text=question, k=N)}
    after = {hit.id: hit.score for hit in timed.recall(QUESTION, text=question, k=N, now=NOW)}
    gain = np.array([after[id] - before[id] for id in IDS])
    np.testing.assert_allclose(gain, expected, atol=1e-6)


def test_memories_of_the_period_enter_the_pool_however_far_they_are():
    random = np.random.default_rng(1)
    near = VECTORS[0] + 0.1 * random.normal(size=(400, DIM))
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(near, [f"n{n}" for n in range(400)], ["same words"] * 400, timestamps=[DAYS[0]] * 400)
    index.add(-VECTORS[:1], ["far"], ["nothing alike"], timestamps=[DAYS[20]])
    text = "same words in July 2023?"
    assert "far" not in index.recall(VECTORS[0], text="same words?", k=100).ids
    assert "far" in index.recall(VECTORS[0], text=text, k=405, now=NOW).ids
    assert "far" not in index.recall(VECTORS[0], text=text, k=405, now=NOW, when="January 2023").ids


def test_a_time_is_shown_in_the_zone_of_the_question_or_of_the_memory():
    """In New York the day before 19 May is 18 May, not 04:00 of one day in UTC until 04:00 of the next."""
    west, east = timezone(timedelta(hours=-4)), timezone(timedelta(hours=9))
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1, 0]], ["a"], ["We went sailing yesterday"], timestamps=[datetime(2026, 5, 18, 23, 30, tzinfo=west)])
    asked = index.recall([1, 0], text="what was today?", now=datetime(2026, 5, 19, 22, tzinfo=east), explain=True)[0]
    assert [str(time) for time in asked.times] == [
        '"today" -> 2026-05-19, said on 2026-05-18',
        '"yesterday" -> 2026-05-17, said on 2026-05-18',
    ]
    assert [time.start for time in asked.times] == [
        datetime(2026, 5, 18, 15, tzinfo=UTC),
        datetime(2026, 5, 17, 4, tzinfo=UTC),
    ]
    listed = index.recall(when="18 May 2026", now=datetime(2026, 5, 19, tzinfo=west), explain=True)[0]
    assert [time.meaning for time in listed.times] == ["2026-05-17"]
    index.add([[1, 0]], ["a"], timestamps=[date(50, 1, 1)])
    first = index.recall([1, 0], text="in the first century?", now=datetime(2026, 5, 19, tzinfo=west), explain=True)[0]
    assert [time.meaning.split()[0] for time in first.times] == ["until"]


def test_an_event_in_a_question_gives_the_time():
    """An event of a memory ("before we moved") limits the time of a question like a date."""
    index = world()
    index.add(
        VECTORS[5:6],
        ["move"],
        ["today we moved into the house by the canal"],
        timestamps=[datetime(2023, 7, 20, tzinfo=UTC)],
    )
    plain = index.recall(QUESTION, k=N, text="what did we talk about?", now=NOW)
    for word, month in (("before", 7), ("after", 8)):
        text = f"what did we talk about {word} we moved into the house?"
        hits = index.recall(QUESTION, k=N, text=text, now=NOW, explain=True)
        there = [id for id in hits.ids if id != "move" and of_month([hits[hits.ids.index(id)]], month)[0]]
        assert sum(map(hits.ids.index, there)) < sum(map(plain.ids.index, there))
        assert f'"{word} we moved into the house" -> 2023-0' in str(hits[hits.ids.index(there[0])].times[0])
    # no memory describes such an event
    for text in ("before the flood came", "what came after that?", "after all, what did we say?"):
        heard = index.recall(QUESTION, k=N, text=text, now=NOW, explain=True)
        assert not any(time.source == "question" for hit in heard for time in hit.times)


def test_an_event_that_a_filter_hides_gives_no_time():
    index = world()
    index.add(
        VECTORS[5:6],
        ["move"],
        ["we moved to the canal"],
        [{"secret": 1}],
        timestamps=[datetime(2023, 7, 20, tzinfo=UTC)],
    )
    asked = {"text": "what did we say before we moved to the canal?", "k": N, "now": NOW, "explain": True}
    hits = index.recall(QUESTION, where={"secret": {"$exists": False}}, **asked)
    assert not any(time.source == "question" for hit in hits for time in hit.times)
    assert any(time.source == "question" for hit in index.recall(QUESTION, **asked) for time in hit.times)


def test_times_count_beside_feedback_and_undated_questions_change_nothing():
    timed, plain = world(), PredictiveAssociativeIndex(dim=DIM)
    plain.add(VECTORS, IDS, TEXTS)
    for index in (timed, plain):
        index.feedback(VECTORS[:4], [["m1"], ["m2"], ["m3"], ["m4"]], text=["topic 1", "topic 2", "topic 3", "topic 4"])
    for text in ("what did we talk about?", "topic 7"):
        assert timed.recall(QUESTION, text=text, k=N) == plain.recall(QUESTION, text=text, k=N)
    asked = {"text": "what did we talk about in July 2023?", "k": N, "now": NOW, "explain": True}
    hits = timed.recall(QUESTION, **asked)
    positions = [
        [at for at, hit in enumerate(found) if of_month([hit], 7)[0]]
        for found in (hits, timed.recall(QUESTION, **asked, without=["times"]))
    ]
    assert sum(positions[0]) < sum(positions[1])
    july = hits[positions[0][0]]
    assert july.sources["times"] > 0
    assert str(july.times[0]).startswith('"July 2023" -> 2023-07-01 to 2023-07-31')


def test_fit_learns_from_feedback_what_a_time_is_worth():
    """``fit`` gives times more weight if the answers are in the requested month than if they never are."""
    months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
    random, weights = np.random.default_rng(3), []
    for there in (True, False):
        index = world()
        questions, used = [], []
        for at in range(90):
            month = int(random.integers(10))
            inside = [id for id, day in zip(IDS, DAYS, strict=True) if day.month == month + 1]
            outside = [id for id in IDS if id not in inside]
            questions.append(f"what did we talk about in {months[month]} 2023 {at}?")
            used.append([str(random.choice(inside if there else outside))])
        index.feedback(random.normal(size=(90, DIM)), used, text=questions)
        index.fit(progress=False)
        stored = index._store.database.settings.get("mixture")
        weights.append(stored["weights"]["question"][stored["features"].index("times")])
    assert weights[0] > 2 * max(weights[1], 0.05)


def test_a_batch_is_as_one_by_one():
    index = world()
    texts = ["what in July 2023?", "what?", "what happened last month?"]
    asked = np.stack([QUESTION, VECTORS[3], QUESTION])
    batch = index.recall(asked, text=texts, k=5, now=NOW)
    assert batch == [index.recall(one, text=text, k=5, now=NOW) for one, text in zip(asked, texts, strict=True)]


def test_later_changes_count(anywhere):
    """Memories that are replaced, added or deleted change the times that recall uses."""
    index = world(anywhere)
    ask = {"text": "what did we do in March 2023?", "k": N + 1, "now": NOW, "explain": True}

    def found_ids():
        return {hit.id for hit in index.recall(QUESTION, **ask) if hit.times}

    assert "m13" in found_ids()
    index.add(VECTORS[13:14], ["m13"], ["we stayed at home"], timestamps=[DAYS[13]])
    assert "m13" not in found_ids()
    index.add(VECTORS[:1], ["new"], ["we moved in March"], timestamps=[DAYS[25]])
    assert "new" in found_ids()
    index.delete("new")
    fresh = PredictiveAssociativeIndex(dim=DIM)
    texts = [*TEXTS[:13], "we stayed at home", *TEXTS[14:]]
    fresh.add(VECTORS, IDS, texts, timestamps=DAYS)
    assert index.recall(QUESTION, **ask).ids == fresh.recall(QUESTION, **ask).ids


def test_only_texts_that_changed_are_read_again(anywhere, monkeypatch):
    from pam_retriever.timewords import reader

    read = []
    monkeypatch.setattr(reader, "read_text", lambda text, at: read.append(text) or read_text(text, at))
    index = world(anywhere)
    assert read == []  # ``add`` does not search texts for times
    ask = {"text": "what did we do in March 2023?", "now": NOW}
    index.recall(QUESTION, text="what did we do?")
    assert read == []
    first = index.recall(QUESTION, **ask)
    assert sorted(read) == sorted(TEXTS)
    read.clear()
    assert index.recall(QUESTION, **ask) == first
    index.add(VECTORS[:2], ["x", "m5"], ["new in May", "changed"], timestamps=[DAYS[3], DAYS[5]])
    index.recall(QUESTION, **ask)
    assert sorted(read) == ["changed", "new in May"]


# ---- now, and arguments


def test_now_is_a_date_for_words_and_for_decay():
    index = world()
    index.observe(Trajectory(ids=IDS, timestamps=DAYS))
    seconds = index.recall(QUESTION, mode="similarity", decay=86400.0 * 30, now=NOW.timestamp())
    assert index.recall(QUESTION, mode="similarity", decay=86400.0 * 30, now=NOW) == seconds
    with pytest.raises(InvalidInput, match="without decay"):
        index.recall(QUESTION, mode="similarity", now=NOW)
    with pytest.raises(InvalidInput, match="without decay"):
        index.recall(QUESTION, text="what last month?", now=5.0)
    with pytest.raises(InvalidInput, match="timestamp"):
        index.recall(QUESTION, text="what last month?", now="today")
    with pytest.raises(InvalidInput, match=r"now=5\.0 beside when="):
        index.recall(when="last month", now=5.0)


def test_bad_arguments_of_when():
    index = world()
    for given, said in (("soup", "names no time"), (5, "int"), ((3, 4), "int"), ((None, None), "start or an end")):
        with pytest.raises(InvalidInput, match=said):
            index.recall(when=given)
    for options in ({"mode": "hybrid"}, {"decay": 3.0}, {"min_score": 0.1}, {"hops": 2}, {"faithful": True}):
        with pytest.raises(InvalidInput, match="without a query"):
            index.recall(when="July 2023", **options)
    empty = PredictiveAssociativeIndex(dim=DIM)
    assert empty.recall(when="July 2023").ids == []
    with pytest.raises(InvalidInput, match=r"\$unknown"):
        empty.recall(when="July 2023", where={"kind": {"$unknown": 1}})
    empty.add(VECTORS[:1])
    with pytest.raises(InvalidInput, match="no times"):
        empty.recall(when="July 2023")


def test_without_the_extra_a_question_is_answered_and_when_is_refused(monkeypatch, caplog):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] in {"dateparser", "dateutil"}:
            raise ImportError(name)
        return real(name, *rest)

    index, plain = world(), PredictiveAssociativeIndex(dim=DIM)
    plain.add(VECTORS, IDS, TEXTS)
    for cached in (dates._parser, dates.figures, dates.easter_sunday):
        cached.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    asked = {"text": "what was on 5-Jul-2023?", "now": NOW}
    for _ in range(2):
        assert index.recall(QUESTION, **asked).ids == plain.recall(QUESTION, text=asked["text"]).ids
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # only one warning
    with pytest.raises(MissingExtra):
        index.recall(when="5-Jul-2023")


def test_memories_that_a_filter_leaves_out_do_not_count(anywhere):
    index, alone = anywhere(dim=DIM), PredictiveAssociativeIndex(dim=DIM)
    mine = [{"user": "ann"}] * N
    index.add(VECTORS, IDS, TEXTS, mine, timestamps=DAYS)
    alone.add(VECTORS, IDS, TEXTS, mine, timestamps=DAYS)
    others = [{"user": "bob"}] * N
    index.add(VECTORS, [f"b{n}" for n in range(N)], ["in July"] * N, others, timestamps=[DAYS[20]] * N)
    ask = {
        "text": "what did we talk about in July 2023?",
        "k": 5,
        "now": NOW,
        "where": {"user": "ann"},
        "explain": True,
    }
    found, expected = index.recall(QUESTION, **ask), alone.recall(QUESTION, **ask)
    assert [hit.times for hit in found] == [hit.times for hit in expected]
    assert all(of_month(found[:3], 7))


def test_the_command_line_takes_when(tmp_path, capsys):
    from pam_retriever.apps.cli import main

    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=DIM) as index:
        index.add(VECTORS, IDS, TEXTS, timestamps=DAYS)
    assert main(["recall", str(tmp_path / "i"), "--when", "March 2023", "--json"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["m8", "m7", "m6"]
    options = ["--id", "m0", "--mode", "similarity", "--when", "May 2023"]
    assert main(["recall", str(tmp_path / "i"), *options]) == 0
    printed = capsys.readouterr().out
    assert '"March" -> 2023-03-01 to 2023-03-31, said on 2023-05-15' in printed
    assert main(["recall", str(tmp_path / "i"), "--when", "soup"]) == 2


@pytest.fixture
def far_from_utc(monkeypatch):
    """Sets a zone of this machine whose date is not that of UTC now."""
    ahead = datetime.now(UTC).hour >= 11
    monkeypatch.setenv("TZ", "AHEAD-14" if ahead else "BEHIND12")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_person_at_this_machine_means_its_days(tmp_path, capsys, far_from_utc):
    """At a command line and in the memory of an agent, "yesterday" is the day of the user, not that of UTC."""
    from pam_retriever.apps.cli import main
    from pam_retriever.apps.mcp.tools import Tools

    yesterday = datetime.now().astimezone() - timedelta(days=1)
    hours = [yesterday.replace(hour=hour) for hour in (2, 20)]
    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=DIM) as index:
        index.add(VECTORS[:2], ["a", "b"], ["we ran", "we swam"], timestamps=hours)
    assert main(["recall", str(tmp_path / "i"), "--when", "yesterday", "--json"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["b", "a"]
    assert main(["recall", str(tmp_path / "i"), "--id", "a", "--mode", "similarity", "--when", "yesterday"]) == 0
    assert "we swam" in capsys.readouterr().out

    memories = PredictiveAssociativeIndex(dim=8, embedder=lambda texts: np.ones((len(texts), 8), np.float32))
    memories.add(texts=["we ran", "we swam"], timestamps=hours)
    tools = Tools(SimpleNamespace(reader=lambda: memories))
    assert len(tools.recall("What did we do?", when="yesterday").memories) == 2


# ---- kinds of storage


def test_times_are_there_when_it_is_opened_again(tmp_path):
    ask = {"text": "what did we do in March 2023?", "now": NOW, "explain": True}
    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=DIM) as index:
        index.add(VECTORS, IDS, TEXTS, timestamps=DAYS)
        index.observe(Trajectory(ids=IDS[:3], timestamps=DAYS[:3]))
        expected, listed = index.recall(QUESTION, **ask), index.recall(when="July 2023")
        with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True) as reader:
            assert reader.recall(QUESTION, **ask) == expected
            assert reader.recall(when="July 2023") == listed
            with pytest.raises(ReadOnlyIndex):
                reader.add(VECTORS[:1], timestamps=DAYS[:1])
        index.save(tmp_path / "copy")
    for path in ("i", "copy"):
        with PredictiveAssociativeIndex.open(tmp_path / path) as index:
            assert index.recall(QUESTION, **ask) == expected
        assert PredictiveAssociativeIndex.load(tmp_path / path).recall(when="July 2023") == listed


def test_a_folder_of_format_1_takes_times(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "old")
    with PredictiveAssociativeIndex.open(tmp_path / "old", read_only=True) as reader:
        before = reader.recall("m0", k=3)
        with pytest.raises(InvalidInput, match="no times"):
            reader.recall(when="July 2023")
    with PredictiveAssociativeIndex.open(tmp_path / "old") as index:
        assert index.recall("m0", k=3) == before
        index.add(index.get(["m0"])[0].vector[None], ["new"], ["a text"], timestamps=[date(2023, 7, 1)])
    with PredictiveAssociativeIndex.open(tmp_path / "old") as index:
        assert index.recall(when="July 2023").ids == ["new"]


def test_repair_saves_times(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=DIM) as index:
        index.add(VECTORS, IDS, TEXTS, timestamps=DAYS)
    (database,) = (tmp_path / "i").glob("memories-*.sqlite")
    connection = sqlite3.connect(database)
    words.set_up(connection)
    connection.execute("UPDATE memories SET text = 'damaged' WHERE id = 'm19'")
    connection.commit()
    connection.close()
    assert repair(tmp_path / "i")
    with PredictiveAssociativeIndex.open(tmp_path / "i") as index:
        assert index.recall(when="July 2023").ids == ["m20", "m18"]


def test_update_changes_a_time_and_the_times_in_its_text(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=8) as index:
        days = [date(2023, 5, 8), date(2023, 6, 8), date(2023, 7, 8)]
        index.add(vectors, ["a", "b", "c"], ["we met yesterday", "x", "y"], timestamps=days)
        index.recall(vectors[0], text="What did we do in May 2023?", k=3)
        index.update("a", timestamp=date(2021, 2, 3))
        assert index.recall(when="May 2023").ids == []
        (hit,) = index.recall(when="2021", explain=True)
        assert [time.meaning for time in hit.times] == ["2021-02-02"]
        index.update("a", text="we met")  # keeps the time
        assert index.recall(when="2021").ids == ["a"]
        index.update("a", timestamp=None)
        assert index.recall(when="2021").ids == []
        with pytest.raises(InvalidInput, match="numbers"):
            index.update("a", timestamp=3.5)
    assert PredictiveAssociativeIndex.load(tmp_path / "index").recall(when="2023").ids == ["c", "b"]


def test_the_mcp_tool_filters_by_words_of_time():
    from pam_retriever.apps.mcp.tools import Tools

    class Folder:
        def reader(self):
            return index

    index = PredictiveAssociativeIndex(dim=8, embedder=lambda texts: np.ones((len(texts), 8), np.float32))
    days = [date(2023, 5, 8), date(2023, 7, 8)]
    index.add(texts=["we met in town", "we met at sea"], timestamps=days, ids=["a", "b"])
    found = Tools(Folder()).recall("Where did we meet?", when="July 2023")
    assert [memory.id for memory in found.memories] == ["b"]


def test_update_changes_a_time_in_memory_and_in_engines(anywhere):
    index = anywhere(8)
    index.add(
        np.eye(3, 8), ["a", "b", "c"], ["we met", "x", "y"], timestamps=[date(2023, 5, 8), date(2023, 6, 8), None]
    )
    index.update("a", timestamp=date(2021, 2, 3))
    assert index.recall(when="May 2023").ids == []
    assert index.recall(when="2021").ids == ["a"]
    index.update("a", timestamp=None)
    assert index.recall(when="2021").ids == []
    assert index.recall(when="2023").ids == ["b"]
