"""The times found in texts agree with two lists that were written before the code; hostile texts do no harm."""

import builtins
import json
import math
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.timewords import dates
from pam_retriever.timewords.grammar import RULES
from pam_retriever.timewords.lexicon import LANGUAGES, words
from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Period
from pam_retriever.timewords.reader import MAX_PERIODS, read_question, read_text
from pam_retriever.timewords.scores import TextPeriods, TimePrior, time_scores
from pam_retriever.timewords.when import read_when

DATA = Path(__file__).parent / "data"
UTC = timezone.utc
FRIDAY = datetime(2024, 3, 15, 10, 0)


def lines(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def expected(row):
    def instant(text, without):
        return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else without

    return [(instant(start, OPEN_START), instant(end, OPEN_END)) for start, end in row["periods"]]


def asked(row):
    now = datetime.fromisoformat(row["now"])
    return now.replace(tzinfo=ZoneInfo(row["zone"])) if "zone" in row else now


def spans(text, now=FRIDAY, **options):
    return [(period.start, period.end) for period in read_question(text, now, **options)]


def day(year, month, number, days=1):
    start = datetime(year, month, number, tzinfo=UTC)
    return start, start + timedelta(days=days)


@given(st.text("".join(sorted({*"ABCDEFGHKLMNOPQRSTUVWXY#,abcdefghinoprstuvwxy"})), max_size=12))
def test_a_rule_matches_nothing_without_its_code(codes):
    for pattern, code, _ in RULES:
        found = [match.group() for match in pattern.finditer(codes) if match.group()]
        assert all(code in one for one in found)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_row_of_words_of_time_raises(data):
    language = data.draw(st.sampled_from(LANGUAGES))
    single, phrases = words(language)
    known = [*single, *(" ".join(parts) for found in phrases.values() for parts, _ in found)]
    figures = ["2023", "31", "3rd", "'08", "1990s", "24.12.", "12:30", ",", ".", "KW", "九点", "Q3"]
    drawn = data.draw(st.lists(st.sampled_from(known + figures), min_size=1, max_size=7))
    read_question(("" if language == "zh" else " ").join(drawn), FRIDAY, language=language)


def test_a_noun_of_time_at_the_end_does_no_harm():
    for text in ("Was it sunny at the July start", "What about 2023 beginning", "see you at the May end"):
        read_question(text, FRIDAY)


def test_the_lists_have_the_stated_lengths():
    expressions, traps = lines("time_expressions.jsonl"), lines("time_traps.jsonl")
    assert len(expressions) >= 300
    assert len(traps) >= 300
    for rows in (expressions, traps):
        assert {row["language"] for row in rows} == set(LANGUAGES)
        first = [row for row in rows if row.get("list", 1) == 1]  # the others came later, and were mended as a whole
        assert 0.2 < sum(row["held_out"] for row in first) / len(first) < 0.3


@pytest.mark.parametrize("held_out", [False, True])
def test_95_percent_of_expressions_are_parsed_correctly(held_out):
    rows = [row for row in lines("time_expressions.jsonl") if row["held_out"] == held_out and row.get("list", 1) < 4]
    wrong = [
        row["text"]
        for row in rows
        if [(period.start, period.end) for period in read_question(row["text"], asked(row))] != expected(row)
    ]
    assert len(wrong) <= 0.05 * len(rows), wrong


@pytest.mark.parametrize("held_out", [False, True])
def test_2_percent_of_traps_are_parsed_as_times(held_out):
    rows = [row for row in lines("time_traps.jsonl") if row["held_out"] == held_out and row.get("list", 1) < 4]
    taken = [row["text"] for row in rows if read_question(row["text"], FRIDAY)]
    assert len(taken) <= 0.02 * len(rows), taken


def test_a_period_has_its_position():
    text = "Tell me, what did we decide last week, and what in July 2022?"
    first, second = read_question(text, FRIDAY)
    assert (first.expression, first.kind) == ("last week", "week")
    assert (second.expression, second.kind) == ("July 2022", "month")
    for period in (first, second):
        assert text[slice(*period.span)] == period.expression


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("What happened in July 2023?", '"July 2023" -> 2023-07-01 to 2023-07-31'),
        ("What happened yesterday?", '"yesterday" -> 2024-03-14'),
        ("What happened yesterday at 3 pm?", '"yesterday at 3 pm" -> 2024-03-14 15:00 to 2024-03-14 16:00'),
        ("What happened before July 2023?", '"before July 2023" -> until 2023-06-30'),
        ("What happened after July 2023?", '"after July 2023" -> from 2023-08-01'),
    ],
)
def test_a_period_is_shown_with_its_days(question, shown):
    assert [str(period) for period in read_question(question, FRIDAY)] == [shown]


