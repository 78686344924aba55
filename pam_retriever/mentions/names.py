"""The names of memories.

A name is a sequence of words (``folding.py``). These strings are ignored: only stop words, a single letter, more than
``MOST_WORDS`` words, more than ``MOST_CHARACTERS`` characters. Names after the first ``MOST_NAMES`` of a memory are
ignored, too. So no title can make adding slow.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile, islice
from typing import cast

from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.folding import CAPITALS, fold, words
from pam_retriever.mentions.scripts import is_unspaced
from pam_retriever.mentions.stop_words import STOP_WORDS as QUESTION_WORDS
from pam_retriever.validation import as_in_script, check_flag, full_name, read_list

DEFAULT_KEYS = ("title", "name", "aliases")
MOST_NAMES = 64  # per memory
MOST_WORDS = 16  # per name; letters of scripts without spaces between words count half
MOST_CHARACTERS = 256  # per name
FEWEST_CHARACTERS = 2  # "C" and "7" are too common
HEADING_WITHIN = 1000  # characters: the part of a text that is searched for a heading

STOP_WORDS = frozenset(QUESTION_WORDS.split()) | {"the", "all", "any", "each", "more", "most", "other", "some", "very"}
_BRACKETED = re.compile(r"\s*[(\[{\uff08][^()\[\]{}\uff08\uff09]*[)\]}\uff09]\s*$")
_CLOSING = (")", "]", "}", "\uff09")
_HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<marked>[^\n]*?)[ \t]*#*[ \t]*$|^(?P<under>[^\n]+)\n(?:=+|-+)[ \t]*$", re.M
)

_running = threading.local()  # ``function``: whether this thread is in a function of the user
# from metadata and text to names: one string, several or None
NameFunction = Callable[[Mapping[str, object], "str | None"], "str | Iterable[str] | None"]
MOST_PHRASES = 256  # per text: the first ones
# a space, a hyphen, a line break or the point of an initial may separate two words of a name
_RUN = re.compile(
    rf"[{CAPITALS}](?<![^\W_][{CAPITALS}])[\w'\u2019]{{0,63}}"
    rf"(?:(?:[ \n-]|(?<=\b[{CAPITALS}])\. )[{CAPITALS}][\w'\u2019]{{0,63}})+"
)


@dataclass(frozen=True)
class Name:
    """A name of a memory.

    Attributes:
        phrase: its folded words, joined by single spaces.
        short: whether it was shortened ("Mercury (planet)" to "Mercury"). A shortened name counts only if no memory
            has it as its full name.
    """

    phrase: str
    short: bool = False


@dataclass(frozen=True)
class NameRules:
    """The sources of the names of a memory.

    Attributes:
        names: metadata keys whose strings, or lists of strings, are names; or a function that returns names from
            metadata and text.
        headings: whether the first heading of a text (``# like this``, or underlined) is a name, too.
        openings: whether a name in the opening of a text counts for a memory without other names (``openings.py``).
    """

    names: tuple[str, ...] | NameFunction = DEFAULT_KEYS
    headings: bool = False
    openings: bool = False

    def __post_init__(self) -> None:
        keys = self.names
        if callable(keys):
            return
        if not isinstance(keys, (tuple, list)) or not all(isinstance(key, str) for key in keys):
            raise InvalidInput(
                f"Got names={keys!r}.",
                "keys of the metadata, or a function",
                "Pass for example names=('title', 'aliases').",
            )
        object.__setattr__(self, "names", tuple(keys))

    @property
    def needs_text(self) -> bool:
        """Whether a name may be in the text."""
        return self.headings or self.openings or callable(self.names)

    def of(self, metadata: Mapping[str, object], text: str | None) -> list[Name]:
        """Returns the names of a memory without duplicates, full names before shortened ones.

        Raises:
            InvalidInput: a function raised an error, or returned a value that is no string.
        """
        given = list(islice(self.strings(metadata, text), MOST_NAMES))
        full = phrases_of(given)
        short = phrases_of(shorter for one in given if (shorter := shortened(one)) != one)
        if not full and self.openings and text:
            full, short = _in_opening(text)
        return [Name(phrase) for phrase in full] + [Name(phrase, True) for phrase in short if phrase not in full]

    def any_of(self, metadata: Mapping[str, object], text: str | None) -> bool:
        """Returns whether a memory has a name."""
        named = any(phrase_of(one) for one in islice(self.strings(metadata, text), MOST_NAMES))
        return named or (self.openings and text is not None and bool(_in_opening(text)[0]))

    def strings(self, metadata: Mapping[str, object], text: str | None) -> Iterator[str]:
        """Yields the names of a memory as they are written, without those in openings."""
        if callable(self.names):
            yield from _called(self.names, metadata, text)
        else:
            for key in self.names:
                yield from _strings_of(metadata.get(key))
        if self.headings and text and (heading := first_heading(text)):
            yield heading


@dataclass(frozen=True)
class Naming:
    r"""The names and links of an index, for ``PredictiveAssociativeIndex(names=...)``. It is stored with the index.

    Attributes:
        keys: the metadata keys whose strings, or lists of strings, are names; or a function that returns names from
            metadata and text (``NameFunction``). The index stores only the name of the function, so whoever opens the
            index to add memories passes it again; queries need no function.
        headings: whether the first heading of a text (``# like this``, or underlined) is a name, too.
        openings: whether a memory without other names has the title in the first line of its text as its name, or the
            subject that its first sentence defines ("Ada Lovelace (1815-1852) was an English mathematician"), once a
            quarter of the latest texts have one.
        patterns: regular expressions of links to ids or paths, for example ``r"[A-Z]+-\d+"`` for tickets; the first
            group if there is one, else the whole match. They need the extra ``mentions``, and have RE2's syntax.
    """

    keys: tuple[str, ...] | NameFunction = DEFAULT_KEYS
    headings: bool = False
    patterns: tuple[str, ...] = ()
    openings: bool = True

    @classmethod
    def of(cls, names: Sequence[str] | NameFunction | Naming) -> Naming:
        """Reads ``names=``.

        Raises:
            InvalidInput: ``names`` is invalid.
        """
        none = isinstance(names, (tuple, list)) and not callable(names) and not names
        given = names if isinstance(names, Naming) else cls(names, openings=not none)  # type: ignore[arg-type]
        keys = NameRules(given.keys).names
        if callable(keys):
            name_of(keys)
        patterns = tuple(read_list("patterns", given.patterns))
        return cls(keys, check_flag("headings", given.headings), patterns, check_flag("openings", given.openings))

    @classmethod
    def read(cls, stored: object) -> Naming:
        """Reads a result of ``to_json``; the default for None. A stored function becomes a ``MissingFunction``."""
        if isinstance(stored, dict):
            keys = stored["keys"]
            named = MissingFunction(as_in_script(str(keys["function"]))) if isinstance(keys, dict) else tuple(keys)
            return cls(named, stored["headings"], tuple(stored["patterns"]), stored.get("openings", True))
        return cls(tuple(map(str, stored)), openings=bool(stored)) if isinstance(stored, list) else cls()

    def first_of(self, metadata: Mapping[str, object], text: str | None) -> str | None:
        """Returns the first name of a memory as it is written, from its metadata or the function; None without one."""
        if isinstance(self.keys, MissingFunction):
            return None
        return next(NameRules(self.keys).strings(metadata, text), None)

    def to_json(self) -> object:
        """Returns the list of keys if ``of`` returns the same for it, else a dict, with the name of a function."""
        if callable(self.keys):
            keys: object = {"function": name_of(self.keys)}
        elif self == Naming.of(self.keys):
            return list(self.keys)
        else:
            keys = list(self.keys)
        return {
            "keys": keys,
            "headings": self.headings,
            "patterns": list(self.patterns),
            "openings": self.openings,
        }


@dataclass(frozen=True)
class MissingFunction:
    """Stands for the function of an index that was opened without it: nothing can be named.

    Attributes:
        name: the name under which the index stores the function.
    """

    name: str

    def __call__(self, _metadata: Mapping[str, object], _text: str | None, /) -> Iterable[str]:
        raise self.error()

    def error(self) -> InvalidInput:
        """Returns the error of a call that needs the function."""
        return InvalidInput(
            f"The names of this index come from the function {self.name!r}, which was not passed.",
            "the function, wherever memories are added or changed",
            "Pass names=function to open() or load(), or other names. Queries and deletions need no function.",
        )


def name_of(function: NameFunction) -> str:
    """Returns the name by which an index knows a function again: its module and its name there.

    Raises:
        InvalidInput: the function has none: it is a lambda or a partial; or it is async.
    """
    if isinstance(function, MissingFunction):
        return function.name
    name = full_name(function)
    if isinstance(function, partial) or "<lambda>" in name or name.startswith("None.") or _is_async(function):
        raise InvalidInput(
            f"Got names={function!r}.",
            "metadata keys, a Naming, or a function with a name: the index stores the name, to know it again",
            "Define it: def names_of(metadata, text): ...",
        )
    return name


def _is_async(function: NameFunction) -> bool:
    """Whether a call returns no names, but something to wait for."""
    calls = function, getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in calls)


def check_unchanged(inside: bool) -> None:
    """Refuses to change, save or close an index in its own function of names: half of a change is done.

    Args:
        inside: whether this thread is inside a call of the index.

    Raises:
        InvalidInput: it is, and the function runs.
    """
    if inside and getattr(_running, "function", False):
        raise InvalidInput(
            "The function of names= changed, saved or closed its own index.",
            "a function that only reads",
            "Change the index before or after the call that adds memories.",
        )


def _called(function: NameFunction, metadata: Mapping[str, object], text: str | None) -> Iterator[str]:
    """Yields the names that a function returns."""
    before = getattr(_running, "function", False)
    try:
        _running.function = True
        returned: object = function(metadata, text)
        if returned is None or returned is False:  # as in ``"title" in metadata and metadata["title"]``
            return
        several = isinstance(returned, Iterable) and not isinstance(returned, (str, bytes))
        names = list(islice(cast("Iterable[object]", returned), MOST_NAMES)) if several else [returned]
    except InvalidInput:
        raise
    except Exception as error:
        raise InvalidInput(
            f"The function names={full_name(function)} raised {error!r} for the metadata {dict(metadata)!r:.200}.",
            "a string, several strings or None for every memory",
            "Mend it for this one; nothing was stored.",
        ) from error
    finally:
        _running.function = before
    for name in names:
        if not isinstance(name, str):
            got = f"The function names={full_name(function)} returned {name!r:.80}."
            raise InvalidInput(got, "strings", "Leave other values out.")
        yield name


def phrase_of(name: str) -> str | None:
    """Returns the folded words of a name joined by spaces; None for a string that is no name (see above)."""
    if len(name) > MOST_CHARACTERS:
        return None
    found = words(name)
    phrase = " ".join(found)
    most = 2 * MOST_WORDS if is_unspaced(phrase) else MOST_WORDS
    if not len(phrase) >= FEWEST_CHARACTERS or len(found) > most or STOP_WORDS.issuperset(found):
        return None
    return phrase


def phrases_of(names: Iterable[str | None]) -> dict[str, None]:
    """Returns the phrases of those of the ``names`` that are some, without duplicates, in order."""
    return dict.fromkeys(phrase for name in names if name and (phrase := phrase_of(name)))


def _in_opening(text: str) -> tuple[dict[str, None], dict[str, None]]:
    """Returns the phrases of the name in the opening of a text, and of its short form."""
    from pam_retriever.mentions.openings import opening_names  # a long pattern, which few indexes need

    full, short = opening_names(text)
    return phrases_of([full]), phrases_of([short])


def shortened(name: str) -> str:
    """Returns a name without a final part in brackets."""
    if len(name) > MOST_CHARACTERS or not name.rstrip().endswith(_CLOSING):
        return name
    return _BRACKETED.sub("", name)


def first_heading(text: str) -> str | None:
    """Returns the first Markdown heading near the beginning of a text, or None."""
    found = _HEADING.search(text[:HEADING_WITHIN])
    return (found["marked"] or found["under"] or "").strip() or None if found else None


def _strings_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (one for one in value if isinstance(one, str))


def capitalised(text: str) -> dict[str, tuple[int, int]]:
    """Returns runs of two or more capitalised words, folded, with positions; without leading stop words.

    Two texts may share such a phrase although no memory has it as a name. It links them weakly, and only if both
    capitalise it. A script without capitals has no such phrases.
    """
    found: dict[str, tuple[int, int]] = {}
    for match in islice(_RUN.finditer(text), MOST_PHRASES):
        run = list(dropwhile(STOP_WORDS.__contains__, fold(match.group()).split()))
        if 2 <= len(run) <= MOST_WORDS:
            found.setdefault(" ".join(run), match.span())
    return found
