"""The names and mentions of one index in SQLite, updated with its memories.

Nothing is searched or stored until a memory has a name, so that texts without names cost nothing. From the first name
on, ``MentionGraph`` holds all texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pam_retriever.filters import to_json
from pam_retriever.mentions.graph import MentionGraph, MentionRules
from pam_retriever.mentions.names import DEFAULT_KEYS, NameRules
from pam_retriever.mentions.store import SQLiteMentions
from pam_retriever.store.connection import Connection
from pam_retriever.store.settings import SQLiteSettings
from pam_retriever.types import Int64

NAMES, STATE = "names", "mentions"  # settings: the metadata keys of names, and whether mentions are searched for
UNNAMED, SEARCHED = "no names", "searched"
MANY = 1000  # memories in one call from which a new search of all may be faster
SHARE = 0.5  # of all memories: for a smaller share an update costs less than a new search


class KeptMentions:
    """Names and mentions. The writing methods run inside the transaction of the change that they follow.

    Args:
        connection: to the database.
        settings: of the same database.

    Attributes:
        store: the tables.
    """

    def __init__(self, connection: Connection, settings: SQLiteSettings) -> None:
        self._connection, self._settings = connection, settings
        self.store = SQLiteMentions(connection, self._texts)

    @property
    def keys(self) -> tuple[str, ...]:
        """The metadata keys whose values are names."""
        stored = self._settings.get(NAMES)
        return DEFAULT_KEYS if not isinstance(stored, list) else tuple(map(str, stored))

    @property
    def known(self) -> bool:
        """Whether any name is known."""
        return self._settings.get(STATE) == SEARCHED

    @property
    def pending(self) -> bool:
        """Whether the search for names is yet to be done: in an index of format 1, or after a change of the keys."""
        return not self._connection.read_only and self._settings.get(STATE) is None

    def set_keys(self, keys: Sequence[str]) -> None:
        """Sets the metadata keys of names. The next query that needs mentions searches for them.

        Raises:
            InvalidInput: these are no keys.
        """
        NameRules(tuple(keys))
        self._settings.set(NAMES, list(keys))
        self._settings.remove(STATE)
        self.store.clear()

    def follow(self, rows: Int64, metadatas: Sequence[str]) -> None:
        """Adds memories that were just added or changed.

        Args:
            rows: (n,) distinct.
            metadatas: n, as JSON.
        """
        state = self._settings.get(STATE)
        if state is None:
            self.build()
        elif state == SEARCHED and not self._are_many(len(rows)):
            self._graph().follow(rows)
        elif state == SEARCHED or self._has_name(metadatas):
            self._search_all()

    def forget(self, rows: Int64) -> None:
        """Removes memories that are about to be deleted."""
        if self.known:
            self._graph().forget(rows)

    def erase_removed(self) -> None:
        """Removes first words that only removed names had."""
        self.store.prune_beginnings()

    def build(self) -> None:
        """Searches for names and, if there are any, for mentions."""
        if any(self._has_name(metadatas) for metadatas in self._metadatas()):
            self._search_all()
        else:
            self._settings.set(STATE, UNNAMED)

    def _search_all(self) -> None:
        self._graph().rebuild()
        self._settings.set(STATE, SEARCHED)

    def _graph(self) -> MentionGraph:
        return MentionGraph(self.store, MentionRules(NameRules(self.keys)))

    def _has_name(self, metadatas: Sequence[str]) -> bool:
        """Whether a memory with one of these metadata has a name. Parses only metadata that may have one."""
        rules, keys = NameRules(self.keys), [to_json(key) for key in self.keys]
        return any(
            rules.any_of(json.loads(metadata), None)
            for metadata in metadatas
            if metadata != "{}" and any(key in metadata for key in keys)
        )

    def _metadatas(self) -> Iterator[list[str]]:
        """Yields the metadata of all memories in parts."""
        last = -1
        while found := self._connection.fetch(
            "SELECT row, metadata FROM memories WHERE row > ? ORDER BY row LIMIT ?", [last, MANY]
        ):
            yield [metadata for _, metadata in found]
            last = found[-1][0]

    def _are_many(self, changed: int) -> bool:
        return changed >= MANY and changed >= SHARE * self._connection.fetch("SELECT count(*) FROM memories")[0][0]

    def _texts(self) -> int:
        count: int = self._connection.fetch("SELECT count(*) FROM words_docsize")[0][0]
        return count