def test_times_in_a_text_are_relative_to_its_timestamp():
    said = datetime(2023, 5, 8, 13, 56)
    (camping,) = read_text("We went camping last weekend!", said)
    assert (camping.start, camping.end) == day(2023, 5, 6, 2)


def test_each_sentence_of_a_text_looks_ahead_for_itself():
    """The tense of each sentence decides whether its month is in the past or in the future."""
    past, future = read_text("We met in June. We will meet in July.", FRIDAY)
    assert (past.start.year, future.start.year) == (2023, 2024)


def test_days_are_those_of_the_zone_of_now():
    tokyo = ZoneInfo("Asia/Tokyo")
    (period,) = read_question("What happened yesterday?", datetime(2024, 3, 15, 1, tzinfo=tokyo))
    assert period.start == datetime(2024, 3, 14, tzinfo=tokyo)
    assert period.start == datetime(2024, 3, 13, 15, tzinfo=UTC)


@pytest.mark.parametrize(("on", "hours"), [("31 March 2024", 23), ("27 October 2024", 25), ("1 June 2024", 24)])
def test_a_day_on_which_the_clocks_are_changed_has_23_or_25_hours(on, hours):
    (period,) = read_question(f"What happened on {on}?", datetime(2024, 11, 1, tzinfo=ZoneInfo("Europe/Berlin")))
    assert period.end - period.start == timedelta(hours=hours)


def test_29_february():
    assert spans("What happened on 29 February?") == [day(2024, 2, 29)]
    assert spans("What happened on 29 February?", datetime(2024, 2, 28)) == [day(2020, 2, 29)]
    assert spans("What happened on 29 February 2023?") == []
    assert spans("What happened a year ago?", datetime(2024, 2, 29)) == [day(2023, 1, 1, 365)]


@pytest.mark.parametrize("text", ["at 2016-12-31T23:59:60Z", "at 23:59:60 on 2016-12-31"])
def test_a_leap_second_is_the_minute_before(text):
    assert spans(text) == [(datetime(2016, 12, 31, 23, 59, tzinfo=UTC), datetime(2017, 1, 1, tzinfo=UTC))]


def test_a_zone_that_does_not_exist_is_left_out():
    minute = timedelta(minutes=1)
    here = datetime(2023, 5, 5, 15, 30, tzinfo=UTC)
    assert spans("at 2023-05-05 15:30 XYZ") == [(here, here + minute)]
    assert spans("at 2023-05-05 15:30 UTC") == [(here, here + minute)]
    assert spans("at 2023-05-05T15:30+02:00") == [(here - timedelta(hours=2), here - timedelta(hours=2) + minute)]


@pytest.mark.parametrize("zone", ["Z", " UTC", "+00:00"])
def test_an_open_range_begins_at_an_instant_with_its_zone(zone):
    start = datetime(2024, 3, 5, 22, tzinfo=timezone.utc)
    assert spans(f"logs since 2024-03-05T22:00{zone}")[0][0] == start
    both = spans(f"logs from 2024-03-05T22:00{zone} to yesterday")
    assert both[0][0] == start


@pytest.mark.parametrize(
    "text",
    [
        "in the year 10^12",
        "in the year 1000000000000",
        "10000000 weeks ago",
        "5000 years ago",
        "on 2023-02-30",
        "on 99/99/9999",
        "the 99th of May",
        "",
        "\x00",
    ],
)
def test_texts_without_a_time_give_none(text):
    assert read_question(text, FRIDAY) == []


@pytest.mark.parametrize(
    "piece", ["2023-05-05 ", "last week ", "in ", "9", "-", "1:", "mid-", "三", "the 5th of ", "'s ", "March and "]
)
def test_ten_megabytes_are_read_in_part(piece):
    """Of a very long text only a limited number of times is read."""
    text = piece * (10_000_000 // len(piece))
    assert len(read_text(text, FRIDAY)) <= MAX_PERIODS


def vocabulary(language):
    single, phrases = words(language)
    joined = [" ".join(parts) for found in phrases.values() for parts, _ in found]
    figures = ["5", "31", "0", "2023", "2999", "99", "5th", "2023-05-05", "31.02.2023", "3 pm", "25:61", "Q3", "1990s"]
    return [*single, *joined, *figures, ",", ".", "-", "Ann", "house", "9999"]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_words_of_time_give_periods_or_none(data):
    language = data.draw(st.sampled_from(LANGUAGES))
    parts = data.draw(st.lists(st.sampled_from(vocabulary(language)), max_size=8))
    text = ("" if language == "zh" else " ").join(parts)
    now = data.draw(st.datetimes())
    for period in [*read_question(text, now, language=language), *read_text(text, now, language=language)]:
        assert period.start < period.end
        assert text[slice(*period.span)] == period.expression != ""
        assert period.start.tzinfo is UTC
        assert period.end.tzinfo is UTC


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.datetimes(timezones=st.one_of(st.none(), st.timezones())))
def test_any_text_gives_periods_or_none(text, now):
    for period in read_text(text, now):
        assert text[slice(*period.span)] == period.expression


