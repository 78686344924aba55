"""Other parsers on the expressions and traps of ``tests/data``: the dates that they find in a sentence.

Each parser is called as its documentation recommends, with the same current time. Parsers with options for the language
and for a preference of past dates get both.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

Found = list[tuple[datetime, datetime | None]]  # start, and the end if a parser returns one
Parser = Callable[[str, datetime, str], Found]


def _dateparser() -> Parser:
    from dateparser.search import search_dates

    def find(text: str, now: datetime, language: str) -> Found:
        settings: Any = {"RELATIVE_BASE": now, "PREFER_DATES_FROM": "past"}
        found = search_dates(text, languages=[language], settings=settings) or []
        return [(at.replace(tzinfo=None), None) for _, at in found]

    return find


def _parsedatetime() -> Parser:
    import parsedatetime

    calendar = parsedatetime.Calendar()
    return lambda text, now, _language: [(found[0], None) for found in calendar.nlp(text, sourceTime=now) or []]


def _timefhuman() -> Parser:
    from timefhuman import tfhConfig, timefhuman

    def as_datetime(value: Any) -> datetime:
        return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)

    def find(text: str, now: datetime, _language: str) -> Found:
        found: Found = []
        for value in timefhuman(text, config=tfhConfig(now=now)):
            for one in value if isinstance(value, list) else [value]:
                pair = one if isinstance(one, tuple) else (one, None)
                if hasattr(pair[0], "year"):
                    found.append((as_datetime(pair[0]), None if pair[1] is None else as_datetime(pair[1])))
        return found

    return find


def _ctparse() -> Parser:
    from ctparse import ctparse

    def find(text: str, now: datetime, _language: str) -> Found:
        parsed = ctparse(text, ts=now, timeout=1)
        if not parsed or not hasattr(parsed.resolution, "start"):
            return []
        return [(parsed.resolution.start.dt, parsed.resolution.end.dt)]

    return find


PARSERS: dict[str, Callable[[], Parser]] = {
    "dateparser": _dateparser,
    "parsedatetime": _parsedatetime,
    "timefhuman": _timefhuman,
    "ctparse": _ctparse,
}


def compare(expressions: list[dict[str, Any]], traps: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts for each parser the expressions parsed exactly or within the answer, and the traps parsed as times."""
    return {name: _accuracy(load, expressions, traps) for name, load in PARSERS.items()}


def _accuracy(load: Callable[[], Parser], expressions: list[dict[str, Any]], traps: list[dict[str, Any]]) -> Any:
    try:
        parser = load()
    except ImportError as error:
        return f"not installed ({error.name})"
    inside, exact, failed = 0, 0, 0
    plain = [row for row in expressions if not {"zone", "holds", "or"} & set(row) and row["now"].endswith("+00:00")]
    for row in plain:
        found = _parse(parser, row["text"], datetime.fromisoformat(row["now"][:19]), row["language"])
        failed += found is None
        answers = [tuple(_instant(end) for end in period) for period in row["periods"]]
        if found is None or len(found) != len(answers):
            continue
        inside += all(_inside(start, answer) for (start, _), answer in zip(found, answers, strict=True))
        exact += all(pair == answer for pair, answer in zip(found, answers, strict=True))
    taken = sum(bool(_parse(parser, row["text"], datetime(2024, 3, 15, 10), row["language"])) for row in traps)
    return {
        "expressions": len(plain),
        "date_inside": inside / len(plain),
        "interval_exact": exact / len(plain),
        "failed": failed,
        "traps_taken": taken / len(traps),
    }


def _parse(parser: Parser, text: str, now: datetime, language: str) -> Found | None:
    """Returns the result of a parser; None if the parser raises, which is counted."""
    try:
        return parser(text, now, language)
    except Exception as error:  # noqa: BLE001 - another library's failure on an input is a result here
        print(f"{type(error).__name__} on {text!r}: {error}")
        return None


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.rstrip("Z"))


def _inside(at: datetime, answer: tuple[Any, ...]) -> bool:
    start, end = answer
    return (start is None or at >= start) and (end is None or at < end)
