"""Joins the times of a sentence to ranges, and applies "since", "before", "after", "until" and "or later"."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

from pam_retriever.timewords.beside import at_clock, shifted
from pam_retriever.timewords.lexicon import MOVED, Token, listed
from pam_retriever.timewords.match import Atom, Context
from pam_retriever.timewords.periods import DAY, Span, midnight
from pam_retriever.timewords.titles import is_title

FAR_PAST, FAR_FUTURE = datetime.min, datetime.max  # of a span with an open end
_GOVERNORS = frozenset("inrhsBabfguqvo")
_SECOND = timedelta(seconds=1)
_NEAR_YEARS = 20  # from now; "for 2000" is a price
_BOOKED = listed(
    "booked booking bookings reserve reserved reservation schedule scheduled ticket tickets tix goal goals target"
    " targets budget gebucht reserviert karten ziele réservé réservation billets objectifs reservé reserva reservamos"
    " entradas billetes metas presupuesto"
)
_PASSED = listed("come comes came coming stop stops stopped drop drops dropped swing swung pass passed go went")
_WHO = listed("i you he she we they to")
_OR_BEYOND = re.compile(r"&(?:[ejpA](?=[.,ox]|$)|[aB](?=[.,]|$))")
_UNTIL = listed("until till til bis hasta jusqu'à jusqu'en jusqu'au jusqu’à jusqu’en jusqu’au")
_NEAR = listed("just right shortly soon immediately directly kurz direkt gleich juste justo poco peu")
_AND = ("and", "und", "et", "y")
_SINCE = re.compile(r"s[xZtuo]{1,8}[inh]t?$")  # "since I moved to Leeds in" 2021


class Time(NamedTuple):
    """A time in the tokens ``first`` to ``last``: its local span, and its kind (``Period.kind``)."""

    first: int
    last: int
    span: Span
    kind: str


class Joiner:
    """Joins times to ranges, and applies "since", "before" and "after"."""

    def __init__(self, tokens: list[Token], context: Context) -> None:
        self.codes = "".join(token.code for token in tokens)
        self.tokens, self.context = tokens, context

    def between(self, left: Atom, right: Atom) -> str:
        return self.codes[left.last + 1 : right.first]

    def before(self, atom: Atom) -> str:
        """Returns the codes of up to three preceding tokens, without articles."""
        front = self.codes[max(0, atom.first - 3) : atom.first].replace("t", "")
        if front.endswith("q") and self.tokens[max(0, atom.first - 2)].text.lower() in _PASSED:
            return front[:-1]  # "did the plumber come by yesterday"
        if front.endswith("g") and (self.codes[atom.first] == "n" or self.tokens[max(0, atom.first - 2)].text == "be"):
            return front[:-1]  # "is Ann around on Friday", "won't be around tomorrow"
        return front[:-1] if front.endswith("uh") else front  # "bis zum 10."

    def resolve(self, atom: Atom, anchor: datetime | None = None, future: bool | None = None) -> Span | None:
        try:
            if future is None and not atom.fixed:
                if self.is_booked(atom) or (self.context.ahead == "planned" and self.is_yearly(atom)):
                    return self.nearest(atom)
                if self.context.ahead == "lasting" and self.is_until(atom):
                    future = True  # "Is he away until June?"
                asked = self.context.ahead in ("present", "asked") and self.context.language != "fr"  # "du 14 juillet"
                front = self.tokens[max(0, atom.first - 3) : atom.first]
                opened = any(token.value == "open" or token.text in ("up", "down") for token in front)  # "goes up from"
                if asked and not opened and re.search("fB?$|g$", self.before(atom)):
                    future = False  # "Do I have time for the report from Friday?"
            return atom.resolve(anchor or self.context.now, self.context.future if future is None else future)
        except (ValueError, OverflowError):  # outside the years 1 to 9999
            return None

    def is_booked(self, atom: Atom) -> bool:
        """Whether something was planned for a time: "which flights did I book for June", "moved to Friday"."""
        before = self.tokens[max(0, atom.first - 5) : atom.first]  # "moved my appointment to"
        if self.codes[: atom.first].endswith("u") and any(token.text.lower() in MOVED for token in before):
            return True
        return self.before(atom)[-1:] == "r" and self.tells_of_booking

    @cached_property
    def tells_of_booking(self) -> bool:
        """Whether the sentence says that something is booked; asked for each of its times, so kept."""
        words = [token.text.lower() for token in self.tokens]
        verb = any(word == "book" and before in _WHO for before, word in pairwise(words))  # unlike "the book for March"
        return verb or not _BOOKED.isdisjoint(words)

    def is_until(self, atom: Atom) -> bool:
        """Whether "until" or "by" precedes a time."""
        front = self.before(atom)[-1:]
        words = [token.text.lower() for token in self.tokens[max(0, atom.first - 3) : atom.first]]
        return front == "q" or (front == "u" and not _UNTIL.isdisjoint(words))

    def is_yearly(self, atom: Atom) -> bool:
        """Whether a time comes once in a year, and is no time of a thing: "the invoice from October"."""
        named = "W" not in self.codes[atom.first : atom.last + 1]
        return named and not (self.context.said and self.before(atom)[-1:] == "f")

    def nearest(self, atom: Atom) -> Span | None:
        """Returns the occurrence that is nearest to now; the next for a plan in a text."""
        now = self.context.now
        last, following = (atom.resolve(now, future) for future in (False, True))
        if last is None or following is None or (self.context.said and self.is_booked(atom)):
            return following or last
        return min(last, following, key=lambda span: abs(span[0] - now))

    def is_range(self, left: Atom, right: Atom) -> bool:
        link, front = self.between(left, right), self.before(left)
        if left.kind == right.kind == "year" and left.weak and right.weak and left.first and "#" not in link:
            dash = not self.tokens[left.last + 1].text.isalpha()
            governors = "fbiso," if self.context.language in ("fr", "es") else "fbis,"  # "de 2018 a 2020"
            if not dash and front[-1:] not in governors and self.link(left) not in ("through", "thru", "until", "till"):
                return False  # "add 1000 to 2000"
        if re.fullmatch(r"#?ut?[hni]?t?", link) or self.is_french_to(link, left, front):
            return True
        return bool(re.fullmatch(r"&[fi]?t?", link)) and front.endswith("b")

    def is_french_to(self, link: str, left: Atom, front: str) -> bool:
        """Whether the words between two times are those of "vom 5. zum 16. August", "10 juin au 1er juillet"."""
        french = self.context.language == "fr" and "M" in self.codes[left.first : left.last + 1]
        return re.fullmatch("ht?", link) is not None and (front.endswith("f") or french)

    def range(self, left: Atom, right: Atom) -> Span | None:
        """Joins two times to a range. A start without a year is the last one before the end."""
        end = self.resolve(right, future=True if left.kind == "now" or self.has_begun(left, right) else None)
        start = end and (self.resolve(left) if left.fixed else self.resolve(left, end[0], False))
        if start is None or end is None:
            return None
        if right.kind in ("minute", "hour"):
            end = end[0], end[0]  # "from 23:00 on 31 December to 01:00 on 1 January"
        codes = self.codes[left.first : left.last + 1]
        if "Y" in codes and left.kind != "year" and not right.fixed:  # "March 2022 to May"
            end = self.resolve(right, start[0], True)
        elif start[0] >= end[1] and codes.endswith("LW"):  # "last Monday to Thursday", asked on a Wednesday
            start = start[0] - 7 * DAY, start[1]
        elif start[0] >= end[1] and left.fixed and not right.fixed:  # "next Tuesday to Friday"
            end = self.resolve(right, start[0], True)
        return (start[0], end[1]) if end is not None and start[0] < end[1] else None

    def has_begun(self, left: Atom, right: Atom) -> bool:
        """Whether a range of days has begun: "between Christmas and New Year", asked on 30 December."""
        days = left.kind == right.kind == "day" and "W" not in self.codes[left.first : right.last + 1]
        if not days or left.fixed or right.fixed:
            return False
        end = self.resolve(right, future=True)
        start = end and self.resolve(left, end[0], False)
        return start is not None and start[0] <= self.context.now

    def list_item(self, left: Atom, right: Atom) -> Span | None:
        """Gives the left part of "March and May 2023" the year of the right part."""
        end = self.resolve(right)
        if not left.fixed and right.fixed and left.kind == right.kind and end is not None:
            return self.resolve(left, end[0], False)
        return self.resolve(left)

    def names_an_end(self, atom: Atom) -> bool:
        """Whether a time is the end of a month or a year, before which is before its last day: "月底前"."""
        return any(token.value == "end" for token in self.tokens[atom.first : atom.last + 1])

    def link(self, atom: Atom) -> str:
        """Returns the word after a time."""
        return self.tokens[atom.last + 1].text.lower()

    def until_now(self, atom: Atom, front: str) -> int:
        """Returns how many tokens after a time make it last until now: "March to now", "between March and now"."""
        found = re.compile("y|[uq]{1,2}t?k" + ("|&t?k" if front == "b" else "")).match(self.codes, atom.last + 1)
        return 0 if found is None else len(found[0])

    def is_for_year(self, atom: Atom, front: str) -> bool:
        """Whether a year after "for" is one: "goals for 2024", unlike "sold for 2000", "for 2022 Leute"."""
        following = self.codes[atom.last + 1 : atom.last + 2]
        near = abs(int(self.tokens[atom.last].value) - self.context.now.year) <= _NEAR_YEARS
        return front == "r" and (self.context.future or (near and following != "Z"))

    def governed(self, atom: Atom) -> bool:
        """Whether a preposition precedes the time, or nothing else is in the text."""
        if self.until_now(atom, "") > 0 and (atom.first == 0 or atom.kind != "year"):
            return True
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
            and not (atom.kind == "year" and front[-1] in "onhrv" and not self.is_for_year(atom, front[-1]))
        )


def joined(tokens: list[Token], found: list[Atom], context: Context) -> list[Time]:
    """Returns the times that the atoms of a sentence mean together, in order."""
    joiner = Joiner(tokens, context)
    times: list[Time] = []
    found = _with_years(
        joiner, [atom for atom in found if not is_title(tokens, atom.first, atom.last, not context.said)]
    )
    found = _beside_others(joiner, _in_week(joiner, _that_year(joiner, found)))
    ends, at, listed = _ends_of_lists(joiner, found), 0, False
    while at < len(found):
        atom = found[at]
        following = found[at + 1] if at + 1 < len(found) else None
        if following is not None and joiner.is_range(atom, following):
            span = joiner.range(atom, following)
            if span is not None:
                times.append(Time(atom.first, following.last, span, "range"))
                at += 2
                listed = False
                continue
        if atom.kind == "now":
            listed = False
        elif not atom.weak or _named_with_year(atom) or joiner.governed(atom) or listed or _gets_year(atom, ends[at]):
            plain = joiner.resolve(atom) if (end := ends[at]) is None else joiner.list_item(atom, end)
            if plain is not None:
                with suppress(OverflowError):  # "around 1 January 0001" begins before the calendar
                    times.append(_bounded(joiner, atom, plain))
            listed = ends[at] is not None
        at += 1
    return times


def _in_week(joiner: Joiner, found: list[Atom]) -> list[Atom]:
    """Gives weekdays their week: "next week from Wednesday to Friday"."""
    placed: list[Atom] = []
    week: Span | None = None
    for atom in found:
        before = placed[-1] if placed else None
        link = joiner.between(before, atom) if before is not None else ""
        weekday = re.fullmatch("[nt]*W", joiner.codes[atom.first : atom.last + 1]) is not None
        if before is not None and weekday and before.kind == "week" and re.fullmatch("[bf]t?", link):
            week = joiner.resolve(placed.pop())
        elif not weekday or re.fullmatch("[u&]n?t?", link) is None:
            week = None
        if week is not None:
            day = week[0] + int(joiner.tokens[atom.last].value) * DAY
            atom = replace(atom, resolve=partial(_always, (day, day + DAY)), fixed=True)
        placed.append(atom)
    return placed


def _beside_others(joiner: Joiner, found: list[Atom]) -> list[Atom]:
    """Replaces times by those beside them: "the day after Christmas", "the 9:30 call on Monday"."""
    placed: list[Atom] = []
    for atom in found:
        if placed and atom.first <= placed[-1].last:
            continue  # the time of day of the one before
        moved = _moved(joiner, atom)
        while moved is not atom and placed and placed[-1].last >= moved.first:
            placed.pop()  # "Sunday" of "the Sunday before 10 September", "at 9:30" of "at the 9:30 call on Monday"
        placed.append(moved)
    return placed


def _moved(joiner: Joiner, atom: Atom) -> Atom:
    """Returns the time that the words beside a time make of it: once more for "the day after the day after"."""
    while True:
        beside, last = shifted(joiner, atom), atom.last
        if beside is None:
            timed = at_clock(joiner, atom)
            if timed is None:
                return atom
            first, last, span, kind = timed
        else:
            first, span, kind = beside
        atom = Atom(first, last, partial(_always, span), kind)


_CLAUSE = re.compile(r",?[xZt#nhirfo]*")  # between a time and its year: "the christmas party last year"
_YEARLY = frozenset(["month", "day", "season", "quarter", "part of month", "week", "weekend", "part of day"])


def _with_years(joiner: Joiner, found: list[Atom]) -> list[Atom]:
    """Gives a time without a year that of "last year" or "in 2022" beside it in its clause, and leaves that out."""
    merged: list[Atom] = []
    for atom in found:
        before = merged[-1] if merged else None
        for part, whole in ((before, atom), (atom, before)):
            if before is None or part is None or whole is None or not _is_year_of(joiner, part, whole):
                continue
            if _CLAUSE.fullmatch(joiner.between(before, atom)) is None:
                continue
            end = joiner.resolve(whole)
            span = end and joiner.resolve(part, end[1] - _SECOND, False)
            if end and span and end[0] <= span[0] < end[1]:
                merged[-1] = replace(part, resolve=partial(_always, span), fixed=True)
                break
        else:
            merged.append(atom)
    return merged


def _that_year(joiner: Joiner, found: list[Atom]) -> list[Atom]:
    """Gives a time after "that" the year of the time before it: "met in May 2018, married that October"."""
    placed: list[Atom] = []
    for atom in found:
        that = atom.first > 0 and joiner.tokens[atom.first - 1].text.lower() == "that" and not atom.fixed
        before = joiner.resolve(placed[-1]) if that and placed and placed[-1].fixed else None
        span = before and joiner.resolve(atom, before[0], True)
        placed.append(replace(atom, resolve=partial(_always, span), fixed=True) if span else atom)
    return placed


def _always(span: Span, _anchor: datetime, _future: bool) -> Span:
    return span


def _is_year_of(joiner: Joiner, part: Atom, whole: Atom) -> bool:
    """Whether one time comes every year, and the other is one year: "christmas" and "last year"."""
    named = joiner.codes[part.first : part.last + 1]
    years = joiner.codes[whole.first : whole.last + 1]
    relative = re.fullmatch("t?(?:[LXT]U|U[LX]|[Nt]UA|[AB][Nt]U)", years) is not None
    whole_year = (
        whole.kind == "year"
        and whole.fixed
        and (relative or (years == "Y" and (joiner.before(whole)[-1:] == "i" or not (whole.weak or part.weak))))
    )
    return whole_year and not part.fixed and part.kind in _YEARLY and re.search("[MHSQ]", named) is not None


def _ends_of_lists(joiner: Joiner, found: list[Atom]) -> list[Atom | None]:
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


def _bounded(joiner: Joiner, atom: Atom, span: Span) -> Time:
    """Applies "since", "before", "after", "until" or "around" to a span."""
    front, behind = joiner.before(atom)[-1:], joiner.codes[atom.last + 1 : atom.last + 2]
    first = atom.first - 1 if front else atom.first
    while front and joiner.codes[first] in ("t" if front != "u" else "th"):
        first -= 1
    start, end = span
    today = midnight(joiner.context.now) + DAY
    if front in ("a", "B") and joiner.codes[first - 2 : first] == "n&":  # "on or after 1 March"
        return Time(first - 2, atom.last, (start, FAR_FUTURE) if front == "a" else (FAR_PAST, end), "since")
    beyond = _OR_BEYOND.match(joiner.codes, atom.last + 1)  # "1 March or later", unlike "1 March and later that day"
    if beyond is not None and not (joiner.codes[beyond.end() :][:1] == "x" and joiner.link(atom) in _AND):
        token = joiner.tokens[beyond.end() - 1]
        earlier = token.code in "BA" or token.value == "earlier"
        return Time(atom.first, beyond.end() - 1, (FAR_PAST, end) if earlier else (start, FAR_FUTURE), "since")
    clause, now = _SINCE.search(joiner.codes, 0, atom.first), joiner.until_now(atom, front)
    if now or front == "s" or clause is not None:
        begin = atom.first if now else clause.start() if clause is not None else first
        until = max(today, end) if start >= today else today
        return Time(begin, atom.last + now, (start, until), "since")
    return _on_one_side(joiner, atom, span, front, behind, first)


def _on_one_side(joiner: Joiner, atom: Atom, span: Span, front: str, behind: str, first: int) -> Time:
    """Applies "before", "after", "until" or "around"; ``front`` and ``behind`` are the codes beside the time."""
    start, end = span
    if behind and (behind == "p" or (behind in "AF" and joiner.context.language == "zh")):
        behind = "p" if behind == "F" else behind
        open_span = (end, FAR_FUTURE) if behind == "p" else (FAR_PAST, end if joiner.names_an_end(atom) else start)
        if joiner.codes[atom.last] == "C":  # of that day: "昨天晚上十点以后"
            open_span = (start, midnight(start) + DAY) if behind == "p" else (midnight(start), start)
        return Time(atom.first, atom.last + 1, open_span, "after" if behind == "p" else "before")
    if front == "f" and joiner.tokens[first].value == "open":
        return Time(first, atom.last, (start, FAR_FUTURE), "after")
    if (behind == "j" and joiner.context.language != "zh") or (
        front == "f" and (behind == "j" or re.match(r"n(?:[.,]|$)", joiner.codes[atom.last + 1 :]))
    ):
        return Time(first, atom.last + 1, (start, FAR_FUTURE), "after")
    if front in ("a", "B"):
        near = max(7 * DAY, (end - start) / 4) if first and joiner.tokens[first - 1].text.lower() in _NEAR else None
        if front == "B":
            start = end if joiner.names_an_end(atom) else start
            return Time(first, atom.last, (start - near if near else FAR_PAST, start), "before")
        return Time(first, atom.last, (end, end + near if near else FAR_FUTURE), "after")
    if front == "q" or (front == "u" and joiner.tokens[first].text.lower() in _UNTIL):
        return Time(first, atom.last, (FAR_PAST, end), "until")
    if front == "g" and end - start == DAY and joiner.tokens[first].text.lower() != "about":
        return Time(first, atom.last, (start - 3 * DAY, end + 3 * DAY), "range")
    return Time(atom.first, atom.last, span, atom.kind)
