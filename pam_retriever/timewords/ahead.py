"""Whether a sentence looks ahead: by a word of the future, or by a present tense that tells of a plan."""

from __future__ import annotations

import re
from functools import cache

from pam_retriever.timewords.lexicon import FUTURE, PAST

# "We're moving on the 20th": verbs whose present progressive is a plan, unlike "We're missing you"
_PLANS = (
    "moving|leaving|flying|going|coming|heading|driving|travell?ing|visiting|arriving|returning|departing|taking|having"
    "|getting|starting|meeting|seeing|hosting|throwing|joining|playing|performing|attending|celebrating|giving|holding"
    "|launching|opening|closing|releasing|bringing|picking|staying|presenting|marrying|graduating|retiring|finishing"
    "|ending|beginning|speaking|competing|racing|switching"
)
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
# "The flight leaves Monday", "the twins start school in June"; "the party is on Friday", not "the photo is from Friday"
_VERBS = (
    "leave|depart|arrive|start|begin|open|close|end|run|land|air|premiere|resume|expire|move|return|graduate|retire"
    "|sign"
)
_THINGS = "the|our|my|his|her|their"
_TIMETABLE = (
    rf"(?:(?<!\bthe )(?<!\bfall )\b(?:(?:{_VERBS}|kick|turn)s|flies|finishes|takes place|goes (?:back|on)"
    rf"|comes (?:back|home|to)|gets (?:{_THINGS}|married|back))"
    r"|\b(?:I|we|they|you|[^\W\d]+s|and \w+)(?: (?:all|both|also|then))?"
    rf" (?:{_VERBS}|fly|finish|head|go (?:back|on|to)|come (?:back|home|to)|get (?:{_THINGS}|married|back)))\b"
)
_MEETINGS = (
    "appointment|meeting|interview|exam|test|flight|party|wedding|game|match|concert|show|deadline|presentation|recital"
    "|surgery|check-?up|race|tickets"
)
_PLANNED = {
    "en": rf"(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:not|also|all|both|finally|only|just))? (?:{_PLANS}|off to)\b"
    rf"|{_TIMETABLE}(?: [\w'’]+){{0,5}}? (?:(?:on|from|in|at|this|next)\b|(?:{_DAYS})day\b)"
    rf"|\b(?:is|are) (?:(?:on|in|at)\b|(?:{_DAYS})day\b)|['’]s on\b"
    r"|\b(?:we|I|they) (?:fly|leave|move|depart|head|start)\b"
    r"|\blet['’]s\b|\bsee you\b|\bdon['’]t forget\b|\bremember to\b|\bhop(?:e|ing) to\b|\bwants? to\b"
    r"|\b(?:should|might)\b(?! have|['’])|\b(?:can|could|would) you\b|\bcan['’]t (?:come|make)\b"
    rf"|(?:\bha(?:ve|s)|['’]ve got) (?:\w+ ){{0,4}}(?:{_MEETINGS})\b",
    "de": r"\b(?:(?:fahr|flieg|zieh|reis|heirat|treff|komm|start|end|fang)en?|fährt|fliegt|zieht|trifft|kommt"
    r"|beginn(?:t|en)|startet|endet|fängt|öffnet|schließt|heiratet)\b",
    "fr": r"\b(?:part(?:ons|ent|)|pars|arriv(?:e|ons|ent)|déménag(?:e|eons|ent)|se marient?"
    r"|(?:commence|entre|rentre|termine|ouvre|expire)(?:nt)?|repren(?:d|ds|nent|ons)|fini(?:t|ssent)|revien(?:t|s|nent))\b",
    "es": r"\b(?:nos vemos|salimos|salgo|viajo|viajamos|volamos|(?:empiez|comienz|termin|cierr|lleg)[oa]n?"
    r"|(?:abr|vuelv|sal|venc)en?|me mudo|nos mudamos|se casan?)\b",
}
# what was ("since", "these days"), or what comes again and again, is no plan
_NO_PLAN = {
    "en": r"\b(?:since|every|each|annual(?:ly)?|usually|always|often|lately|these days|so far|ago|was|were|had|did|been"
    r"|went|came|(?<!['’]ve )got|made|saw|met|said|told|took|found|bought|gave|left|felt|began|ran|won|lost|wrote|sent"
    r"|kept|knew|grew|(?!excited|thrilled|need|indeed|speed|tired|scared|interested|married|invited|supposed|scheduled)"
    r"[a-z]{2,}[^\We]ed)\b",
    "de": r"\b(?:seit|jeden|jede|immer|oft|habe|hat|haben|bin|bist|sind|ist|war|waren|vor)\b",
    "fr": r"\b(?:depuis|chaque|tous|toujours|souvent|ai|as|a|avons|avez|ont|suis|est|sommes|sont|était|étaient)\b",
    "es": r"\b(?:desde|cada|todos|siempre|he|ha|hemos|han|fue|fui|era|había|hace)\b",
}


@cache
def pattern(words: str) -> re.Pattern[str]:
    """Returns the words of a constant as a pattern."""
    return re.compile(words, re.IGNORECASE)


def looks_ahead(text: str, start: int, end: int, language: str, said: bool) -> str:
    """Returns "future" for "What will we do", "planned" for "What did we plan", and nothing for other sentences.

    In a text (``said``) the present tense of a plan or a timetable looks ahead, too.
    """
    found = pattern(FUTURE[language]).search(text, start, end)
    if found is None:
        return "future" if said and language in _PLANNED and _tells_of_plan(text, start, end, language) else ""
    if language not in PAST or not found[0].lower().startswith(("plan", "going", "need", "ha")):
        return "future"
    past = pattern(PAST[language]).search(text, start, found.start())
    return "future" if past is None else "planned"


def _tells_of_plan(text: str, start: int, end: int, language: str) -> bool:
    """Whether a clause of a sentence is about a plan, and does not tell what was."""
    plan = pattern(_PLANNED[language]).search(text, start, end)
    if plan is None:
        return False
    first, last = text.rfind(",", start, plan.start()), text.find(",", plan.end(), end)
    first, last = max(start, first), end if last < 0 else last
    return pattern(_NO_PLAN[language]).search(text, first, last) is None
