"""Rules for parts of a month, a season, a year: "mid-May", "late last year", "the end of Q2"."""

from __future__ import annotations

from datetime import datetime

from pam_retriever.timewords.match import Atom, Match, counted, in_year, year_of
from pam_retriever.timewords.periods import moved, season_of, third, unit_at


def phase(match: Match) -> Atom | None:
    """Reads "mid-May", "late last year", "at the end of June 2023"."""
    name, follows = match.word("v"), match.tokens[match.last].code == "v" and not match.has("M")
    if _is_verb(match, name) or (follows and match.context.language != "zh"):
        return None
    return _phase(match, name)


def _phase(match: Match, name: str) -> Atom | None:
    if match.has("M"):
        if match.token("M").weak and year_of(match) is None and name in ("begin", "end"):
            return None
        number = match.number("M")
        return in_year(match, lambda y: third(unit_at("month", datetime(y, number, 1)), name), "part of month")
    if match.has("S"):
        number = match.number("S")
        part_of = lambda y: third(season_of(y, number), name)  # noqa: E731
        if any(match.has(code) for code in "LXT") and not match.has("U"):
            return counted(match, part_of, "part of season")
        return in_year(match, part_of, "part of season")
    if match.has("K"):
        if match.token("K").weak and not match.has("t"):
            return None
        return match.fixed(third(unit_at("decade", datetime(match.number("K"), 1, 1)), name), "part of decade")
    if match.has("Y"):
        return match.fixed(third(unit_at("year", datetime(match.number("Y"), 1, 1)), name), "part of year")
    return _phase_of_unit(match, name) if match.word("U") in ("week", "month", "year", "quarter") else None


def phase_of_quarter(match: Match) -> Atom | None:
    """Reads "the end of Q2", "early Q3 2023"."""
    name, number = match.word("v"), match.number("Q")
    if _is_verb(match, name):
        return None
    of = lambda y: third(unit_at("quarter", datetime(y, 3 * number - 2, 1)), name)  # noqa: E731
    return in_year(match, of, "part of quarter", weak=not match.has("h"))


def _phase_of_unit(match: Match, name: str) -> Atom | None:
    """Reads "at the end of last month", "since the start of the year"."""
    unit, now = match.word("U"), match.context.now
    step = 1 if match.has("X") else -1 if match.has("L") else 0
    span = third(unit_at(unit, moved(unit_at(unit, now)[0], unit, step)), name)
    if any(match.has(code) for code in "XTL"):
        return match.fixed(span, f"part of {unit}")
    article, noun = (match.tokens[at].text.lower() for at in (match.last - 1, match.last))
    if article in ("a", "an", "ein", "eine", "einem", "einer", "eines") or noun in (
        "weeks",
        "months",
        "years",
        "quarters",
    ):
        return None  # "the start of a week", "in its early years"
    if span[0] > now and not match.context.future:  # "at the end of the month" is over
        span = third(unit_at(unit, moved(unit_at(unit, now)[0], unit, -1)), name)
    return match.atom(lambda _anchor, _future: span, f"part of {unit}", weak=True)


def _is_verb(match: Match, name: str) -> bool:
    """Whether the word is the verb of "start in June" or "end last year", unlike "the end of June", "by end June"."""
    if match.context.language != "en" or name not in ("begin", "end") or match.token("v").text.lower().endswith("of"):
        return False
    at = match.tokens.index(match.token("v"))
    previous, following = match.tokens[at - 1] if at else None, match.tokens[at + 1 : at + 2]
    return [token.code for token in following] == ["i"] or previous is None or previous.code not in "inrhsBabfguqv"
