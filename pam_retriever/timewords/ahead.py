"""Whether a sentence looks ahead: by a word of the future, or by a present tense that tells of a plan."""

from __future__ import annotations

from pam_retriever.timewords.plans import ASKED, LASTING, PLANNED, PRESENT
from pam_retriever.timewords.tense import FUTURE, PARTICIPLE, PAST, WAS

_MEANT = ("plan", "going", "need", "ha", "geplant", "prévu")  # what these announce may be over: "What did we plan?"


def looks_ahead(text: str, start: int, end: int, language: str, said: bool) -> str:
    """Returns whether a sentence is about what comes.

    Returns:
        "future" for "What will we do"; "present" for a plan in the present tense ("We're moving on the 20th", "What's
        on my calendar"); "asked" for another question in the present tense ("What do we have on Sunday"); "planned"
        for "What did we plan", and for a text (``said``) that does not tell what was; "lasting" for another question
        about what is ("Is he away"); nothing for other sentences.
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
