"""Links in a text, and their targets.

A link points to a *key*: a path, a URL or an id, in a normal form. A memory has the keys of its id and of some metadata
fields. A file has its path with and without its suffix, and its bare name for wiki links. Keys are stored as numbers,
so a link may be stored long before its target.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.mentions.sql import FIRST_PHRASE
from pam_retriever.types import Bools, Int64

if TYPE_CHECKING:
    import re2

    from pam_retriever.mentions.store import Document

DEFAULT_FIELDS = ("source", "url", "path", "file_path", "ref_doc_id")  # LlamaIndex sets the last for a chunk
MOST_LINKS = 1000  # distinct keys per text; the rest is ignored
MOST_CHARACTERS = 1000  # per target
RE2_MEMORY = 8 << 20  # bytes per pattern


def _closed(characters: str) -> str:
    """Returns a pattern of targets in which each parenthesis is closed, as in ``Mercury_(planet)``.

    Args:
        characters: the class of all other characters of a target.
    """
    return rf"{characters}{{1,1000}}(?:\({characters}{{0,200}}\){characters}{{0,200}}){{0,5}}"


# every class is bounded and excludes its terminator, so no pattern reads a character more than a few times
_WIKI = re.compile(r"\[\[([^\[\]|\n]{1,1000})(?:\|[^\[\]\n]{0,1000})?\]\]")
_BRACKETED = r"<([^<>\n]{1,1000})>"  # this form of a target may have spaces
_OTHERS = (  # each with a string that a text must contain to match
    ("](", re.compile(r"\]\([ \t]{0,8}(?:" + _BRACKETED + "|(" + _closed(r"[^\s()<>]") + "))")),  # [text](target)
    ("]:", re.compile(r"^ {0,3}\[[^\[\]\n]{1,200}\]:[ \t]{1,8}(?:" + _BRACKETED + r"|([^\s<>]{1,1000}))", re.M)),
    ("=", re.compile(r"\b(?:href|src)[ \t]{0,8}=[ \t]{0,8}[\"']([^\"'\n]{1,1000})[\"']", re.I)),
    ("://", re.compile(r"\b(https?://" + _closed(r"[^\s<>\"'`()\[\]{}|]") + ")", re.I)),
    ("/", re.compile(r"(?<![\w./-])((?:\.{1,2}/)?[\w.-]{1,100}(?:/[\w.-]{1,100}){1,20})(?![\w/])")),  # a path
)
_SIGNS = ("[", "]", "/", "=")  # every link has one of them; a search for a single character costs least
_WRITTEN = ("[[", "](", "]:", "href", "src")  # one of them is in every link that is no mere path or URL
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]{1,20}):(?://)?", re.I)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}$")
UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Link:
    """A key in a text, and its position: ``text[start:end]`` is the target as written."""

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class LinkRules:
    r"""Rules for the links in a text.

    Attributes:
        fields: metadata keys that links may point to, besides the id.
        patterns: regular expressions for other references to memories, such as ``r"[A-Z]+-\d+"`` for tickets. The first
            group, or else the whole match, is looked up unchanged. They run on RE2, which never backtracks, with RE2's
            syntax.
    """

    fields: tuple[str, ...] = DEFAULT_FIELDS
    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("fields", "patterns"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(one, str) for one in given):
                raise InvalidInput(f"Got {name}={given!r}.", "a sequence of strings", f"Pass {name}=({given!r},).")
            object.__setattr__(self, name, tuple(given))
        object.__setattr__(self, "_compiled", [_linear(pattern) for pattern in self.patterns])

    def keys_of(self, id: str, metadata: Mapping[str, object]) -> set[int]:
        """Returns the keys of a memory."""
        keys: set[str] = set() if UUID.fullmatch(id) else {id, *spellings(id)}
        for field in self.fields:
            value = metadata.get(field)
            if isinstance(value, str) and 0 < len(value) <= MOST_CHARACTERS and not UUID.fullmatch(value):
                keys.update({value, *spellings(value)})
                keys.update(_without_suffix(value))
        return {number_of(key) for key in keys}

    def links_of(self, text: str, metadata: Mapping[str, object]) -> list[Link]:
        """Returns the links in a text, each key once, at its first position.

        Args:
            text: a text of any length; the time is linear in it.
            metadata: metadata of the memory. Paths are relative to the first of ``fields`` in it.
        """
        if not self.patterns and not any(sign in text for sign in _SIGNS):
            return []
        base = next((value for field in self.fields if isinstance(value := metadata.get(field), str)), "")
        found: dict[int, Link] = {}
        for keys, start, end in chain(_targets(text, base), self._matches(text)):
            for key in keys:
                number = number_of(key)
                found.setdefault(number, Link(number, start, end))
            if len(found) >= MOST_LINKS:
                break
        return list(found.values())[:MOST_LINKS]

    def _matches(self, text: str) -> Iterator[tuple[list[str], int, int]]:
        compiled: Sequence[re2._Regexp[str]] = getattr(self, "_compiled")  # noqa: B009 - frozen
        for pattern in compiled:
            group = 1 if pattern.groups else 0
            for match in pattern.finditer(text):
                target = match.group(group)
                if target and len(target) <= MOST_CHARACTERS:
                    yield [target], *match.span(group)


def has_link(text: str) -> bool:
    """Returns whether a text may have a link that was written as one: a path or a URL may be there by accident."""
    return any(sign in text for sign in _WRITTEN)


def are_linked(documents: Sequence[Document], rules: LinkRules) -> bool:
    """Returns whether a link in one of some memories points to another of them."""
    bearers: dict[int, set[int]] = {}
    for one in documents:
        for number in rules.keys_of(one.id, one.metadata):
            bearers.setdefault(number, set()).add(one.row)
    return any(
        bearers.get(link.number, set()) - {one.row}
        for one in documents
        if one.text and has_link(one.text)
        for link in rules.links_of(one.text, one.metadata)
    )


def number_of(key: str) -> int:
    """Returns the number of a link's key: below ``-2**61``, the same on every machine.

    Some file systems decompose the letters of names, and texts have them composed; both have the same number.
    """
    return FIRST_PHRASE - 1 - _digest("link", key if key.isascii() else unicodedata.normalize("NFC", key))


def phrase_number(phrase: str) -> int:
    """Returns the number of a shared phrase: from ``-2**61`` to -1."""
    return -1 - _digest("phrase", phrase)


def are_phrases(numbers: Int64) -> Bools:
    """Returns whether each number belongs to a shared phrase."""
    found: Bools = (numbers >= FIRST_PHRASE) & (numbers < 0)
    return found


def spellings(target: str, base: str = "") -> list[str]:
    """Returns the keys that a link target may mean, with its fragment and without.

    Args:
        target: the target as written in the text.
        base: the path or URL of the text with the link.
    """
    target = unquote(target.strip().strip("<>")).replace("\\", "/").rstrip(".,;:!?")
    whole, _, fragment = target.partition("#")
    scheme = _SCHEME.match(whole)
    if scheme:
        rest = whole[scheme.end() :]
        host, slash, path = rest.partition("/")
        paths = [f"//{host.lower()}{slash}{path}".rstrip("/")] if scheme[1].lower() in ("http", "https") else [rest]
    elif whole:
        paths = [posixpath.normpath(whole.lstrip("/"))]
        folder = posixpath.dirname(base.replace("\\", "/"))
        if folder and not whole.startswith("/"):
            paths.append(_joined(folder, whole))
    else:
        paths = [*spellings(base)] if base and fragment else []
    paths = [path for path in dict.fromkeys(paths) if path not in ("", ".", "//")]
    return [f"{path}#{fragment}" for path in paths if fragment] + paths


def _joined(folder: str, path: str) -> str:
    scheme = _SCHEME.match(folder)
    if scheme and scheme[1].lower() in ("http", "https"):
        host, _, inside = folder[scheme.end() :].partition("/")
        return f"//{host.lower()}/{posixpath.normpath(posixpath.join(inside, path))}"
    return posixpath.normpath(posixpath.join(folder.lstrip("/"), path))


def _targets(text: str, base: str) -> Iterator[tuple[list[str], int, int]]:
    """Returns the keys of each link in a text, and the position of its target."""
    for match in _WIKI.finditer(text) if "[[" in text else ():
        yield [*_wiki_keys(match[1]), *spellings(match[1], base)], *match.span(1)
    for sign, pattern in _OTHERS:
        for match in pattern.finditer(text) if sign in text else ():
            group = match.lastindex or 0
            yield [match[group], *spellings(match[group], base)], *match.span(group)


def _wiki_keys(target: str) -> list[str]:
    page = target.partition("#")[0]
    pages = dict.fromkeys(one.strip().lower() for one in (target, page, _SUFFIX.sub("", page)))
    return [f"[[{page}" for page in pages if page]


def _without_suffix(path: str) -> Iterator[str]:
    """Returns the path of a file without its suffix, and its bare name as used in wiki links."""
    for spelling in spellings(path):
        if not spelling.startswith("//") and "#" not in spelling:
            bare = _SUFFIX.sub("", spelling)
            yield bare
            yield f"[[{posixpath.basename(bare).lower()}"
            yield f"[[{bare.lower()}"


def _digest(kind: str, key: str) -> int:
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, person=kind.encode()).digest()
    return int.from_bytes(digest, "big") % -FIRST_PHRASE


def _linear(pattern: str) -> re2._Regexp[str]:
    try:
        import re2
    except ImportError as error:
        raise MissingExtra("google-re2", "mentions", "A pattern of your own") from error
    options = re2.Options()
    options.max_mem = RE2_MEMORY
    options.log_errors = False
    if len(pattern) > MOST_CHARACTERS:
        raise InvalidInput(
            f"A pattern of {len(pattern)} characters.", f"at most {MOST_CHARACTERS}", "Split it into several."
        )
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidInput(
            f"The pattern {pattern!r} ({error}).",
            "a regular expression of RE2, which has no look-around and no back-references",
            "Write it without them: see https://github.com/google/re2/wiki/Syntax.",
        ) from error
    if compiled.match(""):
        raise InvalidInput(
            f"The pattern {pattern!r} matches the empty string.",
            "a pattern that matches at least one character",
            "Use + instead of *.",
        )
    return compiled
