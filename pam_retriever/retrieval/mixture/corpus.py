"""The memories by position, for the sources that score them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import distinct
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.hybrid import WINDOW, Question, plain_scores
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mentioned import Mentioning
from pam_retriever.retrieval.mixture.pools import Cues, WordList
from pam_retriever.retrieval.mixture.words import Field, WordIndex
from pam_retriever.retrieval.timeline import Timeline
from pam_retriever.store.columns import from_json
from pam_retriever.store.view import View
from pam_retriever.types import Direction, Float32, Int64

NAMES = ("title", "name", "path")  # metadata keys that hold the name of a memory
LONGEST_NAME = 200  # a first line of more characters is not a name
CHARACTERS_A_WORD = 6.0  # converts the length of a text from characters, as stored, to words
AT_ONCE = 5_000  # memories whose names are read at once


class Corpus:
    """The memories of a view, numbered from 0 in the order of their rows.

    Args:
        view: a view of the index.
        lexicon: the words of the index.
        timeline: the times of the index; None leaves them out.

    Attributes:
        rows: (n,) the row of each memory, sorted.
        lexicon: the words of the index.
        timeline: the times of the index.
        view: the view of the last update.
    """

    def __init__(self, view: View, lexicon: Lexicon, timeline: Timeline | None = None) -> None:
        self.rows = view.database.memories.rows()
        self.lexicon, self.timeline = lexicon, timeline
        self._names: WordIndex | None = None
        self._counts: dict[str, tuple[Int64, Float32]] = {}
        self._lengths: Float32 | None = None
        self._see(view)

    def _see(self, view: View) -> None:
        self.version: object = view.database.memories.words_version  # of the words
        self._near: tuple[Float32, int, Rows | None, list[Int64]] | None = None
        self._read: tuple[Int64, Float32] | None = None
        self.view = view
        self._similar: AnnIndex = view.similar
        self._links: CooccurrenceGraph = view.links

    def follow(self, view: View, written: Int64) -> bool:
        """Updates to a later view; returns whether this was possible. It is not if memories were removed.

        Args:
            view: a view of the same index.
            written: the rows of the memories that were written since, sorted.
        """
        self._see(view)
        if not len(written):
            return True
        contents = view.database.memories.contents(written)
        last = int(self.rows[-1]) if len(self.rows) else -1
        known = written[written <= last]
        if len(contents) < len(written) or not np.isin(known, self.rows).all():
            return False
        self.rows = np.concatenate([self.rows, written[written > last]])
        self._counts.clear()
        self._lengths = None
        if self._names is not None:
            self._names.grow(len(self))
            names = self.lexicon.terms_of([_name_of(*contents[row]) for row in written.tolist()])
            for at, terms in zip(self.positions(written).tolist(), names, strict=True):
                self._names.put(at, terms)
        return True

    def __len__(self) -> int:
        return len(self.rows)

    def positions(self, rows: Int64) -> Int64:
        """Returns the positions of stored rows of any shape; -1 for row -1."""
        found: Int64 = np.where(rows < 0, -1, np.searchsorted(self.rows, rows))
        return found

    def __getitem__(self, at: Int64) -> Float32:
        """Returns the vectors (m, dim) at positions (m,), of unit length."""
        return self.keys(self.rows[at])

    def keys(self, rows: Int64) -> Float32:
        """Returns the vectors (m, dim) of stored rows (m,); several sources read those of the same candidates."""
        last = self._read
        if last is None or not np.array_equal(last[0], rows):
            self._read = last = rows, self._similar.keys(rows)
        return last[1]

    def nearest(self, vectors: Float32, n: int, allowed: Rows | None = None) -> list[Int64]:
        """For each vector (Q, dim), returns the positions of the ``n`` most similar memories, best first.

        Several sources need this for the same questions, so the last answer is cached.
        """
        last = self._near
        if last is None or last[0] is not vectors or last[1] != n or last[2] is not allowed:
            _, rows = self._similar.search(vectors, max(1, min(n, len(self))), allowed)
            last = self._near = vectors, n, allowed, [self.positions(some[some >= 0]) for some in rows]
        return last[3]

    def plain(
        self,
        vector: Float32,
        words: WordList,
        at: Int64,
        direction: Direction | None = None,
        allowed: Rows | None = None,
    ) -> Float32:
        """Returns the scores (m,) of the memories at sorted positions, in a recall of one question without feedback.

        Only ``allowed`` memories count as their neighbours; None for all.
        """
        question, links = Question(vector, list(words), visible=allowed), self._links.towards(direction)
        return plain_scores(question, self.rows[at], self.keys, links, self.lexicon)

    @property
    def has_trajectories(self) -> bool:
        """Whether any memory has neighbours."""
        return self._links.memories > 0

    def neighbours(self, at: Int64, direction: Direction | None = None, allowed: Rows | None = None) -> Int64:
        """Returns the positions of the ``allowed`` neighbours in trajectories, for memories at positions (m,)."""
        _, met, _ = self._links.towards(direction).around(self.rows[at], WINDOW)
        return self.positions(distinct(met if allowed is None else met[holds(allowed, met)]))

    def mentioning(self) -> Mentioning | None:
        """Returns the source of mentions in these memories; None if no memory has a name."""
        return Mentioning.of(self.view, self.lexicon)

    # ---- words

    def cues(self, vectors: Float32, texts: Sequence[str] | None, rows: Int64) -> Cues:
        """Returns questions as cues: vectors (Q, dim) of unit length, words, and the rows of stored memories.

        Without ``texts`` a stored memory has the words of its own text.
        """
        if texts is None:
            contents = self.view.database.memories.contents(rows[rows >= 0])
            words = self.lexicon.terms_of([contents[row][1] or "" if row >= 0 else "" for row in rows.tolist()])
        else:
            words = [self.lexicon.asked(text) for text in texts]
        return Cues(vectors, words, self.positions(rows))

    def take(self, at: Int64) -> Cues:
        """Returns stored memories at positions (m,) as cues."""
        return self.cues(self[at], None, self.rows[at])

    def counts(self, word: str) -> tuple[Int64, Float32]:
        """Returns the positions of the memories whose text holds a word, and the counts."""
        found = self._counts.get(word)
        if found is None:
            posting = self.lexicon.posting(word)
            found = self._counts[word] = self.positions(posting.rows), posting.counts.astype(np.float32)
        return found

    @property
    def lengths(self) -> Float32:
        """The length (n,) of each text, in words."""
        if self._lengths is None:
            lengths = self.lexicon.lengths
            known = self.rows < len(lengths)
            found = np.where(known, lengths[np.where(known, self.rows, 0)], 0) / np.float32(CHARACTERS_A_WORD)
            self._lengths = found.astype(np.float32)
        return self._lengths

    @property
    def names(self) -> Field:
        """The words of the names of memories: from metadata, or the first line of a text with several lines."""
        if self._names is None:
            names = WordIndex(len(self))
            for start in range(0, len(self), AT_ONCE):
                rows = self.rows[start : start + AT_ONCE]
                contents = self.view.database.memories.contents(rows)
                of_rows = [_name_of(*contents[row]) for row in rows.tolist()]
                named = [at for at, name in enumerate(of_rows) if name]
                for at, terms in zip(named, self.lexicon.terms_of([of_rows[at] for at in named]), strict=True):
                    names.put(start + at, terms)
            self._names = names
        return self._names


def _name_of(id: str, text: str | None, metadata: str) -> str:
    if any(f'"{key}"' in metadata for key in NAMES):
        stored = from_json(metadata, f"The metadata of {id!r}")
        called = [stored[key] for key in NAMES if isinstance(stored.get(key), str)]
        if called:
            return " ".join(called)
    first, _, rest = (text or "").partition("\n")
    return first if rest and len(first) <= LONGEST_NAME else ""
