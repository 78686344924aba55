"""The mentions of an index, which follow its memories.

It goes both ways: a new text is searched for all names, and all texts for a new name.
A name is looked up in the words index, and the texts that have it are searched anew; so whatever order memories come
and go in, the mentions are those of an index built at once. The one exception: a name that more than ``MOST_TEXTS``
texts had before it came is found in later texts only, until ``rebuild``; it would count little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.mentions.finder import find
from pam_retriever.mentions.links import LinkRules, phrase_number
from pam_retriever.mentions.names import NameRules
from pam_retriever.mentions.phrases import capitalised
from pam_retriever.mentions.store import Document, MentionStore
from pam_retriever.types import Int64

MOST_TEXTS = 10_000
AT_ONCE = 2000  # texts in memory


@dataclass(frozen=True)
class MentionRules:
    """What counts as a mention.

    Attributes:
        names: what memories are called.
        links: what links point to.
        phrases: whether texts of memories with a name also share runs of capitalised words, weakly.
    """

    names: NameRules = field(default_factory=NameRules)
    links: LinkRules = field(default_factory=LinkRules)
    phrases: bool = True


class MentionGraph:
    """Follows what is added, changed and deleted. Every call belongs to the transaction of that change.

    Args:
        store: of the same index.
        rules: what counts as a mention.
    """

    def __init__(self, store: MentionStore, rules: MentionRules | None = None) -> None:
        self._store = store
        self._rules = rules or MentionRules()

    def follow(self, rows: Int64) -> None:
        """Takes in memories that were just added or changed.

        Args:
            rows: (n,) distinct.

        Raises:
            InvalidInput: the callable of ``NameRules`` gave what is no string.
        """
        before = self._store.called_of(rows)
        fresh: list[str] = []
        for some in _batches(rows):
            fresh += self._name(some, self._store.documents(some))
        gone = self._store.unused(before)
        touched = self._store.mentioning(gone, None).rows
        self._store.drop_names(gone)
        self._search(np.union1d(np.concatenate([rows, touched]), self._texts_with(fresh, len(rows))))

    def forget(self, rows: Int64) -> None:
        """Takes out memories that are about to be deleted."""
        before = self._store.called_of(rows)
        none: list[tuple[int, int, int, int]] = []
        self._store.replace_mentions(rows, none)
        self._store.replace_called(rows, [])
        gone = self._store.unused(before)
        touched = self._store.mentioning(gone, None).rows
        self._store.drop_names(gone)
        self._search(touched)

    def rebuild(self) -> None:
        """Finds all names and mentions anew."""
        self._store.clear()
        rows = self._store.rows()
        for some in _batches(rows):
            self._name(some, self._store.documents(some))
        self._search(rows)

    def _name(self, rows: Int64, documents: list[Document]) -> list[str]:
        """Stores what memories are called; returns the names that are new to the index."""
        names = {one.row: self._rules.names.of(one.metadata, one.text) for one in documents}
        distinct = dict.fromkeys(name.phrase for several in names.values() for name in several)
        numbers = dict(self._store.known(distinct))
        fresh = [phrase for phrase in distinct if phrase not in numbers]
        numbers.update(self._store.add_names(fresh))
        called = [(numbers[name.phrase], row, name.short) for row, several in names.items() for name in several]
        called += [
            (key, one.row, False) for one in documents for key in self._rules.links.keys_of(one.id, one.metadata)
        ]
        self._store.replace_called(rows, called)
        return fresh

    def _texts_with(self, phrases: list[str], added: int) -> Int64:
        """Rows of texts that may hold names which are new."""
        if not phrases:
            return np.empty(0, np.int64)
        if len(phrases) > self._store.texts() - added:
            return self._store.rows()  # to read them all is less than to look up each name
        found = [self._store.rows_containing(phrase, MOST_TEXTS + 1) for phrase in phrases]
        return np.unique(np.concatenate([rows for rows in found if len(rows) <= MOST_TEXTS] or [found[0][:0]]))

    def _search(self, rows: Int64) -> None:
        """Finds what texts mention, and stores it instead of what was known of them."""
        for some in _batches(rows):
            documents = [one for one in self._store.documents(some) if one.text]
            named = find([one.text or "" for one in documents], self._store)
            mentions: dict[tuple[int, int], tuple[int, int]] = {}
            for one, occurrences in zip(documents, named, strict=True):
                for found in occurrences:
                    mentions.setdefault((one.row, found.name), (found.start, found.end))
                for link in self._rules.links.links_of(one.text or "", one.metadata):
                    mentions[one.row, link.number] = link.start, link.end
                if self._rules.phrases and self._rules.names.any_of(one.metadata, one.text):
                    for phrase, place in capitalised(one.text or "").items():
                        mentions[one.row, phrase_number(phrase)] = place
            self._store.replace_mentions(
                some, ((row, number, start, end - start) for (row, number), (start, end) in sorted(mentions.items()))
            )


def _batches(rows: Int64) -> Iterator[Int64]:
    return (rows[at : at + AT_ONCE] for at in range(0, len(rows), AT_ONCE))
