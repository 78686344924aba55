"""Dates in figures, Easter and other calendars; the extra ``times`` has ``dateparser``, ``dateutil``, ``holidays``."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from pam_retriever.errors import MissingExtra

if TYPE_CHECKING:
    from dateparser.date import DateDataParser

_LEAP_SECOND = re.compile(r"(:\d\d):60")
_YEARS = {"IN": (2001, 2035)}  # of the Hindu calendar in ``holidays``, which warns of others
_COMPACT = re.compile(r"^(\d{4})(\d\d)(\d\d)$")
_ISO_WEEK = re.compile(r"(\d{4})-?W(\d\d)", re.IGNORECASE)
_LETTERS = re.compile(r"^(\d\d?)[/-]?([A-Za-z]+)[/-]?(\d+)$")
_ZONE = re.compile(r" [A-Za-z]{3,4}$")  # an unknown zone is ignored
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?: ?Z|[+-]\d\d:\d\d)?)?")
_MONTH = re.compile(r"(\d{4})[/-](\d\d?)|(\d\d?)[/-](\d{4})")
_NUMERIC = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{4}|\d\d?)")
_CLOCK = re.compile(r"\d{1,2}\s*(?::|h|uhr|[ap]\.?m)", re.IGNORECASE)


@lru_cache(maxsize=16)
def _parser(language: str, order: str) -> DateDataParser:
    try:
        from dateparser.date import DateDataParser
    except ImportError as error:
        raise MissingExtra("dateparser", "times", "Reading times") from error
    settings = {
        "DATE_ORDER": order,
        "PREFER_DAY_OF_MONTH": "first",
        "PREFER_MONTH_OF_YEAR": "first",
        "PARSERS": ["absolute-time"],
        "REQUIRE_PARTS": ["month", "year"],
    }
    return DateDataParser(languages=[language], settings=settings)


@lru_cache(maxsize=4096)
def figures(text: str, language: str, day_first: bool = False) -> tuple[datetime, str] | None:
    """Parses a date in figures ("2023-10-13 15:30", "10/13/2023", "05/2023").

    The order is that of the language (English: month first), unless only another order gives a valid date, or
    ``day_first`` is set.

    Returns:
        The instant, aware if the text names a zone, and its unit ("minute", "hour", "day", "month"); None for an
        invalid date ("31.02.2023").
    """
    text = _LETTERS.sub(r"\1-\2-\3", _COMPACT.sub(r"\1-\2-\3", _LEAP_SECOND.sub(r"\1:59", text)))
    if (week := _ISO_WEEK.fullmatch(text)) is not None:
        return datetime.fromisocalendar(int(week[1]), int(week[2]), 1), "week"
    if _ISO.fullmatch(text) is not None:
        return _iso(text)
    if (month := _MONTH.fullmatch(text)) is not None:
        year, number = int(month[1] or month[4]), int(month[2] or month[3])
        return (datetime(year, number, 1), "month") if 1 <= number <= 12 else None
    month_first = language == "en" and "." not in text and not day_first
    if (numeric := _NUMERIC.fullmatch(text)) is not None:
        return _numeric(numeric[1], numeric[3], numeric[4], month_first)
    return _figures(text, language, month_first) or (
        _figures(text[: -len(zone[0])], language, month_first) if (zone := _ZONE.search(text)) else None
    )


def _iso(text: str) -> tuple[datetime, str] | None:
    """Parses ISO 8601; in Python 3.10 ``fromisoformat`` does not know "Z"."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" +", "+"))
    except ValueError:  # "2023-02-30"
        return None
    return at, "minute" if ":" in text else "day"


def _numeric(first: str, second: str, third: str, month_first: bool) -> tuple[datetime, str] | None:
    """Parses the three figures of a date: the year first, or the other two in one order or the other."""
    if len(first) == 4:
        orders = [(first, second, third), (first, third, second)]
    else:
        year = third if len(third) == 4 else f"{20 if int(third) < 69 else 19}{third.zfill(2)}"
        orders = [(year, first, second), (year, second, first)]
    if not month_first and len(first) != 4:
        orders.reverse()
    for year, month, day in orders:
        if 1 <= int(month) <= 12 and 1 <= int(day) <= monthrange(int(year), int(month))[1]:
            return datetime(int(year), int(month), int(day)), "day"
    return None


def _figures(text: str, language: str, month_first: bool) -> tuple[datetime, str] | None:
    orders = ("YMD",) if re.match(r"\d{4}", text) else ("MDY", "DMY") if month_first else ("DMY", "MDY")
    for order in orders:
        try:
            found = _parser(language, order).get_date_data(text)
        except (ValueError, OverflowError):  # dateparser passes some impossible dates and zones to datetime
            continue
        if found.date_obj is not None:
            if re.search(r"\d:\d\d", text):
                return found.date_obj, "minute"
            return found.date_obj, "hour" if _CLOCK.search(text) else found.period
    return None


@lru_cache(maxsize=512)
def clock(text: str) -> tuple[int, int, str] | None:
    """Parses a time of day ("3 pm", "15:30", "15 Uhr"): returns hour, minute and unit; None if invalid."""
    matched = re.fullmatch(
        r"(\d{1,2})(?:\s*[:.h]\s*(\d\d))?(?::\d\d)?\s*(?:([ap])\.?m\.?|uhr|h)?", text.lower().strip()
    )
    if matched is None:
        return None
    hour, minute = int(matched[1]), int(matched[2] or 0)
    if matched[3]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if matched[3] == "p" else 0)
    if hour > 23 or minute > 59:
        return None
    return hour, minute, "minute" if matched[2] else "hour"


@lru_cache(maxsize=512)
def easter_sunday(year: int) -> datetime:
    """Returns Easter Sunday of the western churches."""
    try:
        from dateutil.easter import easter
    except ImportError as error:
        raise MissingExtra("python-dateutil", "times", "Reading times") from error
    day = easter(year)
    return datetime(day.year, day.month, day.day)


@lru_cache(maxsize=512)
def public_holiday(country: str, name: str, year: int) -> tuple[datetime, ...]:
    """Returns the days in a row of a holiday by a part of its English name; none for a year not in its tables."""
    try:
        import holidays
    except ImportError as error:
        raise MissingExtra("holidays", "times", "Reading the holidays of other calendars") from error
    kept = getattr(holidays, country)
    start, end = _YEARS.get(country, (kept.start_year, kept.end_year))
    if not start <= year <= end:
        return ()
    language = next(one for one in kept.supported_languages if one.startswith("en"))
    categories = set(kept.supported_categories) - {"half_day"}
    years = range(max(year - 1, start), min(year + 1, end) + 1)  # Hanukkah may end in January
    found = kept(years=years, observed=False, language=language, categories=categories).get_named(name)
    days = {datetime(day.year, day.month, day.day) for day in found}
    first = min((day for day in days if day.year == year and day - timedelta(days=1) not in days), default=None)
    run = [] if first is None else [first + timedelta(days=at) for at in range(10)]
    return tuple(takewhile(days.__contains__, run))
