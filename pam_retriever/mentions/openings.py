"""Names in the opening of a text, for a memory that has no other name.

A title is a short first line without a point at its end. Else the name is the subject of a definition: "Ada Lovelace
(1815-1852) was an English mathematician". A definition is capitalised words, a form of "to be" and an article, in
English, German, French, Spanish, Italian, Portuguese or Dutch. Brackets or a clause after a comma may stand before the
verb.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pam_retriever.mentions.folding import CAPITALS
from pam_retriever.mentions.links import DEFAULT_FIELDS, UUID
from pam_retriever.mentions.store import Document

WITHIN = 400  # characters: the part of a text that is searched
MOST_WORDS = 10  # per name
SAMPLE, SHARE = 200, 0.25  # see ``are_named``

LONGEST_TITLE = 60  # characters; a line of a wrapped paragraph is longer
_MARKS = re.compile(r"#{1,6}\s+")
# marks of lists, comments or tables, a sentence, code, or a label or time before a text ("Ann: hello")
_NO_TITLE = re.compile(
    r"^(?!\.\w)[^\w\"\u201c\u00ab'(]|[^\w)\]\"\u201d\u00bb'+#*]$|[.!?][\"\u201d\u00bb'*]+$"
    r"|[\u3002\uff01\uff1f\u061f\u06d4\u0964]|[!?]\s|\w{4,}\.\s|[={};|<>\t]|\"\"\"|\w\(|^\w+: |\d:\d\d"
)
_PLACE = re.compile(r"[./\\]")
_PATH = re.compile(r"\S*[./]\S*")
_WORD = rf"[\"\u201c\u00ab'\u2018]?[{CAPITALS}\d][^\s()!?;]{{0,63}}"
_SMALL = (
    r"(?:of|the|and|for|in|on|to|a|an|at|with|from|by|or|de|la|le|les|el|los|las|al|van|von|der|den|dem|und|zu|zum|zur"
    r"|im|du|des|et|del|di|da|do|das|dos|e|y|bin|ibn)"
)
_ARTICLE = r"(?:The|A|An|Der|Die|Das|La|Le|Les|El|Los|Las|Il|Lo|Gli|Het|De|O|Os)"
_IS = (
    r"(?:(?:is|was|are|were)\s+(?:an?|the|one|any)\b"
    r"|(?:ist|war|sind|waren)\s+(?:eine?|der|die|das)\b"
    r"|(?:est|\u00e9tait|sont|\u00e9taient|fut)\s+(?:une?\b|des\b|les?\b|la\b|l['\u2019])"
    r"|(?:es|era|fue|son|eran|fueron)\s+(?:una?|un[oa]s|el|l[ao]s?)\b"
    r"|(?:\u00e8|era|fu|sono)\s+(?:un[ao]?\b|un['\u2019]|il\b|l[ao]\b|i\b|gli\b|le\b|l['\u2019])"
    r"|(?:\u00e9|era|foi|s\u00e3o)\s+(?:uma?|os?|as?)\b"
    r"|(?:is|was|zijn|waren)\s+(?:een|de|het)\b)"
)
_DEFINITION = re.compile(
    rf"\s*(?:{_ARTICLE}\s+)?(?P<name>{_WORD}(?:\s+(?:{_WORD}|{_SMALL}(?=\s))){{0,{MOST_WORDS - 1}}})"
    rf"(?:\s*\((?:[^()]|\([^()]*\))*\))?(?:,\s[^.!?;]{{2,120}})?,?\s+{_IS}"
)
_QUOTES = " ,\"\u201c\u201d\u00ab\u00bb'\u2018\u2019"
_OPENING = ('"', "\u201c", "\u00ab")
_NICKNAME = re.compile(r"[\"\u201c][^\"\u201c\u201d]*[\"\u201d]\s*")
_OTHER_SENTENCE = re.compile(r"\w{4,}\.\s|,(?!\s(?:Jr|Sr|Inc|Ltd)\b)")
_SUFFIXES = {"jr", "sr", "ii", "iii", "iv"}
# words that begin sentences, and name nothing by themselves
_POINTING = """
i you he she it we they this that these those there here his her its their my your our what who which how one another
all most some many each both yes no so today now
es er sie das dies dieser diese dieses  il elle ce cela c'est ils elles on  lui lei questo questa quello quella
esto este esta eso ese esa ella ellos ellas  isto isso ele ela eles elas  hij zij dit deze dat
"""
_NO_NAMES = frozenset(_POINTING.split())


def title_of(text: str) -> str | None:
    """Returns the first line of a text if it is a title, without marks of a heading, or None."""
    first, _, rest = text[:WITHIN].partition("\n")
    title = _MARKS.sub("", first, 1).rstrip()
    fits = 0 < len(title) <= LONGEST_TITLE and title.count(" ") < MOST_WORDS and not title[0].isspace()
    if not fits or not rest.strip() or _NO_TITLE.search(title):
        return None
    return None if title[0].islower() and not _PATH.fullmatch(title) else title  # code, or the middle of a sentence


def subject_of(text: str) -> str | None:
    """Returns the subject that the first sentence of a text defines, without its article, or None."""
    found = _DEFINITION.match(text[:WITHIN])
    if not found:
        return None
    name = found["name"].strip(_QUOTES)
    words = name.lower().split()
    points = not found["name"].startswith(_OPENING) and not _NO_NAMES.isdisjoint(words[:1] + words[-1:])
    return None if points or _OTHER_SENTENCE.search(name) else name or None


def short_subject(name: str) -> str | None:
    """Returns the first and the last of three or more capitalised words: "Shirley Black" for "Shirley Temple Black"."""
    words = _NICKNAME.sub("", name).replace(",", "").split()
    while words and words[-1].rstrip(".").lower() in _SUFFIXES:
        words.pop()
    if len(words) < 3 or not all(word[:1].isupper() for word in words):
        return None
    return f"{words[0]} {words[-1]}"


def opening_names(text: str) -> tuple[str | None, str | None]:
    """Returns the title or the subject of a text, and the short form of a subject; None for what is not there."""
    title = title_of(text)
    subject = None if title else subject_of(text)
    return title or subject, short_subject(subject) if subject else None


def first_parts(latest: Sequence[Document]) -> list[str]:
    """Returns the texts of memories, and of passages that share a file or an address the first one only.

    A later passage does not begin with what its document is about.

    Args:
        latest: memories, the latest first.
    """
    first: dict[object, str] = {}
    for one in reversed(latest):
        places = (value for field in DEFAULT_FIELDS if _is_place(field, value := one.metadata.get(field)))
        first.setdefault(next(places, one.row), one.text or "")
    return [text for text in first.values() if text]


def _is_place(field: str, value: object) -> bool:
    """Whether metadata hold a path, an address or the id of a document; a ``source`` may be a kind, such as "mail"."""
    if not isinstance(value, str) or field != "source":
        return isinstance(value, str) and value != ""
    return _PLACE.search(value) is not None or UUID.fullmatch(value) is not None


def are_named(texts: Sequence[str]) -> bool:
    """Returns whether at least two of some texts, and a quarter of them, have a name of their own in their opening.

    Half of the passages of an encyclopaedia have one, and nearly all notes and files; one of 500 turns of a dialogue.
    """
    names = {name.casefold() for text in texts if (name := opening_names(text)[0])}
    return len(names) >= max(2, SHARE * len(texts))
