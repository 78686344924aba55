"""Rules for weekdays: last Friday, Tuesday of last week, Monday evening, Sunday in two weeks."""

from __future__ import annotations

from datetime import datetime

from pam_retriever.timewords.hours import timed
from pam_retriever.timewords.lexicon import Token
from pam_retriever.timewords.match import Atom, Match, day_in
from pam_retriever.timewords.names import is_named
from pam_retriever.timewords.periods import DAY, Span, midnight, months_later, moved, unit_at
from pam_retriever.timewords.standing import begins_phrase, is_adverb, is_of_noun
from pam_retriever.timewords.things import is_of_thing


def weekday_in_weeks(match: Match) -> Atom | None:
    """Reads "Sunday in two weeks", "Friday two weeks ago": a day of that week."""
    before = match.has("A") or match.has("B")
    if match.word("U") != "week" or (match.has("B") and match.context.language != "de"):
        return None
    count = match.number("N") if match.has("N") else 1
    week = unit_at("week", moved(midnight(match.context.now), "week", -count if before else count))[0]
    day = week + match.number("W") * DAY
    return match.fixed((day, day + DAY), "day")


def weekday(match: Match) -> Atom | None:
    """Reads "on Monday", "last Friday", "Tuesday of last week", "Monday evening"."""
    number, today = match.number("W"), midnight(match.context.now)
    behind = [token.code for token in match.tokens[match.last + 1 : match.last + 3]]
    if behind[:1] == ["o"] and behind[1:] in (["M"], ["D"]):
        return None  # another rule reads "the last Friday of May"
    governed = any(match.has(code) for code in "LXTVn")
    if _is_no_day(match):
        return None
    adverb = match.has("t") and match.token("t").text.lower() == "el"  # "El lunes tengo dentista"
    if not governed and not adverb and not any(match.has(code) for code in "PCN") and not _stands_alone(match):
        return None
    ahead = (number - today.weekday()) % 7
    if match.has("U"):
        if match.word("U") != "week":
            return None
        count = match.number("X") if match.has("X") else 0 if match.has("T") else -match.number("L")
        week = unit_at("week", today)[0] + 7 * DAY * count
        start = week + number * DAY
    elif match.has("X"):
        start = today + (ahead or 7) * DAY
    elif match.has("L") or match.has("V"):
        weeks = match.number("L") - 1 if match.has("L") else 0  # "the Friday before last"
        start = today - ((-ahead) % 7 or 7) * DAY - 7 * weeks * DAY
    elif match.has("T"):
        start = unit_at("week", today)[0] + number * DAY
    else:
        return _plain_weekday(match, number, weak=not governed and match.has("b"))
    span, kind = timed(match, (start, start + DAY), "day")
    return match.fixed(span, kind)


def _is_no_day(match: Match) -> bool:
    """Whether a weekday is a word, a name or a title: "sat", "in the sun", "born on a monday", "a dog named Friday"."""
    article = match.token("t").text.lower() if match.has("t") else ""
    weak = match.token("W").weak and not (match.codes()[0] in "LXTn" and begins_phrase(match))  # unlike "next mon"
    return (
        weak
        or _is_title(match)
        or _is_person(match)
        or (article == "the" and match.token("W").text.removesuffix("'s") == "sun")  # "on the sun"
        or (article in ("a", "an") and not any(match.has(code) for code in "LXTV"))
        or is_named(match)
    )


def _plain_weekday(match: Match, number: int, weak: bool) -> Atom:
    """Returns the last such weekday that has begun, at its time of day; the next if the text looks ahead."""
    kind = timed(match, (datetime(2000, 1, 3), datetime(2000, 1, 4)), "day")[1]

    def resolve(anchor: datetime, future: bool) -> Span | None:
        day = midnight(anchor)
        distance = (number - day.weekday()) % 7
        start = day + distance * DAY if future else day - ((-distance) % 7) * DAY
        span = timed(match, (start, start + DAY), "day")[0]
        if span is not None and span[0] > anchor and not future:  # "Friday evening", asked on Friday at noon
            return span[0] - 7 * DAY, span[1] - 7 * DAY
        return span

    return match.atom(resolve, kind, fixed=False, weak=weak)


def _is_title(match: Match) -> bool:
    """Whether a weekday with a part of the day is a title: "Saturday Night Fever"."""
    following = match.next()
    if not match.has("P") or following is None or match.context.language != "en":
        return False
    named = following.code == "Z" and match.token("P").text[0].isupper()
    return named or following.text in ("live", "fever", "lights")


def _is_person(match: Match) -> bool:
    """Whether a French or Spanish weekday with a capital follows a name: "Robinson et Vendredi"."""
    front = match.tokens[max(0, match.first - 2) : match.first]
    named = [token.code for token in front[1:]] == ["&"] and front[0].code in "xZ" and front[0].text[0].isupper()
    return named and match.context.language in ("fr", "es") and match.token("W").text[0].isupper()


