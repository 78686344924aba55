"""Decides when the names and mentions of an index are searched: at a write, before the next query, or never.

Nothing is searched or stored until a memory has a name, so that texts without names cost nothing. Openings
of texts are names only if many texts have one: in a dialogue it is an accident. From the first name or link on,
``MentionGraph`` holds all texts. The search of memories that are added in bulk is done before the next query, or on
``close``: one pass for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.filters.stored import to_json
from pam_retriever.mentions.names import MissingFunction, NameRules, Naming
from pam_retriever.mentions.store import SQLiteMentions
from pam_retriever.store.sqlite.settings import SQLiteSettings
from pam_retriever.types import Bools, Int64

if TYPE_CHECKING:  # the search for names is loaded if a memory has one
    from pam_retriever.mentions.graph import MentionGraph

NAMES, STATE = "names", "mentions"  # settings: the metadata keys of names, and whether mentions are searched for
WAITING = "mentions_waiting"  # setting: the first and last row of each bulk whose search is pending
UNNAMED, SEARCHED, OPENED = "no names", "searched", "searched with openings"
OFF = Naming.of(())  # links are not followed either
MANY = 1000  # memories in one call from which a new search of all may be faster
SHARE = 0.5  # of all texts: for a smaller share an update costs less than a new search


class IndexMentions:
    """Names and mentions. The writing methods run inside the transaction of the change that they follow.

    Args:
        store: the tables of mentions.
        settings: the settings of the same database.

    Attributes:
        store: the tables of mentions.
        waits: whether this process added memories in bulk whose search may be pending.
    """

    def __init__(self, store: SQLiteMentions, settings: SQLiteSettings) -> None:
        self.store, self._settings = store, settings
        self.waits = False
        self._given: Naming | None = None  # with a function, which cannot be stored

    @property
    def naming(self) -> Naming:
        """The names and links of the index."""
        stored = Naming.read(self._settings.get(NAMES))
        if isinstance(stored.keys, MissingFunction) and self._given and self._given.to_json() == stored.to_json():
            return self._given
        return stored

    @property
    def known(self) -> bool:
        """Whether any name is known."""
        return self._settings.get(STATE) in (SEARCHED, OPENED)

    @property
    def openings(self) -> bool:
        """Whether openings of texts are names. Once they are, they stay so until the names are set."""
        return self.naming.openings and self._settings.get(STATE) == OPENED

    @property
    def pending(self) -> bool:
        """Whether a search is pending: of a bulk, of an index of format 1, or after a change of the keys."""
        if self._settings.read_only:
            return False
        late = self._settings.get(STATE) is None or bool(self._waiting())
        return late and not isinstance(self.naming.keys, MissingFunction)

    def has(self, naming: Naming) -> bool:
        """Whether the index has these names and links; functions are compared by name."""
        return self.naming.to_json() == naming.to_json()

    def give(self, naming: Naming) -> None:
        """Passes the function of the names that the index has."""
        self._given = naming

    def set_naming(self, naming: Naming) -> None:
        """Sets the names and links. The next query that needs mentions searches for them.

        Raises:
            InvalidInput: a pattern is invalid.
            MissingExtra: a pattern needs the extra ``mentions``.
        """
        from pam_retriever.mentions.graph import MentionRules

        MentionRules.of(naming)
        self._settings.set(NAMES, naming.to_json())
        self.search_again()
        self.store.clear()

    def search_again(self) -> None:
        """Has the next query search all memories for names and mentions."""
        self._settings.remove(STATE)
        self._settings.remove(WAITING)

    def follow(self, rows: Int64, metadatas: Sequence[str], texts: Sequence[str | None]) -> None:
        """Adds memories that were just added or changed.

        Args:
            rows: (n,) distinct.
            metadatas: n, as JSON.
            texts: n.

        Raises:
            InvalidInput: names come from a function that was not passed, or that fails for one of the memories.
        """
        keys = self.naming.keys
        if isinstance(keys, MissingFunction):
            raise keys.error()
        if self.known:
            self._follow(rows, texts)
            return
        bulk, searched = self._is_bulk(rows), self._settings.get(STATE) is not None
        if (bulk or searched) and self._have_names(metadatas, texts):
            if bulk:
                self._settings.set(STATE, SEARCHED)
                self._wait([[0, int(rows.max())]])
            else:
                self._search_all()
        elif not searched:
            self.build()

    def forget(self, rows: Int64) -> None:
        """Removes memories that are about to be deleted."""
        if self.known:
            self._graph().forget(rows)

    def erase_removed(self) -> None:
        """Removes the stored first words of names if all names with this first word were removed."""
        self.store.prune_beginnings()

    def search(self) -> None:
        """Performs the pending search."""
        if self._settings.get(STATE) is None:
            self.build()
        elif bulks := self._waiting():
            if self._open():
                return
            every = self.store.rows()
            self._settings.remove(WAITING)
            self._search(every[_inside(every, bulks)])

    def build(self) -> None:
        """Searches all memories for names and, if there are any, for mentions. Without the function, that waits."""
        if isinstance(self.naming.keys, MissingFunction):
            self.search_again()  # repair copies the settings of the damaged index
            return
        if any(self._has_name(metadatas) for metadatas in self.store.metadatas()) or self._have_latest():
            self._search_all()
        else:
            self._settings.set(STATE, UNNAMED)

    def _follow(self, rows: Int64, texts: Sequence[str | None]) -> None:
        bulks = self._waiting()
        rows = rows[~_inside(rows, bulks)]
        if not len(rows):
            return
        if self._is_bulk(rows) and self._are_new(rows):
            first, last = int(rows.min()), int(rows.max())
            if bulks and bulks[-1][1] + 1 == first:
                first = bulks.pop()[0]
            self._wait([*bulks, [first, last]])
        elif not self._open(texts):
            self._search(rows)

    def _is_bulk(self, rows: Int64) -> bool:
        """Whether the search of these memories can wait. A function of the user may fail, so it is called at once."""
        if callable(self.naming.keys):
            return False
        return len(rows) >= MANY and int(rows.max()) - int(rows.min()) + 1 == len(rows)

    def _wait(self, bulks: Sequence[Sequence[int]]) -> None:
        self._settings.set(WAITING, bulks)
        self.waits = True

    def _are_new(self, rows: Int64) -> bool:
        """Returns whether these memories have no stored names or mentions for a search to replace."""
        return not len(self.store.called_of(rows)) and not len(self.store.mentions_of(rows).rows)

    def _search(self, rows: Int64) -> None:
        if self._are_many(len(rows)):
            self._search_all()
        else:
            self._graph().follow(rows)

    def _open(self, added: Sequence[str | None] | None = None) -> bool:
        """Searches all memories again if openings of texts have become names; returns whether they have."""
        becomes = not self.openings and self._are_openings_names(added)
        if becomes:
            self._settings.set(STATE, OPENED)
            self._search_all()
        return becomes

    def _search_all(self) -> None:
        opened = self.openings or self._are_openings_names()
        self._settings.set(STATE, OPENED if opened else SEARCHED)
        self._graph().rebuild()
        self._settings.remove(WAITING)

    def _waiting(self) -> list[list[int]]:
        stored = self._settings.get(WAITING)
        return json.loads(json.dumps(stored)) if isinstance(stored, list) else []

    def _graph(self) -> MentionGraph:
        from pam_retriever.mentions.graph import MentionGraph, MentionRules

        return MentionGraph(self.store, MentionRules.of(replace(self.naming, openings=self.openings)))

    def _have_names(self, metadatas: Sequence[str], texts: Sequence[str | None]) -> bool:
        """Whether one of the memories that were just added has a name, or their texts have names or links."""
        return self._has_name(metadatas) or self._have_latest(texts)

    def _have_latest(self, added: Sequence[str | None] | None = None) -> bool:
        """Whether the latest texts have names or links; of ``added`` texts, one must have some."""
        return self._are_openings_names(added) or self._are_linked(added)

    def _are_openings_names(self, added: Sequence[str | None] | None = None) -> bool:
        """Whether many of the latest texts have a name in their opening; of ``added`` texts, one must have one."""
        if not self.naming.openings:
            return False
        from pam_retriever.mentions.openings import SAMPLE, are_named, first_parts, opening_names

        if added is not None and not any(text and opening_names(text)[0] for text in added[-SAMPLE:]):
            return False
        latest = self.store.latest(SAMPLE)
        texts, parts = [one.text for one in latest if one.text], first_parts(latest)
        # each row of a table is a document, too, and has the table as its source
        return are_named(texts) or (len(parts) < len(texts) and are_named(parts))

    def _are_linked(self, added: Sequence[str | None] | None) -> bool:
        """Whether one of the latest texts links to another; of ``added`` texts, one must have a link."""
        naming = self.naming
        if naming == OFF:
            return False
        from pam_retriever.mentions.links import LinkRules, are_linked, has_link
        from pam_retriever.mentions.openings import SAMPLE

        if added is not None and not any(text and has_link(text) for text in added[-SAMPLE:]):
            return False
        return are_linked(self.store.latest(SAMPLE), LinkRules(patterns=naming.patterns))

    def _has_name(self, metadatas: Sequence[str]) -> bool:
        """Whether a memory with one of these metadata has a name. Parses only metadata that may have one."""
        naming = self.naming
        if naming.headings or naming.patterns or callable(naming.keys):  # names and links may be in the texts
            return bool(metadatas)
        keys = _quoted(naming.keys)
        joined = "\n".join(metadatas)  # one search of a long string is faster than many of short ones
        if not any(key in joined for key in keys):
            return False
        held = (metadata for metadata in metadatas if any(key in metadata for key in keys))
        return any(NameRules(naming.keys).any_of(json.loads(metadata), None) for metadata in held)

    def _are_many(self, changed: int) -> bool:
        return changed >= MANY and changed >= SHARE * self.store.texts()


@lru_cache(16)
def _quoted(keys: tuple[str, ...]) -> list[str]:
    """Returns metadata keys as JSON."""
    return [to_json(key) for key in keys]


def _inside(rows: Int64, bulks: Sequence[Sequence[int]]) -> Bools:
    """Returns a mask (n,) of the rows in one of the bulks, each a first and a last row."""
    inside = np.zeros(len(rows), bool)
    for first, last in bulks:
        inside |= (rows >= first) & (rows <= last)
    return inside