@settings(max_examples=100, deadline=None)
@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y"]))
def test_any_date_is_its_day(when, form):
    assert spans(f"What happened on {when.strftime(form)}?") == [day(when.year, when.month, when.day)]


@settings(max_examples=100, deadline=None)
@given(st.datetimes(datetime(1900, 1, 1), datetime(2099, 1, 1)), st.integers(1, 60))
def test_days_ago_are_counted_from_now(now, count):
    then = now - timedelta(days=count)
    plural = "day" if count == 1 else "days"
    assert spans(f"What did we do {count} {plural} ago?", now) == [day(then.year, then.month, then.day)]


@settings(max_examples=100, deadline=None)
@given(st.datetimes(datetime(1900, 1, 1), datetime(2099, 1, 1)))
def test_weeks_follow_one_another(now):
    last, this, following = (spans(f"what about {which} week", now)[0] for which in ("last", "this", "next"))
    assert last[1] == this[0] <= now.replace(tzinfo=UTC) < this[1] == following[0]


def test_an_unknown_language_is_refused():
    with pytest.raises(InvalidInput, match="language='xx'"):
        read_question("last week", FRIDAY, language="xx")


def test_without_the_extra_a_date_in_figures_names_it(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dateparser"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for cache in (dates.figures, dates._parser):
        cache.cache_clear()
    with pytest.raises(MissingExtra, match=r"pam-retriever\[times\]"):
        read_question("What happened on 5-May-2023?", FRIDAY)
    assert read_question("What happened on 2023-05-05?", FRIDAY)


def test_the_parser_is_imported_when_it_is_needed():
    code = (
        "import sys; from pam_retriever.timewords.reader import read_question; read_question('Who is Ann?');"
        "sys.exit('dateparser' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestWhen:
    def test_words(self):
        assert read_when("last week", FRIDAY) == day(2024, 3, 4, 7)
        assert read_when("2022", FRIDAY) == day(2022, 1, 1, 365)
        assert read_when("July", FRIDAY) == day(2023, 7, 1, 31)
        assert read_when("Juli 2022", FRIDAY) == day(2022, 7, 1, 31)

    def test_a_date_is_its_day_and_a_datetime_its_second(self):
        assert read_when(date(2023, 7, 1), FRIDAY) == day(2023, 7, 1)
        at = datetime(2023, 7, 1, 12, 30, 5, tzinfo=UTC)
        assert read_when(at.replace(microsecond=7), FRIDAY) == (at, at + timedelta(seconds=1))

    def test_a_date_at_the_end_is_included(self):
        assert read_when((date(2023, 7, 1), date(2023, 7, 31)), FRIDAY) == day(2023, 7, 1, 31)
        assert read_when((date(2023, 7, 1), datetime(2023, 7, 31)), FRIDAY) == day(2023, 7, 1, 30)

    def test_open_ends(self):
        assert read_when((None, "yesterday"), FRIDAY) == (OPEN_START, day(2024, 3, 14)[1])
        assert read_when(("2023-05-05", None), FRIDAY) == (day(2023, 5, 5)[0], OPEN_END)

    def test_a_naive_date_is_in_the_zone_of_now(self):
        berlin = ZoneInfo("Europe/Berlin")
        start, _ = read_when(date(2023, 7, 1), datetime(2024, 1, 1, tzinfo=berlin))
        assert start == datetime(2023, 6, 30, 22, tzinfo=UTC)

    @pytest.mark.parametrize("edge", [date.min, date.max, datetime.min, datetime.max])
    def test_the_ends_of_the_calendar(self, edge):
        start, end = read_when(edge, FRIDAY)
        assert start < end

    @pytest.mark.parametrize(
        ("value", "says"),
        [
            ("banana", "names no time"),
            ("", "names no time"),
            ("in March and May", "several times"),
            (5, "a int"),
            (None, "NoneType"),
            ((1, 2, 3), "3 values"),
            ((None, None), "a start or an end"),
            (("May 2023", "May 2022"), "before the end"),
            ((date(2023, 7, 1), 5), "a int"),
        ],
    )
    def test_invalid_arguments_are_refused(self, value, says):
        with pytest.raises(InvalidInput, match=says):
            read_when(value, FRIDAY)


def seconds(*when):
    return datetime(*when, tzinfo=UTC).timestamp()


def period(start, end):
    return Period(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC), "", (0, 0), "range")


class TestScores:
    july = period(datetime(2023, 7, 1), datetime(2023, 8, 1))

    def test_inside_is_above_near_is_above_far(self):
        near = [seconds(2023, 8, 2), seconds(2023, 8, 20), seconds(2023, 6, 29), seconds(2023, 6, 11)]
        times = np.array([seconds(2023, 7, 5), *near, np.nan, *[seconds(2022, 1, 1)] * 94])
        scores = time_scores([self.july], times)
        assert scores[0] > scores[1] > scores[2] > 0
        assert scores[0] > scores[3] > scores[4] > 0
        assert not scores[5:].any()

    def test_a_text_that_names_the_period_counts(self):
        times = np.full(50, seconds(2024, 1, 1))
        texts = TextPeriods.of([[], [self.july], [period(datetime(2023, 1, 1), datetime(2024, 1, 1))], *[[]] * 47])
        scores = time_scores([self.july], times, texts, TimePrior(beside=0))
        assert scores[1] > scores[2] > 0
        assert scores[0] == 0
        assert scores[2] / scores[1] == pytest.approx(31 / 365)

    def test_it_counts_less_the_more_memories_lie_there(self):
        few = np.array([seconds(2023, 7, 5)] * 2 + [seconds(2022, 1, 1)] * 98)
        many = np.array([seconds(2023, 7, 5)] * 30 + [seconds(2022, 1, 1)] * 70)
        assert time_scores([self.july], few)[0] > time_scores([self.july], many)[0] > 0

    @pytest.mark.parametrize("n", [2, 4, 6, 100])
    def test_a_period_of_most_memories_counts_still(self, n):
        most = n // 2 + 1
        scores = time_scores([self.july], np.array([seconds(2023, 7, 5)] * most + [seconds(2022, 1, 1)] * (n - most)))
        assert scores[:most] == pytest.approx(
            [math.log(1 + (n - most + 0.5) / (most + 0.5)) / math.log(1 + (n - 0.5) / 1.5)] * most
        )
        assert not scores[most:].any()

    def test_without_a_period_all_is_zero(self):
        assert not time_scores([], np.arange(5.0)).any()
        assert time_scores([self.july], np.empty(0)).shape == (0,)

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_as_plain_python(self, data):
        n = data.draw(st.integers(1, 12))
        hour = st.integers(0, 2000)
        times = (
            np.array(data.draw(st.lists(st.one_of(st.just(np.nan), hour.map(float)), min_size=n, max_size=n))) * 3600
        )
        made = data.draw(st.lists(st.tuples(st.integers(0, n - 1), hour, st.integers(1, 500)), max_size=8))
        texts = TextPeriods(
            np.array([row for row, _, _ in made], np.int64),
            np.array([3600.0 * start for _, start, _ in made]),
            np.array([3600.0 * (start + length) for _, start, length in made]),
        )
        prior = TimePrior(0.6, 3.0, 0.9, 0.25)
        start, end = 500 * 3600, 800 * 3600
        asked = Period(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC), "", (0, 0), "range")
        overlaps, all_named = [], []
        for row in range(n):
            at = times[row]
            own = 0.0
            if start <= at < end:
                own = 1.0
            elif min(at - start, end - at) > -30 * 86400:
                own = 0.6 * np.exp(-max(start - at, at - end) / 86400 / 3)
            named = max(
                [
                    0.9 * max(0.0, min(3600 * (s + length), end) - max(3600 * s, start)) / (3600 * length)
                    for r, s, length in made
                    if r == row
                ],
                default=0.0,
            )
            overlaps.append(max(own, named))
            all_named.append(named)

        def idf(inside):
            return math.log(1 + (n - inside + 0.5) / (inside + 0.5))

        def share(found):
            return idf(min(sum(found), n)) / idf(1) if n > 1 else 1

        expected = np.array(overlaps) * share(overlaps) + 0.25 * np.array(all_named) * share(all_named)
        assert time_scores([asked], times, texts, prior) == pytest.approx(expected)

    def test_an_open_period_holds_all_before(self):
        (asked,) = read_question("What was known before June 2023?", FRIDAY)
        times = np.array([seconds(2020, 1, 1)] + [seconds(2024, 1, 1)] * 20)
        scores = time_scores([asked], times)
        assert scores[0] > 0
        assert scores[0] > scores[1]

    @pytest.mark.parametrize("wrong", [{"beside": 2}, {"days": 0}, {"in_text": -1}, {"named": -1}])
    def test_a_prior_that_makes_no_sense_is_refused(self, wrong):
        with pytest.raises(InvalidInput):
            TimePrior(**wrong)
