"""Odd input to the reading of times: the ends of the calendar, odd letters, changed clocks, long texts."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from pam_retriever.timewords import joining
from pam_retriever.timewords.lexicon import Token
from pam_retriever.timewords.match import Context, Match
from pam_retriever.timewords.names import is_named
from pam_retriever.timewords.reader import read_question, read_text
from pam_retriever.timewords.tense import Forms
from pam_retriever.timewords.when import read_when

UTC = timezone.utc
WEDNESDAY = datetime(2024, 5, 15, 12)


def shown(text, now=WEDNESDAY, **options):
    return [period.meaning for period in read_question(text, now, **options)]


@pytest.mark.parametrize("text", ["around 0001-01-01", "shortly after 9999-12-30", "shortly before 0001-01-02"])
def test_days_beside_the_first_and_the_last_day_of_the_calendar_give_none(text):
    assert shown(text) == []
    assert read_text(f"It was built {text}.", WEDNESDAY) == []


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        ("Was war in KW1²?", []),  # a footnote behind the week
        (
            "What did they do in LA in the \u017fixties and on 3 May 2023?",
            ["2023-05-03"],
        ),  # a long s, as old print has it
        ("2 KW3² on 3 May 2023", ["2023-05-03"]),
    ],
)
def test_figures_and_letters_of_other_kinds_are_no_error(text, meanings):
    assert shown(text) == meanings


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("２０２３年我做了什么", "2023-01-01 to 2023-12-31"), ("２０２３年５月我做了什么", "2023-05-01 to 2023-05-31")],
)
def test_wide_figures_are_those_of_a_chinese_year(text, meaning):
    assert shown(text) == [meaning]


@pytest.mark.parametrize("question", ["Who cooks on Sunday?", "Wer kocht am Sonntag?", "¿Quién viene el domingo?"])
@pytest.mark.parametrize("space", ["", "  ", "\n"])
def test_space_before_a_question_does_not_change_its_time(question, space):
    assert shown(space + question) == ["2024-05-19"]  # the next Sunday


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("now", [datetime(2024, 3, 31, 1, 30), datetime(2024, 10, 27, 1, 30)])
@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("past hour", timedelta(minutes=60)),
        ("last 3 hours", timedelta(hours=3)),
        ("last 9 minutes", timedelta(minutes=9)),
    ],
)
def test_hours_up_to_now_are_counted_over_a_change_of_the_clocks(now, words, length):
    local = now.replace(tzinfo=UTC).astimezone(BERLIN)
    start, end = read_when(f"in the {words}", local)
    assert (start, end) == (local.astimezone(UTC) - length, local.astimezone(UTC))


def test_an_hour_ago_is_counted_over_a_change_of_the_clocks():
    at_half_past_three = datetime(2024, 3, 31, 1, 30, tzinfo=UTC).astimezone(BERLIN)
    (period,) = read_question("What did I say an hour ago?", at_half_past_three)
    assert (period.start, period.end) == (datetime(2024, 3, 31, 0, tzinfo=UTC), datetime(2024, 3, 31, 1, tzinfo=UTC))


def test_a_sentence_is_searched_once_for_what_all_its_times_depend_on(monkeypatch):
    """Else the reading of a long text takes a time that grows with its square."""
    searched, pairs = [], []
    search, pairwise = Forms.search, joining.pairwise
    monkeypatch.setattr(Forms, "search", lambda *args: searched.append(args) or search(*args))
    monkeypatch.setattr(joining, "pairwise", lambda words: pairs.append(words) or pairwise(words))
    assert read_question("before 2 weeks " * 40 + "yesterday", WEDNESDAY)
    read_question("for June " * 40, WEDNESDAY)
    assert len(searched) < 20
    assert len(pairs) == 1


def test_whether_a_weekday_is_a_name_is_decided_by_the_two_words_before_it():
    """Else the reading of a long text takes a time that grows with its square."""
    lowered = []

    class Word(str):
        def lower(self):
            lowered.append(self)
            return super().lower()

    tokens = [Token("x", 0, 0, 4, Word("word"))] * 100 + [Token("W", 0, 0, 6, "Monday")]
    assert not is_named(Match(tokens, 100, 100, Context(WEDNESDAY, "en")))
    assert len(lowered) <= 2
