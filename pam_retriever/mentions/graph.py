"""Finds the mentions in texts that are written, and the mentions of new names in the texts before.

A new text is searched for all names. For a new name, the full-text index returns the texts with the name, and these are
searched again. So the mentions do not depend on the order of writes, with one exception: a new name that more than
``MOST_TEXTS`` stored texts contain is found in later texts only, until ``rebuild``. Its weight would be small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.arrays import distinct, union
from pam_retriever.mentions.finder import Occurrence, find
from pam_retriever.mentions.links import LinkRules, phrase_number
from pam_retriever.mentions.names import NameRules, Naming, capitalised
from pam_retriever.mentions.store import Document, SQLiteMentions
from pam_retriever.mentions.vocabulary import MemoryVocabulary
from pam_retriever.types import Int64

MOST_TEXTS = 10_000
MOST_NAMES_A_TEXT = 10  # with more, loading all names costs more than looking up those that some texts may have
AT_ONCE = 2000  # number of texts in memory


@dataclass(frozen=True)
class MentionRules:
    """The rules for mentions.

    Attributes:
        names: the rules for names of memories.
        links: the rules for targets of links.
        phrases: whether shared runs of capitalised words link the texts of memories with names, weakly.
    """

    names: NameRules = field(default_factory=NameRules)
    links: LinkRules = field(default_factory=LinkRules)
    phrases: bool = True

    @classmethod
    def of(cls, naming: Naming) -> MentionRules:
        """Returns the rules of an index."""
        return cls(NameRules(naming.keys, naming.headings, naming.openings), LinkRules(patterns=naming.patterns))


class MentionGraph:
    """Updates mentions after adds, changes and deletions. Every call runs inside the transaction of the change.

    Args:
        store: the storage of names and mentions.
        rules: the rules for mentions.
    """

    def __init__(self, store: SQLiteMentions, rules: MentionRules | None = None) -> None:
        self._store = store
        self._rules = rules or MentionRules()

    def follow(self, rows: Int64) -> None:
        """Adds memories that were just added or changed.

        Args:
            rows: (n,) distinct.

        Raises:
            InvalidInput: the function of ``NameRules`` raised an error, or returned a value that is no string.
        """
        before = self._store.called_of(rows)
        fresh: list[str] = []
        for some in _batches(rows):
            self._store.drop_called(some)
            fresh += self._name(some)
        gone = self._store.unused(before)
        touched = self._store.mentioning(gone, None).rows
        self._store.drop_names(gone)
        self._search(union(rows, touched, self._texts_with(fresh, len(rows))))

    def forget(self, rows: Int64) -> None:
        """Removes memories that are about to be deleted."""
        before = self._store.called_of(rows)
        self._store.drop_mentions(rows)
        self._store.drop_called(rows)
        gone = self._store.unused(before)
        touched = distinct(self._store.mentioning(gone, None).rows)  # a text may have several of the names
        self._store.drop_names(gone)
        self._search(touched)

    def rebuild(self) -> None:
        """Finds all names and mentions again."""
        self._store.clear()
        rows, known = self._store.rows(), dict[str, int]()
        with self._store.in_bulk("called"):
            for some in _batches(rows):
                self._name(some, known)
        with self._store.in_bulk("mentions"):  # a search asks which memories have names
            self._search(rows, MemoryVocabulary(known))

    def _name(self, rows: Int64, known: dict[str, int] | None = None) -> list[str]:
        """Stores the names of memories that have none; returns the names that are new to the index.

        Args:
            rows: rows of the memories.
            known: all names of the index; new names are added. None looks the names up.
        """
        documents = self._store.documents(rows, texts=self._rules.names.needs_text)
        links = [(one.row, self._rules.links.keys_of(one.id, one.metadata)) for one in documents]
        # after the links: a function of the user may change the metadata
        names = {one.row: self._rules.names.of(one.metadata, one.text) for one in documents}
        distinct = dict.fromkeys(name.phrase for several in names.values() for name in several)
        numbers = dict(self._store.known(distinct)) if known is None else known
        fresh = [phrase for phrase in distinct if phrase not in numbers]
        numbers.update(self._store.add_names(fresh))
        called = [(numbers[name.phrase], row, name.short) for row, several in names.items() for name in several]
        called += [(key, row, False) for row, keys in links for key in keys]
        self._store.add_called(called)
        return fresh

    def _texts_with(self, phrases: list[str], added: int) -> Int64:
        """Returns the rows of texts that may contain new names."""
        if not phrases:
            return np.empty(0, np.int64)
        if len(phrases) >= AT_ONCE and len(phrases) > self._store.texts() - added:
            return self._store.rows()  # reading all texts costs less than looking up each name
        found = [self._store.rows_containing(phrase, MOST_TEXTS + 1) for phrase in phrases]
        return np.unique(np.concatenate([rows for rows in found if len(rows) <= MOST_TEXTS] or [found[0][:0]]))

    def _search(self, rows: Int64, vocabulary: MemoryVocabulary | None = None) -> None:
        """Finds the mentions in texts, and stores them in place of earlier ones.

        Args:
            rows: rows of the texts.
            vocabulary: all names, if no mention is stored; None looks the names up.
        """
        many = len(rows) >= AT_ONCE and MOST_NAMES_A_TEXT * len(rows) >= self._store.texts()
        names = vocabulary or (MemoryVocabulary(self._store.names()) if many else self._store)
        for some in _batches(rows):
            if vocabulary is None:
                self._store.drop_mentions(some)
            documents = [one for one in self._store.documents(some) if one.text]
            with_names = self._store.named(some) if self._rules.phrases else set()
            named = find([one.text or "" for one in documents], names)
            self._store.add_mentions(
                (one.row, number, start, end - start)
                for one, occurrences in zip(documents, named, strict=True)
                for number, (start, end) in sorted(self._mentions(one, occurrences, one.row in with_names).items())
            )

    def _mentions(self, document: Document, named: list[Occurrence], phrases: bool) -> dict[int, tuple[int, int]]:
        """Returns the first position of each name and link in a text; where asked, of each phrase, too."""
        text, found = document.text or "", dict[int, tuple[int, int]]()
        for one in named:
            found.setdefault(one.name, (one.start, one.end))
        for link in self._rules.links.links_of(text, document.metadata):
            found[link.number] = link.start, link.end
        if phrases:
            for phrase, position in capitalised(text).items():
                found[phrase_number(phrase)] = position
        return found


def _batches(rows: Int64) -> Iterator[Int64]:
    return (rows[at : at + AT_ONCE] for at in range(0, len(rows), AT_ONCE))
