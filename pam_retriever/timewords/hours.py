"""Times of day, and parts of a day, beside the day that they belong to."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pam_retriever.timewords import dates
from pam_retriever.timewords.periods import Span

if TYPE_CHECKING:
    from pam_retriever.timewords.match import Match

HOURS = re.compile(r"(?:b[gh]?t?[NC]&|fh?t?[NC]u|Cu)t?[NC]|NuC")  # "between 9 and 11", "from 2 to 4 pm"
_RANGE = rf"(?:(?:b[gh]?t?[NC]&|fh?t?[NC]u|[CN]u)t?C|(?:{HOURS.pattern})(?![xUM]))"
PART = "(?:v?[io]?t?v?P)"  # "morning", "early in the morning", "in the early hours"
# a time of day behind its day, and before it
AT = (
    rf"(?:{_RANGE}|[aBqf]?[hgu]?[hgu]?t?C(?!n?t?(?:M[NO]|[NO]o?M|D|R))(?:[ofi]?t?P)?"
    rf"|PC|[hi]t?P|v{PART}|[hg]t?N(?:it?P|(?=[.,]|$)))"
)
CLOCK = rf"(?:(?:{_RANGE}|[aBq]?[hg]?C|[hg]N(?=n?R|nW)|PoC),?[no]?t?)"
_SPOKEN = re.compile(r"[hg]t?N(?:it?P)?$|^[hg]N|^[aBq]N(?=t?[LT]P)")  # "Friday around 3", "around 6 this evening"
_AFTER_NOON = re.compile("1[3-9]|2[0-3]")
_AFTERNOON = re.compile(r"[1-6](?:[:h][\d:]*)?")  # of a time of day without am, pm or a zero


def part_of(day: datetime, part: str) -> Span:
    """Returns the part of a day; the night ends on the next."""
    first, length = {"dawn": (0, 6), "morning": (6, 6), "afternoon": (12, 6), "evening": (18, 6), "night": (18, 12)}[
        part
    ]
    start = day + timedelta(hours=first)
    return start, start + timedelta(hours=length)


def timed(match: Match, span: Span | None, kind: str) -> tuple[Span | None, str]:
    """Narrows a day to the time of day, or the part of the day, that the match names beside it."""
    if span is None:
        return None, kind
    named = [at for at in range(match.first, match.last + 1) if match.tokens[at].code in "NC"]
    codes = match.codes()
    if (two := HOURS.search(codes)) is not None:
        ends = [at for at in named if match.first + two.start() <= at < match.first + two.end()]
        last = _hour(match, ends[1], "")
        first = last and _hour(match, ends[0], match.tokens[ends[1]].text)
        if first and last and (first[0], first[1]) < (last[0], last[1]):
            start, end = (span[0].replace(hour=hour, minute=minute) for hour, minute, _ in (first, last))
            return (start, end), "hour"
        return span, kind
    spoken = _SPOKEN.search(codes) is not None
    if match.has("C") or spoken:
        at = named[-1] if spoken else next(at for at in named if match.tokens[at].code == "C")
        read = _hour(match, at, "")
        if read is None:
            return span, kind
        hour, minute, unit = read
        start = span[0].replace(hour=hour, minute=minute)
        side = codes[: at - match.first].rstrip("thg")[-1:]
        if side == "B" and start == span[0] and any(match.has(code) for code in "WRMD"):
            start = span[1]  # "just before midnight on Saturday"
        if side and side in "aBqf":
            return ((start, span[1]) if side in "af" else (span[0], start)), "hour"
        return (start, start + (timedelta(minutes=1) if unit == "minute" else timedelta(hours=1))), unit
    if match.has("P"):
        return part_of(span[0], match.word("P")), "part of day"
    return span, kind


def _hour(match: Match, at: int, other: str) -> tuple[int, int, str] | None:
    """Returns hour, minute and unit of a time of day, or of the start of a range that ends with ``other`` ("4 pm")."""
    token = match.tokens[at]
    text = str(token.value)
    read = dates.clock(text if token.code == "C" else f"{text}h")
    half = re.search(r"[ap]\.?m", other.lower())
    if half and not re.search(r"[ap]\.?m", text):
        read = dates.clock(f"{text.removesuffix('h')} {half[0]}") or read
    if read is None:
        return None
    hour, minute, unit = read
    part = match.word("P") if match.has("P") else ""
    spoken = match.context.language in ("en", "es") and not part and not half and _AFTERNOON.fullmatch(text)
    # "from 22:00 yesterday to 4:00"
    whole_day = any(token.code == "C" and _AFTER_NOON.match(str(token.value)) for token in match.tokens)
    if hour < 12 and (part not in ("", "morning", "dawn") or (spoken and not whole_day)):
        hour += 12  # "yesterday evening at 8", "yesterday at 4:30"
    return hour, minute, unit
