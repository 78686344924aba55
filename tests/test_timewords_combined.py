"""Times in every combination: a day keeps its meaning behind each preposition, beside hours, shifts and ranges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from pam_retriever.timewords.periods import OPEN_END, OPEN_START
from pam_retriever.timewords.reader import read_question, read_text
from pam_retriever.timewords.when import read_when

pytest.importorskip("dateparser")
NOW = datetime(2026, 5, 13, 10)  # a Wednesday
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
Span = tuple[datetime, datetime]
Meaning = Callable[[datetime], Span]


def utc(month: int, day: int, year: int = 2026) -> datetime:
    return datetime(year, month, day, tzinfo=timezone.utc)


def found(text: str, language: str | None = None, now: datetime = NOW) -> list[Span]:
    return [(period.start, period.end) for period in read_question(text, now, language=language)]


def hours(first: int, length: int) -> Meaning:
    return lambda day: (day + first * HOUR, day + (first + length) * HOUR)


def whole(day: datetime) -> Span:
    return day, day + DAY


TODAY_ENDS = utc(5, 14)
DAYS: dict[str, dict[str, datetime]] = {
    "en": {
        "yesterday": utc(5, 12),
        "the day before yesterday": utc(5, 11),
        "last Tuesday": utc(5, 12),
        "3 April": utc(4, 3),
        "April 3rd": utc(4, 3),
        "2025-04-03": utc(4, 3, 2025),
        "28-Apr": utc(4, 28),
        "April twenty first": utc(4, 21),
        "Tuesday the 5th": utc(5, 5),
        "Tue 5 May": utc(5, 5),
        "Friday last week": utc(5, 8),
        "last week's Friday": utc(5, 8),
        "the first Monday of March": utc(3, 2),
        "the last day of February": utc(2, 28),
        "Christmas Eve": utc(12, 24, 2025),
        "three days ago": utc(5, 10),
        "two Tuesdays ago": utc(5, 5),
        "the day after Christmas": utc(12, 26, 2025),
        "Monday two weeks ago": utc(4, 27),
    },
    "de": {
        "gestern": utc(5, 12),
        "letzten Dienstag": utc(5, 12),
        "am 3. April": utc(4, 3),
        "am 3.4.2025": utc(4, 3, 2025),
        "am ersten Montag im März": utc(3, 2),
        "am 15. letzten Monats": utc(4, 15),
        "am zweiundzwanzigsten April": utc(4, 22),
        "vor drei Tagen": utc(5, 10),
        "Dienstag letzter Woche": utc(5, 5),
    },
    "fr": {
        "hier": utc(5, 12),
        "mardi dernier": utc(5, 12),
        "le 3 avril": utc(4, 3),
        "le premier lundi de mars": utc(3, 2),
        "le vingt deux avril": utc(4, 22),
        "il y a trois jours": utc(5, 10),
        "mardi de la semaine dernière": utc(5, 5),
    },
    "es": {
        "ayer": utc(5, 12),
        "el martes pasado": utc(5, 12),
        "el 3 de abril": utc(4, 3),
        "el primer lunes de marzo": utc(3, 2),
        "el veintidós de abril": utc(4, 22),
        "hace tres días": utc(5, 10),
        "el martes de la semana pasada": utc(5, 5),
    },
    "zh": {
        "昨天": utc(5, 12),
        "上周二": utc(5, 5),
        "4月3日": utc(4, 3),
        "三月的第一个周一": utc(3, 2),
        "三天前": utc(5, 10),
        "上个月15号": utc(4, 15),
    },
}
FRAMES: dict[str, list[tuple[str, Meaning]]] = {
    "en": [
        ("What did we eat {on}?", whole),
        ("What happened {on} in the morning?", hours(6, 6)),
        ("What happened {on} at 3 pm?", hours(15, 1)),
        ("What happened at 3 pm {on}?", hours(15, 1)),
        ("What happened on the evening of {}?", hours(18, 6)),
        ("What did I do since {}?", lambda day: (day, TODAY_ENDS)),
        ("What was done before {}?", lambda day: (OPEN_START, day)),
        ("What did we do after {}?", lambda day: (day + DAY, OPEN_END)),
        ("Who was there until {}?", lambda day: (OPEN_START, day + DAY)),
        ("What happened the day after {}?", lambda day: (day + DAY, day + 2 * DAY)),
        ("What happened two days before {}?", lambda day: (day - 2 * DAY, day - DAY)),
        ("What happened in the week of {}?", lambda day: whole_week(day)),
        ("Show me everything between {} and today", lambda day: (day, TODAY_ENDS)),
    ],
    "de": [
        ("Was haben wir {} gegessen?", whole),
        ("Was war {} um 15 Uhr?", hours(15, 1)),
        ("Was geschah {} abends?", hours(18, 6)),
    ],
    "fr": [
        ("Qu'est-ce qu'on a mangé {} ?", whole),
        ("Que s'est-il passé {} à 15h ?", hours(15, 1)),
        ("Qu'a-t-on fait depuis {} ?", lambda day: (day, TODAY_ENDS)),
    ],
    "es": [
        ("¿Qué comimos {}?", whole),
        ("¿Qué pasó {} por la mañana?", hours(6, 6)),
        ("¿Qué pasó {} a las 3 de la tarde?", hours(15, 1)),
    ],
    "zh": [
        ("{}发生了什么?", whole),
        ("{}早上发生了什么?", hours(6, 6)),
        ("{}下午三点发生了什么?", hours(15, 1)),
        ("{}之前做了什么?", lambda day: (OPEN_START, day)),
        ("{}之后做了什么?", lambda day: (day + DAY, OPEN_END)),
    ],
}
_ADVERBS = ("yesterday", "the day", "last", "three", "two", "Friday last", "Monday two")


def whole_week(day: datetime) -> Span:
    monday = day - day.weekday() * DAY
    return monday, monday + 7 * DAY


def _combined() -> list[tuple[str, str, Span]]:
    rows = []
    for language, days in DAYS.items():
        for words, day in days.items():
            on = words if words.startswith(_ADVERBS) else f"on {words}"
            for frame, meaning in FRAMES[language]:
                rows.append((language, frame.format(words, on=on), meaning(day)))
    return rows


@pytest.mark.parametrize(("language", "text", "span"), _combined())
def test_every_day_is_read_in_every_frame(language: str, text: str, span: Span) -> None:
    assert found(text, language) == [span]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("What did I note from 4 to 22 this month?", (utc(5, 4), utc(5, 23))),
        ("Where was I between the 3rd and the 9th of last month?", (utc(4, 3), utc(4, 10))),
        ("Qué hice desde el 4 hasta el 22 del mes pasado", (utc(4, 4), utc(4, 23))),
        ("Was war vom 5.4. zum 16.4.?", (utc(4, 5), utc(4, 17))),
        ("Was war vom 7.-10.04.2025 los?", (utc(4, 7, 2025), utc(4, 11, 2025))),
        ("Was haben wir vom 5. bis zum 16.4. gemacht?", (utc(4, 5), utc(4, 17))),
        ("logs 4/1/2025-4/7/2025", (utc(4, 1, 2025), utc(4, 8, 2025))),
        ("logs 2025-04-01/2025-04-07", (utc(4, 1, 2025), utc(4, 8, 2025))),
        ("logs 2025-04-01..2025-04-07", (utc(4, 1, 2025), utc(4, 8, 2025))),
        ("Who called from next Tuesday to Friday?", (utc(5, 19), utc(5, 23))),
        ("Where was I last week from Wednesday to Friday?", (utc(5, 6), utc(5, 9))),
        ("Where was I last week between Wednesday and Friday?", (utc(5, 6), utc(5, 9))),
        ("Que s'est-il passé du samedi 4 au dimanche 12 avril ?", (utc(4, 4), utc(4, 13))),
        ("Que s'est-il passé le 4 avril au 12 avril ?", (utc(4, 4), utc(4, 13))),
        ("Qu'a-t-on fait ces 2 dernières semaines ?", (utc(4, 29), utc(5, 14))),
        ("Was war am 3. April um 1430 Uhr los?", (utc(4, 3) + 14.5 * HOUR, utc(4, 3) + 14.5 * HOUR + HOUR / 60)),
        ("Was war vom 14./15.4. los?", (utc(4, 14), utc(4, 16))),
        ("Was war 13. - 15. April los?", (utc(4, 13), utc(4, 16))),
        ("Was wird innerhalb von zwei Wochen fällig werden?", (utc(5, 13), utc(5, 28))),
        ("What did we earn in last year's first quarter?", (utc(1, 1, 2025), utc(4, 1, 2025))),
        ("What happened after 4 pm on 3 April?", (utc(4, 3) + 16 * HOUR, utc(4, 4))),
        ("Qué hicimos los dos pasados meses", (utc(3, 13), utc(5, 14))),
        ("Was war los in den letzten zwei Monaten?", (utc(3, 13), utc(5, 14))),
        ("上两周发生了什么?", (utc(4, 29), utc(5, 14))),
        ("Hotel notes for ten days from 18 December 2025", (utc(12, 18, 2025), utc(12, 28, 2025))),
    ],
)
def test_ranges(text: str, span: Span) -> None:
    assert found(text) == [span]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("photos of Apr/10", utc(4, 10)),
        ("photos of April-10-2025", utc(4, 10, 2025)),
        ("photos of 2025/Apr/10", utc(4, 10, 2025)),
        ("What did he say on 15Apr?", utc(4, 15)),
        ("What did he say on 2025-04-15T08:15:30-05:30?", None),
        ("Wer kam am 19.04 zum Essen?", utc(4, 19)),
        ("Was schrieb er am 28.April?", utc(4, 28)),
        ("Was geschah am 2ten April?", utc(4, 2)),
        ("Qu'a-t-il dit le 15avril ?", utc(4, 15)),
        ("Qu'a-t-on mangé le 20 sept. 2025 ?", utc(9, 20, 2025)),
        ("Qué dijo el 1/Ene?", utc(1, 1)),
        ("Qu'a-t-on mangé dimanche derniere ?", utc(5, 10)),
        ("What happened on Apr 10, Fri?", utc(4, 10)),
        ("What did I say about it last week on Monday?", utc(5, 4)),
        ("What did we pay on the first?", utc(5, 1)),
        ("Was war am Freitag, den 08.05.2026?", utc(5, 8)),
        ("Was schrieb er am 11ten?", utc(5, 11)),
        ("What did we do on the last Monday in March?", utc(3, 30)),
        ("零八年四月三日发生了什么?", utc(4, 3, 2008)),
    ],
)
def test_joined_and_spoken_days(text: str, day: datetime | None) -> None:
    spans = found(text)
    assert len(spans) == 1
    assert day is None or spans == [whole(day)]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("What was the plan for 4/2025?", (utc(4, 1, 2025), utc(5, 1, 2025))),
        ("Where will we be the March after next?", (utc(3, 1, 2028), utc(4, 1, 2028))),
        ("What has to be finished within two weeks, will it work?", (utc(5, 13), utc(5, 28))),
        ("What did I do in the third week of 2025?", (utc(1, 13, 2025), utc(1, 20, 2025))),
        ("¿Qué pasó en el mes de febrero?", (utc(2, 1), utc(3, 1))),
        ("Who sang in the 1970's?", (utc(1, 1, 1970), utc(1, 1, 1980))),
        ("What did I earn in 12-2025?", (utc(12, 1, 2025), utc(1, 1))),
        ("Was ist 2024 passiert?", (utc(1, 1, 2024), utc(1, 1, 2025))),
        ("19世纪70年代的照片", (utc(1, 1, 1870), utc(1, 1, 1880))),
        ("过去十年中国的变化", (utc(5, 13, 2016), utc(5, 14))),
        ("他07年以后做了什么", (utc(1, 1, 2008), OPEN_END)),
    ],
)
def test_months_years_and_decades(text: str, span: Span) -> None:
    assert found(text) == [span]


def test_until_a_month_to_come() -> None:
    assert found("Is he away until June?") == [(OPEN_START, utc(7, 1))]
    assert found("Was he away until June?") == [(OPEN_START, utc(7, 1, 2025))]
    assert found("Bis Juni ist er weg, oder?") == [(OPEN_START, utc(7, 1))]


def test_weekdays_in_weeks() -> None:
    assert found("Are we free on Sunday in two weeks?") == [whole(utc(5, 31))]
    assert found("Ich bin am Sonntag in 2 Wochen wieder da.") == [whole(utc(5, 31))]
    assert found("Was machen wir übernächste Woche Freitag?") == [whole(utc(5, 29))]


def test_the_future_tense_of_french_and_spanish() -> None:
    assert [period.start for period in read_text("Je reviendrai mardi.", NOW)] == [utc(5, 19)]
    assert [period.start for period in read_text("Llegará el martes.", NOW)] == [utc(5, 19)]


@pytest.mark.parametrize(
    "text",
    [
        "Set the shutter to 1/2000",
        "Their record is 9-7 this far",
        "Kapitel 2.1. und 2.2. lesen",
        "Der 28. Spieler kam",
        "Windows 2019 läuft nicht",
        "the twenty second rule",
        "On second thought, what do you suggest?",
        "the last minute rush",
        "I saw the next march",
        "Is April coming to the party?",
        "vingt deux voitures",
        "veintidós personas vinieron",
        "Montrez-moi les environs",
        "月饼好吃吗",
        "有八九十年的历史",
        "a 15sec clip",
        "use the 28nm process",
        "Call 555-0199",
        "Tel: +86 138-2010-2015",
        "Where was CVE-2022-2309 fixed?",
        "where was cve-2017-2626 fixed?",
        "What does invoice INV-2023-2050 say?",
        "Who wrote ticket 2023-2040?",
        "What did we see on the sun?",
        "Spots recur on the sun's photosphere.",
    ],
)
def test_these_are_no_times(text: str) -> None:
    assert read_question(text, NOW) == []


@pytest.mark.parametrize(
    ("when", "span"),
    [
        ("2026-W10..2026-W12", (utc(3, 2), utc(3, 23))),
        ("2025-04-01/2025-04-07", (utc(4, 1, 2025), utc(4, 8, 2025))),
        ("Fri.", whole(utc(5, 8))),
        ("the 3rd qtr", (utc(7, 1, 2025), utc(10, 1, 2025))),
        (("May", "June"), (utc(5, 1, 2025), utc(7, 1, 2025))),
        (("Tuesday", "Thursday"), (utc(5, 5), utc(5, 8))),
    ],
)
def test_when(when: str | tuple[str, str], span: Span) -> None:
    assert read_when(when, NOW) == span
