"""Rules for times relative to now: last week, three days ago, on Monday, yesterday evening."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

from pam_retriever.timewords.feasts import HOLIDAYS
from pam_retriever.timewords.hours import part_of, timed
from pam_retriever.timewords.lexicon import listed
from pam_retriever.timewords.match import Atom, Match, day_in
from pam_retriever.timewords.periods import (
    DAY,
    Span,
    midnight,
    moved,
    occurrence,
    season_of,
    unit_at,
    weekend,
)
from pam_retriever.timewords.standing import begins_phrase, begins_sentence, is_adverb
from pam_retriever.timewords.tense import PAST, PERFECT
from pam_retriever.timewords.things import is_day_of_thing, is_of_thing


def relative_unit(match: Match) -> Atom | None:
    """Reads "last week", "this month", "the week before last"; "the last week" is the seven days up to now."""
    unit, now, following = match.word("U"), match.context.now, match.next()
    rolling = match.has("V") or (
        match.has("L")
        and match.context.language == "en"
        and match.has("t")
        and match.tokens[match.last - 1].value != 2
        and match.token("L").text.lower() == "last"
    )
    if unit == "minute" and match.first and match.tokens[match.first - 1].code == "h":
        return None  # "at the last minute"
    if unit in ("minute", "hour") and rolling and begins_phrase(match):  # unlike "last minute rush"
        return match.fixed((match.context.moved(unit, -1), now), "range")  # "in the past hour"
    if unit in ("minute", "hour", "half") or (following is not None and following.code == "B"):
        return None  # "the last weekend before 10 April"
    if _several(match):
        return _rolled(match, unit, 5)
    if rolling and unit == "day":
        return None
    if rolling and unit != "weekend":
        return match.fixed((midnight(moved(now, unit, -1)), midnight(now) + DAY), "range")
    step = (
        -1 if match.has("V") else -match.number("L") if match.has("L") else match.number("X") if match.has("X") else 0
    )
    if unit == "day":
        return None
    if unit == "weekend":
        coming = match.has("X") and match.token("X").text.lower() in ("coming", "upcoming", "kommende", "kommenden")
        return match.fixed(weekend(now, 0 if coming and weekend(now, 0)[0] > now else step), unit)
    return match.fixed(unit_at(unit, moved(unit_at(unit, now)[0], unit, step)), unit)


def now(match: Match) -> Atom | None:
    """Reads "now" as the start of a range: "between now and christmas"."""
    today = midnight(match.context.now)
    return match.atom(lambda _anchor, _future: (today, today + DAY), "now", weak=True)


def plain_weekend(match: Match) -> Atom | None:
    """Reads "at the weekend": from Saturday on this weekend, else the last; the next if the text looks ahead."""
    following = match.next()
    adverb = match.context.language == "zh" or match.tokens[match.first].text.lower() == "el"  # "el fin de semana"
    beside = match.first > 0 and match.tokens[match.first - 1].code in "Bsaq"  # "before the weekend"
    first = match.codes() == "U" and match.first == 0 and not match.context.said
    thing = first and is_of_thing(match, match.token("U").text)  # "weekend run"
    if match.codes() in ("U", "tU") and not (adverb or beside or thing):
        return None
    if match.token("U").text.lower() == "weekends":
        return None  # "on weekends"
    if match.word("U") != "weekend" or (following is not None and following.code in "BaoLXT"):
        return None
    now = match.context.now
    begun = weekend(now, 0)[0] <= now
    return match.fixed(weekend(now, 0 if begun or match.context.future else -1), "weekend")


_ONE = listed("a an ein eine einen einem einer")


def rolling_units(match: Match) -> Atom | None:
    """Reads "in the last three days", "the next two weeks", "since two weeks"."""
    unit = match.word("U")
    if match.codes() == "stU" and match.token("t").text.lower() not in _ONE:
        return None  # "since the week"
    previous = match.tokens[match.first - 1] if match.first else None
    lasts = match.has("L") and (match.context.said or _lasts(match) or match.token("L").text == "prior")
    bare = not match.has("t") and match.context.language == "en" and previous is not None
    if lasts and bare and previous is not None and previous.code not in "isrT.,":
        return None  # "Does the film last 2 hours?"
    count = match.number("N") if match.has("N") else 1 if not match.has("w") else 5 if match.number("w") == 1 else 2
    if (two := re.search(r"N([&u,]?)N", match.codes())) is not None:  # "the last two or three weeks"
        if not two[1] and match.context.language != "zh":
            return None
        count = max(match.number("N"), match.number("N", 1))
    if unit == "weekend" and (match.has("L") or match.has("V")):
        return match.fixed((weekend(match.context.now, -count)[0], weekend(match.context.now, -1)[1]), unit)
    if unit == "half" or unit == "weekend":
        return None
    return _rolled(match, unit, count)


_AUXILIARIES = listed("do does did will would can could to should might may must doesn't don't won't didn't")


def _lasts(match: Match) -> bool:
    """Whether "last" may be the verb: "does the film last 2 hours", unlike "emails last 7 days"."""
    words = [token.text.lower() for token in match.tokens[: match.first]]
    return not _AUXILIARIES.isdisjoint(words) and words[0] not in ("what", "who", "where", "when", "why")


_GERMAN_UNITS = ["tage", "tagen", "wochen", "monate", "monaten", "jahre", "jahren"]
_PLURALS = frozenset([*_GERMAN_UNITS, "derniers", "dernières", "prochains", "prochaines", "últimos", "últimas"])


def _several(match: Match) -> bool:
    """Whether a unit without a number is several: "in den letzten Tagen", "ces dernières semaines"."""
    words = {token.text.lower() for token in match.tokens[match.first : match.last + 1] if token.code in "ULX"}
    return not words.isdisjoint(_PLURALS) and (match.has("L") or match.has("X"))


def _rolled(match: Match, unit: str, count: int) -> Atom | None:
    """Returns so many units up to now, or from now on."""
    now = match.context.now
    if match.has("X"):
        return match.fixed((midnight(now), midnight(moved(now, unit, count)) + DAY), "range")
    start = match.context.moved(unit, -count)
    return match.fixed((start, now) if unit in ("hour", "minute") else (midnight(start), midnight(now) + DAY), "range")


def of_age(match: Match) -> Atom | None:
    """Reads "older than 30 days", "not older than a week"."""
    side, now, unit = match.tokens[match.first], match.context.now, match.word("U")
    if side.value != "age" or unit == "half":
        return None
    count = match.number("N") if match.has("N") else 1 if not match.has("w") else 5 if match.number("w") == 1 else 2
    at = match.context.moved(unit, -count)
    at = at if unit in ("hour", "minute") else midnight(at)
    if side.code == "B":
        return match.fixed((datetime.min, at), "before")
    return match.fixed((at, midnight(now) + DAY), "range")


def ago(match: Match) -> Atom | None:
    """Reads "three weeks ago" as that calendar week, and "a few weeks ago" as two to five weeks ago."""
    if match.has("B") and match.context.language != "de":
        following = match.next()  # German "vor" is both "before" and "ago"
        ends = following is None or (following.code == "." and match.next(2) is None)
        if not ends or match.codes() != "BNU":
            return None  # "how often before two weeks are over"
        text = " ".join(token.text for token in match.tokens)
        if PERFECT.search(text, "en") is None and PAST.search(text, "en") is None:
            return None  # it does not tell of the past, as "what you told me before 2 weeks" does
    return _distant(match, -1)


_WITHIN = listed("within binnen innerhalb") | {"innerhalb von"}


def within(match: Match) -> Atom | None:
    """Reads "within two weeks", if the text looks ahead: from now on, unlike "in two weeks"."""
    unit, now = match.word("U"), match.context.now
    if (
        match.token("i").text.lower() not in _WITHIN
        or match.context.ahead not in ("future", "present")
        or unit == "half"
    ):
        return None
    few = match.has("w") and match.number("w") == 1
    count = match.number("N") if match.has("N") else 5 if few else 2 if match.has("w") else 1
    return match.fixed((midnight(now), midnight(moved(now, unit, count)) + DAY), "range")


def ahead(match: Match) -> Atom | None:
    """Reads "in three days" if the text looks ahead, and "three days from now"."""
    if match.has("t") and match.token("t").text.lower() not in _ONE:
        return None  # "en el mes de febrero"
    if not match.has("F") and match.context.ahead not in ("future", "present"):
        return None  # "Can I learn it in two weeks?"
    if match.has("i") and match.token("i").text.lower() in ("over", "during", "throughout"):
        return None  # "takes place over eight days"
    return _distant(match, 1)


def between_ago(match: Match) -> Atom | None:
    """Reads "two or three weeks ago", "3-4 days ago"."""
    unit, linked = match.word("U"), re.search(r"N[&u,]N|U&N", match.codes())
    if match.has("B") and match.context.language != "de":
        return None
    follows = match.has("N") and match.codes().startswith("NN") and match.number("N", 1) == match.number("N") + 1
    if linked is None and match.context.language != "zh" and not follows:
        return None  # unlike "two three days ago"
    counts = (match.number("N"), 1 if match.has("t") else match.number("N", 1))  # "a week or two ago"
    far, near = (unit_at(unit, match.context.moved(unit, -count)) for count in counts)
    return match.fixed((min(far[0], near[0]), max(far[1], near[1])), unit) if unit != "half" else None


def _distant(match: Match, sign: int) -> Atom | None:
    unit, later = match.word("U"), match.context.moved
    if unit == "half" or any(
        before.code == "t" and before.value == 2 and token.code == "U"
        for before, token in pairwise(match.tokens[match.first : match.last + 1])
    ):
        return None  # "dans les années 80"
    if match.has("w") and match.number("w") == 1 and not match.has("N"):  # unlike "hace unos 3 meses"
        near, far = (unit_at(unit, later(unit, sign * count)) for count in (2, 5))
        return match.fixed((min(near[0], far[0]), max(near[1], far[1])), unit)
    counts = re.search("[Nt]+(?=o?U)", match.codes())
    number = counts and match.tokens[match.first + counts.end() - 1]  # "une demi-heure" has two numbers
    count = 2 if match.has("w") else int(number.value) if number and number.code == "N" else 1
    front = match.tokens[match.first - 1].text.lower() if match.first else ""
    behind = [token.text.lower() for token in match.tokens[match.last + 1 : match.last + 4]]
    front = "exactly" if behind == ["to", "the", "day"] else front
    if front in ("exactly", "precisely", "genau", "exactement", "exactamente") and unit in ("week", "month", "year"):
        return match.fixed(unit_at("day", later(unit, sign * count)), "day")
    span = unit_at(unit, later(unit, sign * count))
    return match.fixed(*timed(match, span, unit)) if unit == "day" else match.fixed(span, unit)


def half_more_ago(match: Match) -> Atom | None:
    """Reads "a year and a half ago", "two and a half years ago"."""
    unit, half = match.word("U"), match.word("U", 1)
    if unit == "half":
        unit, half = half, unit
    finer = {"year": "month", "month": "week", "week": "day", "hour": "minute"}.get(unit)
    if half != "half" or finer is None:
        return None
    count = (match.number("N") if match.has("N") else 1) + 0.5
    return match.fixed(unit_at(finer, match.context.moved(unit, -count)), finer)


def days_ago(match: Match) -> Atom | None:
    """Reads "two Tuesdays ago", "three Christmases ago", "a couple of summers ago"."""
    meaning, count = match.word("d"), match.number("N") if match.has("N") else 2
    if match.has("w") and match.number("w") == 1:
        return None
    now, code, name = midnight(match.context.now), meaning[0], meaning[1:]
    if code == "W":
        day = now - ((now.weekday() - int(name)) % 7 or 7) * DAY - 7 * (count - 1) * DAY
        return match.fixed((day, day + DAY), "day")
    if code == "P":
        return match.fixed(part_of(now - count * DAY, name), "part of day")  # "two nights ago"
    of: Callable[[int], Span | None] = HOLIDAYS[name] if code == "H" else lambda year: season_of(year, int(name))
    last = occurrence(of, now, False, over=True)
    return match.fixed(last and of(last[0].year - count + 1), "day" if code == "H" else "season")


def units_from_day(match: Match) -> Atom | None:
    """Reads "a year ago today", "heute vor einem Jahr", "a week from Monday", "three weeks ago on Monday"."""
    unit, today = match.word("U"), midnight(match.context.now)
    sign, count = -1 if match.has("A") or match.has("B") else 1, match.number("N") if match.has("N") else 1
    if unit not in ("day", "week", "month", "year") or (match.has("W") and unit != "week"):
        return None
    if match.has("f") and match.has("R") and match.number("R") == 0:
        return _distant(match, 1)  # "a week from today" is a week from now
    if match.has("R"):
        day = moved(today + match.number("R") * DAY, unit, sign * count)
    elif match.has("n"):
        day = unit_at("week", moved(today, "week", -count))[0] + match.number("W") * DAY
    else:
        day = today + sign * ((sign * (match.number("W") - today.weekday())) % 7 or 7) * DAY
        day = moved(day, "week", sign * count)
    return match.fixed((day, day + DAY), "day")


def this_day_then(match: Match) -> Atom | None:
    """Reads "this time last year", give or take three days, and "on this day last year", "on this day in 2022"."""
    if match.has("R") and (match.context.language != "zh" or match.number("R") != 0):
        return None  # "去年的今天"
    today, around = midnight(match.context.now), match.number("c") if match.has("c") else 0
    if match.has("Y"):
        found = day_in(match.number("Y"), today.month, today.day)
        return match.fixed(found and (found[0] - around * DAY, found[1] + around * DAY), "day")
    unit = match.word("U")
    if unit not in ("week", "month", "year"):
        return None
    count = match.number("N") if match.has("N") else match.number("L") if match.has("L") else 1
    day = moved(today, unit, count if match.has("X") else -count)
    around = 0 if unit == "week" else around
    return match.fixed((day - around * DAY, day + (1 + around) * DAY), "day")


_DAY_NAMES = listed("today yesterday tomorrow tonight")  # "the today widget", unlike "tmrw bell ringing"


def day_from_today(match: Match) -> Atom | None:
    """Reads "yesterday", "tomorrow at 3 pm", "yesterday evening"."""
    token, previous = match.token("R"), match.tokens[match.first - 1] if match.first else None
    measured = previous is not None and (previous.code in "tN" or previous.text in ("viel", "viele", "pro"))
    following = match.next()
    if (
        match.context.language == "en"
        and not match.context.said
        and token.text.split()[-1].removesuffix("'s") in _DAY_NAMES
        and match.codes() == "R"
    ):
        article = previous is not None and previous.code == "t"
        if not is_day_of_thing(match) and (article or begins_sentence(match.tokens, match.first)):
            return None  # "the today widget"
    if (token.text == "Morgen" and measured) or (following is not None and following.text == "date"):
        return None  # "ein Morgen Land", "der Morgen", "a function for tomorrow's date"
    start = midnight(match.context.now) + match.number("R") * DAY
    span, kind = timed(match, (start, start + DAY), "day")
    return match.fixed(span, kind)


def part_of_day(match: Match) -> Atom | None:
    """Reads "last night", "this morning", "overnight"."""
    if match.tokens[match.last].text == "overnight" and not is_adverb(match, "overnight"):
        return None
    following, part = match.next(), match.token("P").text.lower()
    if match.has("X") or (match.has("L") and match.word("P") != "night"):
        return None
    if part in ("am", "pm") and following is not None and following.text.lower() in ("i", "i'm", "not"):
        return None  # "what this am I"
    start = midnight(match.context.now) - (DAY if match.has("L") else timedelta(0))
    span, kind = timed(match, (start, start + DAY), "day")
    return match.fixed(span, kind)


def time_of_today(match: Match) -> Atom | None:
    """Reads "since noon", and in a question about the past "at 3 pm": a time of today, else of yesterday."""
    previous = match.tokens[match.first - 1] if match.first else None
    since = match.codes().lstrip("t") == "C" and previous is not None and previous.code == "s"
    language, front = match.context.language, match.codes()[0]
    bare = front in "tC" and not match.has("u") and not match.token("C").text.lower().startswith("a la")
    if not since and (not match.context.past or bare or (front == "u" and language != "fr")):
        return None
    behind = "".join(token.code for token in match.tokens[match.last + 1 : match.last + 4]).replace("t", "")
    if re.match("[,no]?[WDMNORPLT]", behind):
        return None  # "at 14:05 on 2 March", a time of another rule
    today = midnight(match.context.now)
    span, kind = timed(match, (today, today + DAY), "day")
    if span is None or kind in ("day", "part of day"):
        return None
    if span[0] > match.context.now and not match.context.future:
        span = span[0] - DAY, span[1] - DAY
    return match.fixed(span, kind)


def earlier_or_later(match: Match) -> Atom | None:
    """Reads "earlier this week": from its start to today; "later this year": from today to its end."""
    now = match.context.now
    if match.has("R"):
        return day_from_today(match)
    if match.word("U") not in ("week", "month", "year", "quarter") or not (
        match.has("T") or match.has("i") or match.word("e") == "rest"
    ):
        return None
    start, end = unit_at(match.word("U"), now)
    today = midnight(now)
    return match.fixed((start, today + DAY) if match.word("e") == "earlier" else (today, end), "range")
