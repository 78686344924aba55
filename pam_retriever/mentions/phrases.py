"""Phrases that make a request of a question: "Hi, could you tell me ...", "Thanks in advance!".

Their words say nothing about what is asked, and texts may hold them. Only English ones are known.
"""

from __future__ import annotations

import re

MOST = 5  # phrases one after the other: "Hi! Quick question: could you tell me"
_POLITELY = r"(?:please|kindly|maybe|perhaps|just|quickly)"
_ASK = (
    r"(?:(?:tell|remind|show|give|help) me|help|explain|look up|check|find(?: out)?|list|search(?: for)?|let me know)"
)
_LEARN = r"(?:know|find out|find|understand|remember|recall|figure out|see|learn|ask(?: you)?)"
_IF = r"(?: if| whether)?"
_OURS = r"(?:our|my|the|your)"
_PAST = r"(?:conversations?|chats?|messages|history|context|memory|memories|notes|documents|files|records)"
_ANSWER = r"(?:help|time|answer)"
PHRASES = (
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there)?",
    rf"(?:{_POLITELY} )?(?:can|could|would|will) you (?:{_POLITELY} )?{_ASK}(?: (?:to )?{_LEARN})?{_IF}",
    rf"{_POLITELY} {_ASK}(?: (?:to )?{_LEARN})?{_IF}",
    r"(?:tell|remind|show) me(?: about)?",
    rf"(?:do|would) you (?:happen to )?(?:know|remember|recall|have any idea){_IF}",
    rf"i(?:'?d like|'?m trying|(?: just| really)? (?:need|want|would like|am trying)) to {_LEARN}{_IF}",
    rf"(?:so )?i(?: was|'?m| am)?(?: just)? wonder(?:ing)?{_IF}",
    r"i have a(?: quick)? question(?: about)?",
    r"(?:quick |one more |another |my |the )?question(?=:)",
    rf"(?:based on|according to|given|from|looking at|using) {_OURS}(?: (?:previous|past|earlier|last|whole))? {_PAST}",
    rf"search (?:in |through )?{_OURS} {_PAST} for(?: this)?",
    r"(?:please )?answer (?:the|this|my)(?: following)? question",
    rf"(?:many )?thanks(?: a lot| so much| very much| again)?(?: in advance)?(?: for (?:your|the|any) {_ANSWER})?",
    rf"thank you(?: so much| very much)?(?: in advance)?(?: for (?:your|the|any) {_ANSWER})?",
    r"if (?:you|it|there)(?: do not| don'?t| cannot| can'?t) (?:know|find)[^.?!\n]*",
    r"(?:please )?(?:keep|make) (?:the|your) answer[^.?!\n]*",
    r"(?:please )?(?:be|answer) (?:brief|short|concise)\w*",
)
_PHRASE = re.compile(rf"(?:(?<=[.?!:,;\n])|^)[\s\"'(]{{0,3}}(?:{'|'.join(PHRASES)})(?=[\s,.:;!?]|$)", re.IGNORECASE)


def without_phrases(text: str) -> str:
    """Returns a question without the phrases at the beginnings of its clauses; itself if no word is left."""
    left = text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    for _ in range(MOST):
        left, found = _PHRASE.subn(" ", left)
        if not found:
            break
        left = left.strip()
    return left if any(character.isalnum() for character in left) else text
