"""Whether a sentence looks ahead: by a word of the future, or by a present tense that tells of a plan."""

from __future__ import annotations

import re
from functools import cache

from pam_retriever.timewords.lexicon import FUTURE, PAST
from pam_retriever.timewords.past import PAST_TENSE
from pam_retriever.timewords.present import PERFECT_AT_END, PRESENT

# "We're moving on the 20th": verbs whose present progressive is a plan, unlike "We're missing you"
_PLANS = (
    "moving|leaving|flying|going|coming|heading|driving|travell?ing|visiting|arriving|returning|departing|taking|having"
    "|getting|starting|meeting|seeing|hosting|throwing|joining|playing|performing|attending|celebrating|giving|holding"
    "|launching|opening|closing|releasing|bringing|picking|staying|presenting|marrying|graduating|retiring|finishing"
    "|ending|beginning|speaking|competing|racing|switching"
)
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_CALLS = "dentist|doctor|vet|appointment|interview|exam|deadline|surgery|check-?up"  # "Dentist on Friday at 3"
# "The flight leaves Monday", "the twins start school in June"; "the party is on Friday", not "the photo is from Friday"
_VERBS = (
    "leave|depart|arrive|start|begin|open|close|end|run|land|air|premiere|resume|expire|move|return|graduate|retire"
    "|sign"
)
_THINGS = "the|our|my|his|her|their"
_TIMETABLE = (
    rf"(?:(?<!\bthe )(?<!\bfall )\b(?:(?:{_VERBS}|kick|turn)s|flies|finishes|takes place|goes (?:back|on|up|down)"
    rf"|comes (?:back|home|to)|comes?(?= on\b)|gets (?:{_THINGS}|married|back))"
    r"|\b(?:I|we|they|you|[^\W\d]+s|and \w+)(?: (?:all|both|also|then))?"
    rf" (?:{_VERBS}|fly|finish|head|go (?:back|on|to|up|down)|come (?:back|home|to)|get (?:{_THINGS}|married|back)))\b"
)
_MEETINGS = (
    "appointment|meeting|interview|exam|test|flight|party|wedding|game|match|concert|show|deadline|presentation|recital"
    "|surgery|check-?up|race|tickets"
)
_PLANNED = {
    "en": rf"(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:not|also|all|both|finally|only|just))? (?:{_PLANS}|off to)\b"
    rf"|{_TIMETABLE}(?: [\w'’]+){{0,5}}? (?:(?:on|from|in|at|this|next)\b|(?:{_DAYS})day\b)"
    rf"|\b(?:is|are) (?:(?:on|in|at|{_MONTHS})\b|(?:{_DAYS})day\b)|['’]s on\b"
    r"|(?:\bis|\bare|['’]s) (?:closed|open|off|away)\b"
    r"|\bare you (?:free|around|available|home|busy|in|up|coming|able)\b|\bneeds? (?:the|an?|my|our|it|this|that)\b"
    rf"|['’]d like\b|\bwould like\b|\b(?:{_CALLS}):? (?:(?:on|at)\b|(?:{_DAYS})day\b)"
    r"|\b(?:we|I|they) (?:fly|leave|move|depart|head|start)\b"
    r"|\blet['’]s\b|\bsee you\b|\bdon['’]t forget\b|\bremember to\b|\bhop(?:e|ing) to\b|\bwants? to\b"
    r"|\b(?:should|might)\b(?! have|['’])|\b(?:can|could|would) you\b|\bcan['’]t (?:come|make)\b"
    rf"|(?:\bha(?:ve|s)|['’]ve got) (?:\w+ ){{0,4}}(?:{_MEETINGS})\b",
    "de": r"\b(?:ich|du|wir|ihr|er|sie|es|man|ist|sind|hab|fährt|fliegt|zieht|trifft|kommt|beginn(?:t|en)|startet|endet"
    r"|fängt|öffnet|schließt|heiratet|fangen|kommen)\b",
    "fr": r"\b(?:je|tu|on|nous|vous|ils?|elles?|est|sont|a|ont|commence(?:nt)?|part(?:ent)?|arrive(?:nt)?|entre(?:nt)?"
    r"|reprend|ouvre(?:nt)?|expire(?:nt)?|finit|se marient?)\b|\b[jc]['’]",
    "es": r"\b(?:nos vemos|es|son|hay|tengo|tienes?|tenemos|tienen|toca|quedamos|puedes|podemos|vienes?|vienen|vengo"
    r"|salimos|salgo|viajo|viajamos|volamos|(?:empiez|comienz|termin|cierr|lleg)[oa]n?|(?:abr|vuelv|sal|venc|cumpl)en?"
    r"|me mudo|nos mudamos|se casan?)\b",
    "zh": r"(?!)",
}
# the same of questions: "Do I have anything on Friday?"
_ASKED = {
    "en": r"\b(?:do|have) (?:I|we)(?: have| got)? "
    rf"(?:any ?thing|something|plans|time|(?:\w+ ){{0,3}}(?:{_MEETINGS}))s?\b"
    rf"|\b(?:{_MEETINGS})s? (?:do|have) (?:I|we)\b|\bis there (?:\w+ ){{0,3}}(?:{_MEETINGS})\b|\b(?:am I|are we)\b"
    rf"|\b(?:{_MEETINGS})\b[^,?]* (?:is|are|isn['’]t) (?:on|at|{_DAYS}|still)"
    r"|\bon my (?:calendar|agenda|schedule)\b|\bremind me (?:on|in|at|this|next)\b"
    r"|\b(?:is|are) (?:\w+ )?(?:coming|arriving|leaving|visiting|happening)\b|['’]s happening\b",
    "de": r"\bsteht\b.*\ban\b|\bhab(?:e|en)? (?:ich|wir)\b.*\b(?:vor|termine?|frei|zeit)\b",
    "fr": r"\best-ce qu(?:e (?:je|nous)|e j['’]|['’]on)|\b(?:fait|fais) quoi\b",
    "es": r"\b(?:tengo|tenemos|quedamos|vienes?|vienen)\b",
}


