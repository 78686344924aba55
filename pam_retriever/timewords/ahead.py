"""Whether a sentence looks ahead: by a word of the future, or by a present tense that tells of a plan."""

from __future__ import annotations

import re
from functools import lru_cache

from pam_retriever.timewords.lexicon import FUTURE, PAST

# "We're moving on the 20th": verbs whose present progressive is a plan, unlike "We're missing you"
_PLANS = (
    "moving|leaving|flying|going|coming|heading|driving|travell?ing|visiting|arriving|returning|departing|taking|having"
    "|getting|starting|meeting|seeing|hosting|throwing|joining|playing|performing|attending|celebrating|giving|holding"
    "|launching|opening|closing|releasing|bringing|picking|staying|presenting|marrying|graduating|retiring|finishing"
    "|ending|beginning|speaking|competing|racing|switching"
)
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
# "The flight leaves Monday", "the show runs from 10 March", "the party is on Friday"
_TIMETABLE = (
    "leaves?|departs?|arrives?|starts?|begins?|opens?|closes?|ends?|runs|lands?|airs|premieres|is|are|kicks off"
    "|takes place"
)
_PLANNED = re.compile(
    rf"(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:not|also|all|both|finally|only|just))? (?:{_PLANS})\b"
    rf"|(?<!\bthe )(?<!\bfall )\b(?:{_TIMETABLE}) (?:(?:on|from|in|at)\b|(?:{_DAYS})day\b)",
    re.IGNORECASE,
)
# what was ("since", "these days"), or what comes again and again, is no plan
_NO_PLAN = re.compile(
    r"\b(?:since|every|each|usually|always|often|lately|these days|so far|ago|was|were|had|did|been|got|went|came|made"
    r"|saw|met|said|told|took|found|bought|gave|left|felt|began|ran|won|lost|wrote|sent|kept|knew|grew"
    r"|(?!excited|thrilled|need|indeed|speed|tired|scared|interested|married|invited|supposed|scheduled)[a-z]{2,}[^\We]ed)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=16)
def pattern(words: str) -> re.Pattern[str]:
    """Returns words of ``lexicon`` as a pattern."""
    return re.compile(words, re.IGNORECASE)


def looks_ahead(text: str, start: int, end: int, language: str, said: bool) -> str:
    """Returns "future" for "What will we do", "planned" for "What did we plan", and nothing for other sentences.

    In a text (``said``) the present tense of a plan or a timetable looks ahead, too.
    """
    found = pattern(FUTURE[language]).search(text, start, end)
    if found is None:
        plan = _PLANNED.search(text, start, end) if said and language == "en" else None
        return "" if plan is None or _NO_PLAN.search(text, start, end) is not None else "future"
    if language not in PAST or not found[0].lower().startswith(("plan", "going", "need", "ha")):
        return "future"
    past = pattern(PAST[language]).search(text, start, found.start())
    return "future" if past is None else "planned"
