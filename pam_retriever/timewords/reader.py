"""Reads times in questions and texts, sentence by sentence, and converts them to UTC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial

from pam_retriever.errors import InvalidInput
from pam_retriever.timewords.grammar import atoms
from pam_retriever.timewords.joining import FAR_FUTURE, FAR_PAST, Time, joined
from pam_retriever.timewords.lexicon import LANGUAGES, Token
from pam_retriever.timewords.match import Context
from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Period
from pam_retriever.timewords.plans import ASKED, LASTING, PLANNED, PRESENT
from pam_retriever.timewords.tense import FUTURE, PARTICIPLE, PAST, PERFECT, WAS
from pam_retriever.timewords.titles import is_about_words, without_titles
from pam_retriever.timewords.tokens import language_of, names_a_time, tokenize

MAX_CHARACTERS = 20_000  # of a text; the rest is not read
MAX_PERIODS = 64  # per text
_FIRST_YEAR, _LAST_YEAR = 1000, 9000  # of the reference time; relative words are not read in other years
_END = re.compile(r"(?<![\d.])(?<!\b[A-Z][a-z]{2})(?<!\bSept)[.?!;]+[\"')\]]*\s+|[。？！\n]+")
_AS_OF = re.compile(
    r"\bas (?:of|said|told|[a-z]{3,}ed)(?: by \w+)?(?: (?:on|in|at|of|during))?(?: the)? $", re.IGNORECASE
)
_SECOND = timedelta(seconds=1)
_MEANT = ("plan", "going", "need", "ha", "geplant", "prévu")  # what these announce may be over: "What did we plan?"


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
    if language is not None and language not in LANGUAGES:
        raise InvalidInput(
            f"Got language={language!r}.", f"one of {', '.join(LANGUAGES)}", "Leave it out to have it found."
        )
    text = text[:MAX_CHARACTERS]
    if not names_a_time(text, 0, len(text)) or (whole and is_about_words(text)):
        return []  # most questions
    local, zone = local_time(now)
    parts = [(0, len(text))] if whole else _parts(text)
    parts = [(first, last) for first, last in parts if len(parts) == 1 or names_a_time(text, first, last)]
    if not parts or not _FIRST_YEAR <= local.year <= _LAST_YEAR:
        return []
    language = language or language_of(text)
    periods: list[Period] = []
    named = without_titles(text, question=whole)
    for first, last in parts:
        tokens = tokenize(named, language, first, last)
        for sentence in [tokens] if whole else _sentences(tokens):
            if not sentence:
                continue
            begin = 0 if whole else sentence[0].start  # a "^" in the forms of a tense is no later place
            look = partial(looks_ahead, text, begin, sentence[-1].end, language, not whole)
            timed = whole and any(token.code == "C" for token in sentence)  # only a time of day asks for the past
            past = timed and PERFECT.search(text, language) is not None
            context = Context(local, language, look, past, not whole, zone)
            found = atoms(sentence, context)
            if found:
                times = [_period(sentence, time, text, zone) for time in joined(sentence, found, context)]
                periods.extend(period for period in times if period.start < period.end)
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
    if at in (FAR_PAST, FAR_FUTURE):
        return OPEN_START if at == FAR_PAST else OPEN_END
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


_RELATIVE = re.compile(
    r"(?!.*[YDJ])(?:.*[LXTVRAFe]|[^MHSQGKO]*$)"
)  # "last week", "on Monday", unlike "last week of May 2023"


def _period(tokens: list[Token], time: Time, text: str, zone: tzinfo) -> Period:
    first, last, span, kind = time
    codes = "".join(token.code for token in tokens[first : last + 1])
    front = "nih" if "A" in codes else "tnih"  # "a week ago" keeps its article
    skipped = 0
    while skipped < last - first and codes[skipped] in front and kind not in ("since", "before", "after", "until"):
        skipped += 1
    start, end = tokens[first + skipped].start, tokens[last].end
    times = [to_utc(at, zone) for at in span]
    relative = _RELATIVE.match(codes[skipped:]) is not None
    return Period(times[0], times[1], text[start:end], (start, end), kind, relative)


def looks_ahead(text: str, start: int, end: int, language: str, said: bool) -> str:
    """Returns whether a sentence is about what comes.

    Returns:
        "future" for "What will we do"; "present" for a plan in the present tense ("We're moving on the 20th", "What's
        on my calendar"); "asked" for another question in the present tense ("What do we have on Sunday"); "planned"
        for "What did we plan", and for a text (``said``) that does not tell of the past; "lasting" for another
        question about the present ("Is he away"); nothing for other sentences.
    """
    found = FUTURE.search(text, language, start, end)
    if found is not None:
        then = found[0].lower().startswith(_MEANT) and WAS.search(text, language, start, found.start()) is not None
        return "planned" if then else "future"
    past = PAST.search(text, language, start, end)
    plans = PLANNED if said else ASKED
    if past is None or text.find(",", start, end) >= 0:  # else the clause of a plan tells of the past
        plan = plans.search(text, language, start, end)
        if plan is not None and (past is None or not _clause_is_past(text, start, end, language, plan.span())):
            return "present"
    if past is not None:
        return ""
    if said:
        return "planned"
    asked = PRESENT.search(text, language, start, end) is not None
    if PARTICIPLE.search(text[start:end], language) is not None:
        return ""
    return "asked" if asked else "lasting" if LASTING.search(text, language, start, end) is not None else ""


def _clause_is_past(text: str, start: int, end: int, language: str, plan: tuple[int, int]) -> bool:
    """Whether the clause of a plan, between its commas, tells of the past."""
    first, last = text.rfind(",", start, plan[0]), text.find(",", plan[1], end)
    return PAST.search(text, language, max(start, first), end if last < 0 else last) is not None