@cache
def pattern(words: str) -> re.Pattern[str]:
    """Returns the words of a constant as a pattern."""
    return re.compile(words, re.IGNORECASE)


def looks_ahead(text: str, start: int, end: int, language: str, said: bool) -> str:
    """Returns whether a sentence is about what comes.

    Returns:
        "future" for "What will we do"; "present" for a plan in the present tense ("We're moving on the 20th", "What's
        on my calendar"); "asked" for another question in the present tense ("What do we have on Sunday"); "planned"
        for "What did we plan", and for a text (``said``) that does not tell what was;
        nothing for other sentences.
    """
    found = pattern(FUTURE[language]).search(text, start, end)
    if found is None:
        plans = _PLANNED if said else _ASKED
        ahead = _in_present(text, start, end, language, plans[language], said) if language in plans else ""
        return ahead or ("" if said else _asked_in_present(text, start, end, language))
    if language not in PAST or not found[0].lower().startswith(("plan", "going", "need", "ha", "geplant", "prévu")):
        return "future"
    past = pattern(PAST[language]).search(text, start, found.start())
    return "future" if past is None else "planned"


def _in_present(text: str, start: int, end: int, language: str, plans: str, said: bool) -> str:
    """Returns "present" for a clause about a plan that tells of no past, "planned" for a text without a past."""
    plan, past = pattern(plans).search(text, start, end), pattern(PAST_TENSE[language])
    if plan is not None:
        first, last = text.rfind(",", start, plan.start()), text.find(",", plan.end(), end)
        if past.search(text, max(start, first), end if last < 0 else last) is None:
            return "present"
    return "planned" if said and past.search(text, start, end) is None else ""


def _asked_in_present(text: str, start: int, end: int, language: str) -> str:
    """Returns "asked" for a question in the present tense about what somebody does, or about tasks."""
    if pattern(PRESENT[language]).search(text, start, end) is None:
        return ""
    perfect = language in PERFECT_AT_END and pattern(PERFECT_AT_END[language]).search(text[start:end]) is not None
    return "" if perfect or pattern(PAST_TENSE[language]).search(text, start, end) is not None else "asked"
