"""A match of a rule of the grammar, and the times that rules derive from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone, tzinfo
from functools import cached_property

from pam_retriever.timewords.hours import timed
from pam_retriever.timewords.lexicon import Token
from pam_retriever.timewords.periods import DAY, Span, midnight, moved, occurrence

Resolve = Callable[[datetime, bool], Span | None]  # (the reference instant, whether the text looks ahead)


@dataclass(frozen=True)
class Context:
    """The context of a text: the current local time, the language, and what the text is about."""

    now: datetime
    language: str
    look: Callable[[], str] = str  # returns what ``looks_ahead`` finds; most sentences have no time that needs it
    past: bool = False  # whether it is a question about the past
    said: bool = False  # whether it is a text, not a question
    zone: tzinfo = timezone.utc  # of the local time

    @cached_property
    def ahead(self) -> str:
        """What ``looks_ahead`` finds: "future", "present", "planned", "asked", "lasting" or nothing."""
        return self.look()

    @property
    def future(self) -> bool:
        """Whether the text looks ahead."""
        return self.ahead in ("future", "present", "asked")

    def moved(self, unit: str, count: float) -> datetime:
        """Returns the local time this many units from now; hours and minutes are those that pass if clocks change."""
        if unit not in ("hour", "minute"):
            return moved(self.now, unit, count)
        passed = moved(self.now.replace(tzinfo=self.zone).astimezone(timezone.utc), unit, count)
        return passed.astimezone(self.zone).replace(tzinfo=None)


@dataclass(frozen=True)
class Atom:
    """A time in the tokens ``first`` to ``last``.

    Attributes:
        resolve: returns the span. The reference instant matters only if the words do not give the year.
        kind: the finest unit that the words name.
        fixed: whether the words name one occurrence (by a year, or by "last").
        weak: whether the words are a time only after a preposition, or in a range.
    """

    first: int
    last: int
    resolve: Resolve
    kind: str
    fixed: bool = True
    weak: bool = False


class Match:
    """The tokens that a rule matched, by code."""

    def __init__(self, tokens: list[Token], first: int, last: int, context: Context) -> None:
        self.tokens, self.first, self.last, self.context = tokens, first, last, context
        self._by_code: dict[str, list[Token]] = {}
        for token in tokens[first : last + 1]:
            self._by_code.setdefault(token.code, []).append(token)

    def has(self, code: str) -> bool:
        return code in self._by_code

    def number(self, code: str, nth: int = 0) -> int:
        return int(self._by_code[code][nth].value)

    def word(self, code: str, nth: int = 0) -> str:
        return str(self._by_code[code][nth].value)

    def token(self, code: str) -> Token:
        return self._by_code[code][0]

    def codes(self) -> str:
        return "".join(token.code for token in self.tokens[self.first : self.last + 1])

    def next(self, ahead: int = 1) -> Token | None:
        at = self.last + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def atom(self, resolve: Resolve, kind: str, fixed: bool = True, weak: bool = False) -> Atom:
        return Atom(self.first, self.last, resolve, kind, fixed, weak)

    def fixed(self, span: Span | None, kind: str) -> Atom | None:
        return None if span is None else self.atom(lambda _anchor, _future: span, kind)

    def yearly(self, of: Callable[[int], Span | None], kind: str, weak: bool = False) -> Atom:
        def resolve(anchor: datetime, future: bool) -> Span | None:
            return occurrence(of, anchor, future)

        return self.atom(resolve, kind, fixed=False, weak=weak)


def day_in(year: int, month: int, day: int) -> Span | None:
    """Returns a day; None if the month does not have it."""
    try:
        start = datetime(year, month, day)
    except ValueError:
        return None
    return start, start + DAY


def year_of(match: Match) -> int | None:
    """Returns the year in the match, as a number or as "last year"."""
    if match.has("Y"):
        return match.number("Y")
    if match.has("U") and match.word("U", -1) == "year":
        if match.has("R"):
            return None
        if match.has("A") or match.has("B"):  # "in March two years ago", "im Sommer vor zwei Jahren"
            unit = max(at for at in range(match.first, match.last + 1) if match.tokens[at].code == "U")
            count = match.tokens[unit - 1]
            return match.context.now.year - (int(count.value) if count.code == "N" else 1)
        return match.context.now.year + (1 if match.has("X") else 0 if match.has("T") else -1)
    return None


def leads(match: Match) -> bool:
    """Whether a match begins with a unit that is no year: "last week in June" has two times."""
    return match.tokens[match.first].code in "LXTU" and match.has("U") and year_of(match) is None


def in_year(match: Match, of: Callable[[int], Span | None], kind: str, weak: bool = False) -> Atom | None:
    """Returns the occurrence in the year of the match; without a year, the reference instant determines it."""
    year = year_of(match)
    return match.yearly(of, kind, weak) if year is None else match.fixed(of(year), kind)


def daily(match: Match, of: Callable[[int], Span | None]) -> Atom | None:
    """Reads a day of a month, with or without a year and a time of day."""
    year = year_of(match)
    kind = timed(match, (datetime(2000, 1, 1), datetime(2000, 1, 2)), "day")[1]
    if year is not None:
        return match.fixed(timed(match, of(year), "day")[0], kind)
    found = match.yearly(lambda y: timed(match, of(y), "day")[0], kind)
    return _on_weekday(found, match.number("W")) if match.has("W") else found


def _on_weekday(atom: Atom, weekday: int) -> Atom:
    """Returns a day of a month in the next year, or the last, if it is this weekday there only: "Friday, 7 June"."""

    def resolve(anchor: datetime, future: bool) -> Span | None:
        usual, other = atom.resolve(anchor, future), atom.resolve(anchor, not future)
        named = [span for span in (usual, other) if span is not None and span[0].weekday() == weekday]
        return named[0] if named else usual

    return replace(atom, resolve=resolve)


def counted(match: Match, of: Callable[[int], Span | None], kind: str) -> Atom | None:
    """Returns an annual occurrence: the last past one, the next one, or the occurrence of this year."""
    now = match.context.now
    if match.has("L") or match.has("V"):
        found = occurrence(of, midnight(now), False, over=True)
        for _ in range(match.number("L") - 1 if match.has("L") else 0):  # "the summer before last"
            found = found and occurrence(of, found[0], False, over=True)
        return match.fixed(found, kind)
    if match.has("X"):
        found = occurrence(of, now, True)
        if found is not None and found[0] <= now:
            found = occurrence(of, found[1], True)
        for _ in range(match.number("X") - 1):  # "the March after next"
            found = found and occurrence(of, found[1], True)
        return match.fixed(found, kind)
    before, this = of(now.year - 1), of(now.year)
    if (
        before
        and this
        and before[1].year == now.year
        and (now < before[1] or (not match.context.future and now - before[1] < this[0] - now))
    ):
        return match.fixed(before, kind)  # "this winter", asked in January or in April
    return match.fixed(this, kind)
