"""Forms of times built by combination, in small letters as in chats, against plain arithmetic of dates."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from pam_retriever.timewords.periods import OPEN_END, OPEN_START
from pam_retriever.timewords.reader import read_question, read_text

NOWS = [datetime(2024, 5, 15, 14, 30), datetime(2025, 11, 18, 9, 20)]
DAY = timedelta(days=1)
NAMES = [name.lower() for name in calendar.month_name[1:]]
SHORT = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sept", "oct", "nov", "dec"]
WEEKDAYS = [name.lower() for name in calendar.day_name]
DOUBTFUL = {"jan", "mar", "march", "apr", "april", "may", "jun", "june", "aug", "august", "sun", "sat"}  # names, words
UNITS = {"day": ("day", "days"), "week": ("wk", "wks"), "month": ("month", "months"), "year": ("yr", "yrs")}
COUNTS = {2: "two", 3: "three", 6: "six", 10: "ten"}
FRAMES = ["what did we decide {}", "notes {}"]

Span = tuple[datetime, datetime]
Case = tuple[str, datetime, list[Span]]


def month(year: int, number: int) -> Span:
    return datetime(year, number, 1), datetime(year + number // 12, number % 12 + 1, 1)


def latest_month(now: datetime, number: int) -> Span:
    return month(now.year if number <= now.month else now.year - 1, number)


def day(at: datetime) -> Span:
    start = at.replace(hour=0, minute=0)
    return start, start + DAY


def latest_weekday(now: datetime, number: int) -> Span:
    return day(now - ((now.weekday() - number) % 7) * DAY)


def months_of_chats() -> Iterator[Case]:
    for now in NOWS:
        for number in range(1, 13):
            span = latest_month(now, number)
            for name in (NAMES[number - 1], SHORT[number - 1], NAMES[number - 1].title()):
                yield from ((f"{front} {name} checkup", now, [span]) for front in ("notes of my", "what was in our"))
                for frame in FRAMES:
                    yield frame.format(f"back in {name}"), now, [span]
                    yield frame.format(f"{name} 2022"), now, [month(2022, number)]
                    yield frame.format(f"{name}-2022"), now, [month(2022, number)]
                    yield frame.format(f"in {name} last year"), now, [month(now.year - 1, number)]
                    if name.lower() not in DOUBTFUL:
                        yield frame.format(name), now, [span]
                        yield f"the {name} invoice" if name != "dec" else "my dec invoice", now, [span]


def weekdays_of_chats() -> Iterator[Case]:
    for now in NOWS:
        for number, name in enumerate(WEEKDAYS):
            if number == now.weekday():
                continue
            last = latest_weekday(now, number)
            ahead = day(now + ((number - now.weekday()) % 7) * DAY)
            afternoon = last[0] + timedelta(hours=12), last[0] + timedelta(hours=18)
            at_three = last[0] + timedelta(hours=15), last[0] + timedelta(hours=16)
            for word in {name, name.title()}:
                yield f"{word} what did i say about the car", now, [last]
                yield f"show me the emails {word} about rent", now, [last]
                yield f"what was in the {word} notes", now, [last]
                yield f"what did we decide {word} arvo", now, [afternoon]
                yield f"what did we decide {word} @ 3pm", now, [at_three]
                yield f"what am i doing {word}", now, [ahead]
                yield f"who cooks on {word}", now, [ahead]


def counted_units() -> Iterator[Case]:
    for now in NOWS:
        for unit, names in UNITS.items():
            for count, word in COUNTS.items():
                back = {"day": 1, "week": 7}.get(unit, 0) * count * DAY
                start = now - back
                if unit in ("month", "year"):
                    total = now.year * 12 + now.month - 1 - count * (1 if unit == "month" else 12)
                    start = now.replace(year=total // 12, month=total % 12 + 1)
                rolled = day(start)[0], day(now)[1]
                for number in (str(count), word):
                    yield f"notes last {number} {names[1]}", now, [rolled]
                    yield f"what did we decide past {number} {names[1]}", now, [rolled]
                if unit == "day":
                    yield f"notes {count} days or so ago", now, [day(start)]
                    yield f"what is due in about {count} days", now, [day(now + count * DAY)]


def dates_and_ranges() -> Iterator[Case]:
    for now in NOWS:
        for first, last in (
            (datetime(2024, 3, 5), datetime(2024, 3, 10)),
            (datetime(2023, 12, 24), datetime(2023, 12, 29)),
        ):
            whole = first, last + DAY
            for form in ("%d.%m.%y", "%Y-%m-%d", "%m/%d/%Y", "%d/%b/%Y", "%d%b%Y"):
                one, two = first.strftime(form), last.strftime(form)
                yield from (
                    (f"orders {text}", now, [whole])
                    for text in (f"{one} - {two}", f"from {one} to {two}", f"{one}..{two}")
                )
                yield f"logs from {one}", now, [day(first)]
            for zone in ("", "Z"):
                clocks = f"{first:%Y-%m-%d}T22:00{zone} to {first:%Y-%m-%d}T23:30{zone}"
                yield f"logs {clocks}", now, [(first + timedelta(hours=22), first + timedelta(hours=23, minutes=30))]
            for ending in (" of 2022", " in 2022", " '22", ", 2022"):
                yield f"notes on june 3{ending}", now, [day(datetime(2022, 6, 3))]
        yield "orders 3/13 - 3/18", now, [(datetime(now.year, 3, 13), datetime(now.year, 3, 19))]


def holidays() -> Iterator[Case]:
    spelt = {
        (12, 25): ("christmas", "xmas", "christmas day", "xmas day"),
        (12, 24): ("christmas eve", "xmas eve"),
        (12, 31): ("new years eve", "new year's eve", "nye"),
        (1, 1): ("new years day", "new year's day"),
        (2, 14): ("valentines day", "vday"),
        (3, 17): ("st patricks day", "st. patrick's day"),
    }
    for now in NOWS:
        for (number, date), names in spelt.items():
            last = day(datetime(now.year - ((number, date) > (now.month, now.day)), number, date))
            following = day(last[0].replace(year=last[0].year + 1))
            then = day(datetime(now.year - 1, number, date))
            for name in names:
                yield f"what did we do {name}", now, [last]
                yield f"photos of the {name} bbq last year", now, [then]
                yield f"what did we cook last year on {name}", now, [then]
                yield f"my flights between now and {name}", now, [(day(now)[0], following[1])]
                yield f"what did we do the day after {name}", now, [day(last[1])]
                yield f"what did we do just after {name}", now, [(last[1], last[1] + 7 * DAY)]


def tenses() -> Iterator[Case]:
    """Questions about what comes, and about what was, with days and months in four languages."""
    ahead = {
        "en": "when do we leave {}|who's coming over {}|who picks up the kids {}|my shifts {}|does the shop open {}",
        "de": "wer holt {} die Kinder ab|hat der Laden {} auf|was steht {} an|wer hat {} Dienst|bin ich {} frei",
        "fr": "qui vient {}|y a-t-il une réunion {}|le magasin est ouvert {}|quelles factures arrivent {}",
        "es": "qué hacemos {}|quién recoge a los niños {}|trabajo {}|estoy libre {}|qué citas tengo {}",
    }
    behind = {
        "en": "when did we leave {}|who won {}|photos {}|was the shop open {}|the email ana sent {}",
        "de": "wer kam {}|was wurde {} entschieden|Fotos {}|wo war ich {}|was hat Anna {} geschickt",
        "fr": "qui est venu {}|photos {}|où étais-je {}|on a décidé quoi {}|le mail que Paul a envoyé {}",
        "es": "qué comí {}|quién llamó {}|fotos {}|qué decidimos {}|dónde estuve {}",
    }
    times = {
        "en": ("on friday", "in june", "on march 14"),
        "de": ("am Freitag", "im Juni", "am 14. März"),
        "fr": ("vendredi", "en juin", "le 14 mars"),
        "es": ("el viernes", "en junio", "el 14 de marzo"),
    }
    now = NOWS[1]
    friday, date = datetime(2025, 11, 14), datetime(2025, 3, 14)
    last = [day(friday), month(2025, 6), day(date)]
    following = [day(friday + 7 * DAY), month(2026, 6), day(date.replace(year=2026))]
    for forms, spans in ((ahead, following), (behind, last)):
        for language, frames in forms.items():
            for frame in frames.split("|"):
                for time, span in zip(times[language], spans, strict=True):
                    yield frame.format(time), now, [span]


CASES = [
    case
    for build in (months_of_chats, weekdays_of_chats, counted_units, dates_and_ranges, holidays, tenses)
    for case in build()
]


def found(text: str, now: datetime) -> list[Span]:
    return [
        (
            datetime.min if period.start == OPEN_START else period.start.replace(tzinfo=None),
            datetime.max if period.end == OPEN_END else period.end.replace(tzinfo=None),
        )
        for period in read_question(text, now)
    ]


def test_every_combination_is_read() -> None:
    wrong = [(text, now, found(text, now)) for text, now, expected in CASES if found(text, now) != expected]
    assert not wrong, f"{len(wrong)} of {len(CASES)}: {wrong[:20]}"


WEDNESDAY = datetime(2024, 5, 15, 15)
FORMS = {  # by the reason for which the reader failed on list 13; each in a sentence of no list
    "in my letter of the 9th i asked for a refund": "2024-05-09",
    "is the Q1 forecast ready": "2024-01-01 to 2024-03-31",
    "who wrote before 9 this morning": "2024-05-15 00:00 to 2024-05-15 09:00",
    "our post-2019 invoices": "from 2020-01-01",
    "the ferry we took in june of 22": "2022-06-01 to 2022-06-30",
    "did it break in twenty twenty two": "2022-01-01 to 2022-12-31",
    "see you on Friday week": "2024-05-24",
    "sales in the 6 months ending 31 March 2024": "2023-10-01 to 2024-03-31",
    "tickets of weeks 11 to 13": "2024-03-11 to 2024-03-31",
    "cash flow in 2Q23": "2023-04-01 to 2023-06-30",
    "load for 2024-W12": "2024-03-18 to 2024-03-24",
    "handover notes cw 12": "2024-03-18 to 2024-03-24",
    "alarms since 02:00Z": "2024-05-15 02:00 to 2024-05-16 00:00",
    "any alarms overnight?": "2024-05-14 18:00 to 2024-05-15 06:00",
    "who called on 3 May at 0430 hrs": "2024-05-03 04:30 to 2024-05-03 04:31",
    "what was I reading two years ago to the day": "2022-05-15",
    "her years at sea, 1961 to 1965": "1961-01-01 to 1965-12-31",
    "errores entre las 22:00 de ayer y las 4:00 de hoy": "2024-05-14 22:00 to 2024-05-15 04:00",
    "la paella de hace dos domingos": "2024-05-05",
    "qué comimos por Reyes": "2024-01-06",
    "what was said in the Sat meeting": "2024-05-11",
    "qui a appelé lundi dernier vers 14h": "2024-05-13 14:00 to 2024-05-13 15:00",
}


@pytest.mark.parametrize(("text", "meaning"), FORMS.items(), ids=list(FORMS))
def test_form(text: str, meaning: str) -> None:
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == [meaning]


def test_months_joined_by_a_slash_or_vs_are_two() -> None:
    for text in ("costs in Feb/Mar", "costs, feb vs mar"):
        assert found(text, WEDNESDAY) == [month(2024, 2), month(2024, 3)]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("The prices go up from June", "2024-06-01 to 2024-06-30"),
        ("Ab dem 1. Juni arbeite ich in Wien", "from 2024-06-01"),
        ("The shop is closed from the 27th through the 3rd", "2024-05-27 to 2024-06-03"),
    ],
)
def test_a_plan_in_a_text_looks_ahead(text: str, meaning: str) -> None:
    assert [period.meaning for period in read_text(text, WEDNESDAY)] == [meaning]


@pytest.mark.parametrize(
    "text",
    [
        "the sun sets late, when do we eat",
        "where is the sep argument",
        "june said she might come",
        "ask april about the key",
        "how long does the battery last 3 days or 4",
        "is there a 24/7 pharmacy near me",
        "the 5/8 drywall",
        "upgrade node from 18.12 to 20.10",
        "which version is 10.12.20",
        "a sunday roast for six",
        "who sang friday by rebecca black",
        "they march for peace",
        "a fall from a ladder",
        "my second try",
        "the third floor",
        "on the 3rd floor",
        "a js function that returns tomorrow's date",
        "i have been doing it for a year now",
        "monday.com or jira",
        "mars ou snickers",
        "a spring mattress",
        "order 20240311",
        "42 march street",
        "saturday night live host",
        "is midnight blue darker",
        "das Café Sonntag",
        "mon chéri",
    ],
)
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert found(text, NOWS[0]) == []
