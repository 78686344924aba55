"""Reads times in questions and texts: joins the matches of ``grammar`` to ranges, and converts them to UTC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo

from pam_retriever.errors import InvalidInput
from pam_retriever.timewords.ahead import looks_ahead, pattern
from pam_retriever.timewords.grammar import atoms
from pam_retriever.timewords.lexicon import LANGUAGES, PERFECT, Token
from pam_retriever.timewords.match import Atom, Context, part_of
from pam_retriever.timewords.periods import DAY, OPEN_END, OPEN_START, Period, Span, midnight, moved, unit_at
from pam_retriever.timewords.titles import without_titles
from pam_retriever.timewords.tokens import language_of, names_a_time, tokenize

MAX_CHARACTERS = 20_000  # of a text; the rest is not read
MAX_PERIODS = 64  # per text
_FIRST_YEAR, _LAST_YEAR = 1000, 9000  # of the reference time; relative words are not read in other years
_END = re.compile(r"(?<![\d.])(?<!\b[A-Z][a-z]{2})(?<!\bSept)[.?!;]+[\"')\]]*\s+|[。？！\n]+")
_GOVERNORS = frozenset("inrhsBabfguqvo")
_AS_OF = re.compile(
    r"\bas (?:of|said|told|[a-z]{3,}ed)(?: by \w+)?(?: (?:on|in|at|of|during))?(?: the)? $", re.IGNORECASE
)
_ABOUT_WORDS = re.compile(
    r"\W*what (?:does|is) ['\"]?[\w-]+(?: [\w-]+){0,3}['\"]? (?:mean|stand for|short for)\W*$", re.IGNORECASE
)  # "what does YTD mean"
_SECOND = timedelta(seconds=1)
_FAR_PAST, _FAR_FUTURE = datetime.min, datetime.max


def read_question(text: str, now: datetime | None = None, *, language: str | None = None) -> list[Period]:
    """Returns the periods in a question ("last week", "in July", "between March and May 2022").

    A month, a weekday or a holiday without a year means the latest that has begun. If the question looks ahead ("What
    will we do in June?"), it means the next.

    Args:
        text: the question; only its first ``MAX_CHARACTERS`` are read.
        now: the time to which "yesterday" refers; the clock by default. A naive time is UTC; an aware one determines
            the zone of the days.
        language: "en", "de", "fr", "es" or "zh"; detected by default.

    Returns:
        At most ``MAX_PERIODS`` periods in the order of the text; none for a text without a time.

    Raises:
        MissingExtra: a time in the text needs the extra ``times``, which is not installed.
    """
    periods = _read(text, now, language, whole=True)
    for period in periods if len(periods) > 1 else ():
        if period.kind == "day" and _AS_OF.search(text, 0, period.span[0]):  # "last Friday, as of 9 June 2023"
            known = _read(text, (period.end - _SECOND).astimezone(local_time(now)[1]), language, whole=True)
            return [replace(one, relative=False) for one in known]
    return periods


def read_text(text: str, said_at: datetime | None = None, *, language: str | None = None) -> list[Period]:
    """Returns the periods in a text, relative to the time at which it was said.

    Like ``read_question``, but decides for each sentence whether it looks ahead.
    """
    return _read(text, said_at, language, whole=False)


def _read(text: str, now: datetime | None, language: str | None, whole: bool) -> list[Period]:
    local, zone = local_time(now)
    if language is not None and language not in LANGUAGES:
        raise InvalidInput(
            f"language={language!r}.", f"one of {', '.join(LANGUAGES)}", "Leave it out to have it found."
        )
    text = text[:MAX_CHARACTERS]
    if whole and _ABOUT_WORDS.match(text):
        return []
    if not _FIRST_YEAR <= local.year <= _LAST_YEAR or not names_a_time(text, 0, len(text)):
        return []
    parts = [(0, len(text))] if whole else _parts(text)
    parts = [(first, last) for first, last in parts if len(parts) == 1 or names_a_time(text, first, last)]
    if not parts:
        return []
    language = language or language_of(text)
    periods: list[Period] = []
    named = without_titles(text)
    for first, last in parts:
        tokens = tokenize(named, language, first, last)
        for sentence in [tokens] if whole else _sentences(tokens):
            found_ahead = (
                looks_ahead(text, sentence[0].start, sentence[-1].end, language, not whole) if sentence else ""
            )
            timed = whole and any(token.code == "C" for token in sentence)  # only a time of day asks for what was
            past = timed and pattern(PERFECT[language]).search(text) is not None
            context = Context(local, language, found_ahead == "future", past, found_ahead == "planned")
            found = atoms(sentence, context)
            if found:
                periods.extend(_joined(sentence, found, context, text, zone))
        if len(periods) >= MAX_PERIODS:
            break
    return periods[:MAX_PERIODS]


def _parts(text: str) -> list[tuple[int, int]]:
    """Returns the positions of parts of a text that end with a sentence.

    A full stop after a figure or after at most three letters may not end a sentence.
    """
    ends = [match.end() for match in _END.finditer(text)]
    return list(zip([0, *ends], [*ends, len(text)], strict=True))


def local_time(now: datetime | None) -> tuple[datetime, tzinfo]:
    """Returns a naive local time and its zone: UTC for a naive time, the clock for None."""
    if now is None:
        now = datetime.now(timezone.utc)
    zone = now.tzinfo or timezone.utc
    return now.replace(tzinfo=None, microsecond=0), zone


def to_utc(at: datetime, zone: tzinfo) -> datetime:
    """Converts a local time to UTC: the first of two when clocks go back; limited to the years 1 to 9999."""
    if at in (_FAR_PAST, _FAR_FUTURE):
        return OPEN_START if at == _FAR_PAST else OPEN_END
    try:
        return at.replace(tzinfo=zone).astimezone(timezone.utc)
    except OverflowError:
        return OPEN_START if at.year < 5000 else OPEN_END


def _sentences(tokens: list[Token]) -> Iterator[list[Token]]:
    first = 0
    for at, token in enumerate(tokens):
        if token.code == "." and token.text in ".?!;。？！":
            yield tokens[first : at + 1]
            first = at + 1
    yield tokens[first:]


class _Joiner:
    """Joins times to ranges, and applies "since", "before" and "after"."""

    def __init__(self, tokens: list[Token], context: Context) -> None:
        self.codes = "".join(token.code for token in tokens)
        self.tokens, self.context = tokens, context

    def between(self, left: Atom, right: Atom) -> str:
        return self.codes[left.last + 1 : right.first]

    def before(self, atom: Atom) -> str:
        """Returns the codes of up to three preceding tokens, without articles."""
        front = self.codes[max(0, atom.first - 3) : atom.first].replace("t", "")
        return front[:-1] if front.endswith("uh") else front  # "bis zum 10."

    def resolve(self, atom: Atom, anchor: datetime | None = None, future: bool | None = None) -> Span | None:
        try:
            return atom.resolve(anchor or self.context.now, self.context.future if future is None else future)
        except (ValueError, OverflowError):  # outside the years 1 to 9999
            return None

    def is_range(self, left: Atom, right: Atom) -> bool:
        link, front = self.between(left, right), self.before(left)
        if left.kind == right.kind == "year" and left.weak and right.weak and left.first and "#" not in link:
            dash = not self.tokens[left.last + 1].text.isalpha()
            governors = "fbiso" if self.context.language in ("fr", "es") else "fbis"  # "de 2018 a 2020"
            if not dash and front[-1:] not in governors:
                return False  # "add 1000 to 2000"
        if re.fullmatch(r"#?ut?[hni]?t?", link):
            return True
        return bool(re.fullmatch(r"&[fi]?t?", link)) and front.endswith("b")

    def range(self, left: Atom, right: Atom) -> Span | None:
        """Joins two times to a range. A start without a year is the last one before the end."""
        end = self.resolve(right)
        if end is None:
            return None
        start = self.resolve(left, end[0], False) if not left.fixed else self.resolve(left)
        if start is None or start[0] >= end[1]:
            return None
        return start[0], end[1]

    def list_item(self, left: Atom, right: Atom) -> Span | None:
        """Gives the left part of "March and May 2023" the year of the right part."""
        end = self.resolve(right)
        if not left.fixed and right.fixed and left.kind == right.kind and end is not None:
            return self.resolve(left, end[0], False)
        return self.resolve(left)

    def governed(self, atom: Atom) -> bool:
        """Whether a preposition precedes the time, or nothing else is in the text."""
        if atom.first == 0:
            return atom.fixed and atom.kind != "year"
        front = self.codes[: atom.first].rstrip("t")
        if front.endswith("u") and not self.tokens[len(front) - 1].text.isalpha():
            return False  # a dash
        if atom.kind == "year" and front.endswith("u") and self.tokens[len(front) - 1].text.lower() in ("to", "à", "a"):
            return False  # "add 1000 to 2000"
        return (
            bool(front)
            and front[-1] in _GOVERNORS
            and not (atom.kind == "year" and front[-1] in "onhrv" and not (front[-1] == "r" and self.context.future))
        )


def _joined(tokens: list[Token], found: list[Atom], context: Context, text: str, zone: tzinfo) -> list[Period]:
    joiner = _Joiner(tokens, context)
    periods: list[Period] = []
    ends, at, listed = _ends_of_lists(joiner, found), 0, False
    while at < len(found):
        atom = found[at]
        following = found[at + 1] if at + 1 < len(found) else None
        if following is not None and joiner.is_range(atom, following):
            span = joiner.range(atom, following)
            if span is not None:
                periods.append(_period(tokens, joiner, atom.first, following.last, span, "range", text, zone))
                at += 2
                listed = False
                continue
        shifted = _shifted(tokens, joiner, atom)
        if shifted is not None:
            first, span, kind = shifted
            while periods and periods[-1].span[1] > tokens[first].start:
                periods.pop()  # "Sunday" of "the Sunday before 10 September"
            periods.append(_period(tokens, joiner, first, atom.last, span, kind, text, zone))
        elif not atom.weak or _named_with_year(atom) or joiner.governed(atom) or listed or _gets_year(atom, ends[at]):
            plain = joiner.resolve(atom) if (end := ends[at]) is None else joiner.list_item(atom, end)
            if plain is not None:
                first, last, span, kind = _bounded(joiner, atom, plain)
                periods.append(_period(tokens, joiner, first, last, span, kind, text, zone))
            listed = ends[at] is not None
        at += 1
    return [period for period in periods if period.start < period.end]


def _ends_of_lists(joiner: _Joiner, found: list[Atom]) -> list[Atom | None]:
    """Returns the last time of the list that each time begins or continues ("May, June and July"); None without one."""
    ends: list[Atom | None] = [None] * len(found)
    for at in range(len(found) - 2, -1, -1):
        atom, following, link = found[at], found[at + 1], joiner.between(found[at], found[at + 1])
        if re.fullmatch(r"&[inf]?t?", link):
            ends[at] = ends[at + 1] or following
        elif link == "," and atom.kind == following.kind:
            ends[at] = ends[at + 1]
    return ends


def _gets_year(atom: Atom, end: Atom | None) -> bool:
    """Whether a time is a time by the year of the last one of its list: "June" of "June and July 2022"."""
    return end is not None and _named_with_year(end) and end.kind == atom.kind


def _named_with_year(atom: Atom) -> bool:
    """Whether it is a month, a season or a holiday with its year, which is a time without a preposition."""
    return atom.fixed and atom.kind != "year"


def _bounded(joiner: _Joiner, atom: Atom, span: Span) -> tuple[int, int, Span, str]:
    """Applies "since", "before", "after", "until" or "around" to a span."""
    front, behind = joiner.before(atom)[-1:], joiner.codes[atom.last + 1 : atom.last + 2]
    first = atom.first - 1 if front else atom.first
    while front and joiner.codes[first] in ("t" if front != "u" else "th"):
        first -= 1
    start, end = span
    today = midnight(joiner.context.now) + DAY
    if front in ("a", "B") and joiner.codes[first - 2 : first] == "n&":  # "on or after 1 March"
        return first - 2, atom.last, (start, _FAR_FUTURE) if front == "a" else (_FAR_PAST, end), "since"
    clause = _SINCE.search(joiner.codes, 0, atom.first)
    if behind == "y" or front == "s" or clause is not None:
        begin = atom.first if behind == "y" else clause.start() if clause is not None else first
        until = max(today, end) if start >= today else today
        return begin, atom.last + (behind == "y"), (start, until), "since"
    return _on_one_side(joiner, atom, span, front, behind, first)


def _on_one_side(
    joiner: _Joiner, atom: Atom, span: Span, front: str, behind: str, first: int
) -> tuple[int, int, Span, str]:
    """Applies "before", "after", "until" or "around"; ``front`` and ``behind`` are the codes beside the time."""
    start, end = span
    if behind and (behind == "p" or (behind in "AF" and joiner.context.language == "zh")):
        behind = "p" if behind == "F" else behind
        open_span = (end, _FAR_FUTURE) if behind == "p" else (_FAR_PAST, start)
        if joiner.codes[atom.last] == "C":  # of that day: "昨天晚上十点以后"
            open_span = (start, midnight(start) + DAY) if behind == "p" else (midnight(start), start)
        return atom.first, atom.last + 1, open_span, "after" if behind == "p" else "before"
    if front == "f" and joiner.tokens[first].text.lower() == "ab":
        return first, atom.last, (start, _FAR_FUTURE), "after"
    if front == "f" and (behind == "j" or re.match(r"n(?:[.,]|$)", joiner.codes[atom.last + 1 :])):
        return first, atom.last + 1, (start, _FAR_FUTURE), "after"
    if front == "B":
        return first, atom.last, (_FAR_PAST, start), "before"
    if front == "a":
        return first, atom.last, (end, _FAR_FUTURE), "after"
    if front == "q" or (front == "u" and joiner.tokens[first].text.lower() in ("until", "till", "bis", "hasta")):
        return first, atom.last, (_FAR_PAST, end), "until"
    if front == "g" and atom.kind == "day":
        return first, atom.last, (start - 3 * DAY, end + 3 * DAY), "range"
    return atom.first, atom.last, span, atom.kind


_SINCE = re.compile(r"s[xZtuo]{1,8}[inh]t?$")  # "since I moved to Leeds in" 2021
_RELATIVE = re.compile(
    r"(?!.*[YDJ])(?:.*[LXTVRAFe]|[^MHSQGKO]*$)"
)  # "last week", "on Monday", unlike "last week of May 2023"
_SHIFT = re.compile(r"(?:(?P<count>[NtwL])?(?P<unit>U)|L?t?(?P<weekday>W)|(?P<part>P))(?P<side>[Baof])t?$")
_DAYS = frozenset(["day", "range", "minute", "hour"])
_CALENDAR = frozenset(["week", "weekend", "month", "quarter", "season", "year", "part of month"])


def _shifted(tokens: list[Token], joiner: _Joiner, atom: Atom) -> tuple[int, Span, str] | None:
    """Reads "two days before Christmas", "the Sunday before 25 May", "the week of 10 May"."""
    if atom.kind not in _DAYS | _CALENDAR:
        return None
    matched = _SHIFT.search(joiner.codes, max(0, atom.first - 5), atom.first)
    span = joiner.resolve(atom)
    if matched is None or span is None or matched.end() != atom.first:
        return None
    side = matched["side"]
    if side == "f" and joiner.context.language in ("de", "fr"):
        side = "o"  # "die Woche vom 12. Juli"
    if side == "f" or (side == "o" and atom.kind not in _DAYS):
        return None
    try:
        if matched["weekday"]:
            number = int(tokens[matched.start("weekday")].value)
            return None if side == "o" else (matched.start(), _weekday_beside(span, number, side), "day")
        if matched["part"]:  # "the night before Christmas"
            day = span[0] - DAY if side == "B" else span[1]
            part = str(tokens[matched.start("part")].value)
            return None if side == "o" else (matched.start(), part_of(midnight(day), part), "part of day")
        unit = str(tokens[matched.start("unit")].value)
        if side == "o":
            return (matched.start(), unit_at(unit, span[0]), unit) if unit in ("week", "weekend", "month") else None
        counted = tokens[matched.start("count")] if matched["count"] else None
        several = joiner.context.language == "en" and tokens[matched.start("unit")].text.lower().endswith("s")
        return matched.start(), _units_beside(span, unit, side == "B", counted, several), unit
    except (ValueError, OverflowError):  # outside the years 1 to 9999
        return None


def _weekday_beside(span: Span, number: int, side: str) -> Span:
    """Returns the last given weekday (Monday is 0) before a span, or the first after its first day."""
    ahead = (number - span[0].weekday()) % 7
    day = midnight(span[0]) + (((-ahead % 7) or 7) * -1 if side == "B" else (ahead or 7)) * DAY
    return day, day + DAY


def _units_beside(span: Span, unit: str, before: bool, counted: Token | None, several: bool) -> Span:
    """Returns the weekend, day, seven days or month before or after a span, or a span this many units away.

    "A few days" are two to five, and "the days" one to five.
    """
    start, end = span
    if unit == "weekend":
        first, last = unit_at("weekend", start)
        while before and last > start:
            first, last = first - 7 * DAY, last - 7 * DAY
        while not before and first < end:
            first, last = first + 7 * DAY, last + 7 * DAY
        return first, last
    few = counted is not None and counted.code == "w" and counted.value == 1
    if few or (several and (counted is None or counted.code == "t")):
        if before:
            return moved(start, unit, -5), moved(start, unit, -int(few))
        return moved(end, unit, int(few)), moved(end, unit, 5)
    if counted is not None and counted.code in "Nw":
        count = int(counted.value) if counted.code == "N" else 2
        return unit_at(unit, moved(start, unit, -count if before else count))
    return (moved(start, unit, -1), start) if before else (end, moved(end, unit, 1))


def _period(
    tokens: list[Token], joiner: _Joiner, first: int, last: int, span: Span, kind: str, text: str, zone: tzinfo
) -> Period:
    front = "nih" if "A" in joiner.codes[first : last + 1] else "tnih"  # "a week ago" keeps its article
    while first < last and joiner.codes[first] in front and kind not in ("since", "before", "after", "until"):
        first += 1
    start, end = tokens[first].start, tokens[last].end
    aware = span[0].tzinfo is not None
    times = [at.astimezone(timezone.utc) if aware and at.tzinfo is not None else to_utc(at, zone) for at in span]
    relative = _RELATIVE.match(joiner.codes, first, last + 1) is not None
    return Period(times[0], times[1], text[start:end], (start, end), kind, relative)