_SUBJECTS = ("j'", "j’", "je", "tu", "on", "nous", "vous", "il", "elle")  # "Lundi j'ai rendez-vous"


def _stands_alone(match: Match) -> bool:
    """Whether a weekday without a preposition is a time: at the end of a clause, not after a name."""
    previous = match.tokens[match.first - 1] if match.first else None
    following = match.next()
    if match.context.language == "zh":
        return True
    lower = match.token("W").text.islower()
    if previous is not None and previous.text in ("long", "beau", "bon", "petit", "grand"):
        return False  # "un long dimanche"
    plain = lower or match.context.ahead == "future"  # "Je reviendrai Mardi"
    ends_clause = previous is None or previous.code in "xZo"
    if match.context.language == "fr" and not match.has("t") and plain and ends_clause:
        return following is None or following.code != "Z"  # "J'ai vu Paul samedi"
    behind, named = match.next(2), match.token("W").text
    if is_of_thing(match, named, 2 if len(named) < 5 else 1):
        return True
    if previous is None:
        said = following is not None and following.text.lower().startswith(_SUBJECTS)
        ranged = following is not None and following.code in "u&" and behind is not None and behind.code == "W"
        return (match.context.language == "fr" and said) or ranged or is_adverb(match, named)
    if previous.code in "xo" and following is not None and following.code == "u" and behind and behind.code == "W":
        return True  # "Mon through Wed", "de lunes a viernes"
    governed = _is_governed(match, previous)
    if governed is not None:
        return governed
    if match.context.language == "de" and previous.text in ("ich", "du", "wir", "ihr", "es", "er", "sie", "man"):
        return True  # "was hast du Freitag gesagt"
    return is_adverb(match, named) or is_of_noun(match, named)


def _is_governed(match: Match, previous: Token) -> bool | None:
    """Whether a weekday after a preposition or "and" is a time; None for another word."""
    following, english = match.next(), match.context.language == "en"
    if english and previous.code in "ih" and len(match.token("W").text) > 3 and begins_phrase(match):
        return True  # "in monday what did we discuss"
    if english and previous.code == "&" and not _is_joined(match):
        return is_adverb(match, match.token("W").text)
    codes = "bfu&sBaqgr," if english and not match.has("t") else "bfu&sBaqgir,"
    if previous.code in codes or previous.text == "over" or previous.text.lower() == "del":
        return following is None or following.code != "Z"
    return None


def _is_joined(match: Match) -> bool:
    """Whether a time is before "and", or a phrase ends behind the weekday: "Crusoe and friday essay" has no time."""
    before = match.tokens[match.first - 2] if match.first > 1 else None
    return (before is not None and before.code not in "xZ") or begins_phrase(match)


def weekday_of_thing(match: Match) -> Atom | None:
    """Reads "fridays call", a genitive without its apostrophe."""
    meaning = match.word("d")
    if meaning[0] != "W" or not is_of_thing(match, match.token("d").text):
        return None
    return _plain_weekday(match, int(meaning[1:]), weak=False)


def weekday_week(match: Match) -> Atom | None:
    """Reads British "Wednesday week", a week after the next Wednesday."""
    if match.word("U") != "week" or match.token("U").text != "week" or not begins_phrase(match):
        return None
    today = midnight(match.context.now)
    day = today + ((match.number("W") - today.weekday()) % 7 or 7) * DAY + 7 * DAY
    return match.fixed((day, day + DAY), "day")


def weekday_of_list(match: Match) -> Atom | None:
    """Reads "Tuesday" of "on Tuesday or Wednesday of last week", and "周三" of "上周二或周三"."""
    chinese = match.context.language == "zh"
    codes = "".join(token.code for token in match.tokens)
    unit = codes.rindex("U", 0, match.first) if chinese else codes.find("U", match.last)
    beside = [match.tokens[at] for at in (unit - 1, unit + 1) if at < len(codes) and codes[at] in "LXT"]
    if unit < 0 or not beside or match.tokens[unit].value != "week":
        return None
    count = int(beside[0].value) * {"L": -1, "X": 1}.get(beside[0].code, 0)
    start = unit_at("week", midnight(match.context.now))[0] + (7 * count + match.number("W")) * DAY
    return match.fixed((start, start + DAY), "day")


def weekday_and_day(match: Match) -> Atom | None:
    """Reads "le vendredi 13", "Friday 13": the latest such day of the last two years."""
    number = match.number("O" if match.has("O") else "N")
    now = match.context.now
    if match.has("O") and not (match.has("t") or match.token("O").text[0].isdigit()):
        return None  # "Friday first"
    for back in range(24):
        first = months_later(midnight(now).replace(day=1), back if match.context.future else -back)
        span = day_in(first.year, first.month, number)
        if span is None or span[0].weekday() != match.number("W"):
            continue
        if (span[1] > now) if match.context.future else (span[0] <= now):
            return match.fixed(span, "day")
    return None
