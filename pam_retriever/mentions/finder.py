"""Finds names in texts: leftmost, longest, whole words only.

One batch of texts needs three look-ups: words that begin a name, pairs of words that do, and phrases that are names. So
the names can be stored in a table. No automaton has to be compiled for each new or deleted name, or kept in memory
(``benchmarks/scaling/mentions.py`` compares this with two Aho-Corasick automata).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pam_retriever.mentions.folding import spans, words


class Vocabulary(Protocol):
    """The names to search for."""

    def longest(self, beginnings: Iterable[str]) -> Mapping[str, int]:
        """Returns for each beginning the number of words of the longest name with it, or more.

        Args:
            beginnings: single words, or pairs of words joined by a space. A pair must begin a name of three words or
                more.
        """

    def known(self, phrases: Iterable[str]) -> Mapping[str, int]:
        """Returns the numbers of those ``phrases`` that are names."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a text.

    Attributes:
        name: its number in the vocabulary.
        start: of the name, in characters.
        end: of the name.
    """

    name: int
    start: int
    end: int


class MemoryVocabulary:
    """Names in a dictionary. The number of a name is its position in the given names."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self._numbers: dict[str, int] = {}
        for phrase in phrases:
            self._numbers.setdefault(phrase, len(self._numbers))
        self._longest = beginnings(self._numbers)

    def longest(self, beginnings: Iterable[str]) -> Mapping[str, int]:
        return {one: self._longest[one] for one in beginnings if one in self._longest}

    def known(self, phrases: Iterable[str]) -> Mapping[str, int]:
        return {phrase: self._numbers[phrase] for phrase in phrases if phrase in self._numbers}


def beginnings(phrases: Iterable[str]) -> dict[str, int]:
    """Returns the first word of names (two words for names of three or more), with the most words of such a name."""
    longest: dict[str, int] = {}
    for phrase in phrases:
        parts = phrase.split(" ", 2)
        count = phrase.count(" ") + 1
        longest[parts[0]] = max(count, longest.get(parts[0], 0))
        if count > 2:
            pair = f"{parts[0]} {parts[1]}"
            longest[pair] = max(count, longest.get(pair, 0))
    return longest


def find(texts: Sequence[str], vocabulary: Vocabulary) -> list[list[Occurrence]]:
    """Returns the names in each text, in order, none inside another.

    Args:
        texts: Q texts.
        vocabulary: the names.

    Returns:
        Q lists.
    """
    split = [words(text) for text in texts]
    first = vocabulary.longest(set().union(*split)) if split else {}
    places = [[at for at, word in enumerate(sequence) if word in first] for sequence in split]
    pairs = [
        {
            at: f"{sequence[at]} {sequence[at + 1]}"
            for at in several
            if first[sequence[at]] > 1 and at + 1 < len(sequence)
        }
        for sequence, several in zip(split, places, strict=True)
    ]
    distinct = set().union(*(several.values() for several in pairs)) if pairs else set()
    longer = vocabulary.longest(distinct)
    single = {
        word for sequence, several in zip(split, places, strict=True) for word in (sequence[at] for at in several)
    }
    candidates = distinct | single
    for sequence, several in zip(split, pairs, strict=True):
        for at, pair in several.items():
            if pair in longer:
                candidates.update(
                    " ".join(sequence[at:end]) for end in range(at + 3, min(at + longer[pair], len(sequence)) + 1)
                )
    known = vocabulary.known(candidates)
    return [
        _occurrences(text, _leftmost_longest(sequence, at, pair, longer, known))
        for text, sequence, at, pair in zip(texts, split, places, pairs, strict=True)
    ]


def _leftmost_longest(
    sequence: list[str], places: list[int], pairs: dict[int, str], longer: Mapping[str, int], known: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    """Returns (name, first word, end) of each name in a text."""
    chosen: list[tuple[int, int, int]] = []
    free = 0  # earlier words belong to a name already
    for at in places:
        if at < free:
            continue
        pair = pairs.get(at, "")
        name, end = None, at
        if pair in longer:
            for end in range(min(at + longer[pair], len(sequence)), at + 2, -1):
                name = known.get(" ".join(sequence[at:end]))
                if name is not None:
                    break
        if name is None:
            end, name = at + 2, known.get(pair)
        if name is None:
            end, name = at + 1, known.get(sequence[at])
        if name is not None:
            chosen.append((name, at, end))
            free = end
    return chosen


def _occurrences(text: str, chosen: list[tuple[int, int, int]]) -> list[Occurrence]:
    if not chosen:
        return []
    where = spans(text)
    return [Occurrence(name, where[first][0], where[end - 1][1]) for name, first, end in chosen]
