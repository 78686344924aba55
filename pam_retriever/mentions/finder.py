"""Finds names in texts: leftmost, longest, whole words only.

One batch of texts needs three look-ups: words that begin a name, pairs of words that do, and phrases that are names. So
the names can be stored in a table. No automaton has to be compiled for each new or deleted name, or kept in memory
(``benchmarks/scaling/mentions.py`` compares this with two Aho-Corasick automata).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from pam_retriever.mentions.folding import spans, words

ALONE = ""  # in place of a second word: the first is a name itself
Starts = Mapping[str, Mapping[str, int]]  # first word -> second -> how many words names have that begin so, at most


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
    """Names in a dictionary, for a search of many texts.

    Args:
        numbers: of the names.
    """

    def __init__(self, numbers: Mapping[str, int]) -> None:
        starts: dict[str, dict[str, int]] = {}
        for phrase in numbers:
            first, *rest = phrase.split(" ", 2)
            seconds, second = starts.setdefault(first, {}), rest[0] if rest else ALONE
            seconds[second] = max(phrase.count(" ") + 1, seconds.get(second, 0))
        self.numbers: Mapping[str, int] = numbers
        self.starts: Starts = starts


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


def find(texts: Sequence[str], vocabulary: Vocabulary | MemoryVocabulary) -> list[list[Occurrence]]:
    """Returns the names in each text, in order, none inside another.

    Args:
        texts: Q texts.
        vocabulary: the names.

    Returns:
        Q lists.
    """
    split = [words(text) for text in texts]
    if isinstance(vocabulary, MemoryVocabulary):
        asked = vocabulary.starts, vocabulary.numbers
    else:
        asked = _look_up(split, vocabulary)
    return [
        _occurrences(text, _leftmost_longest(sequence, *asked)) for text, sequence in zip(texts, split, strict=True)
    ]


def _look_up(split: list[list[str]], vocabulary: Vocabulary) -> tuple[Starts, Mapping[str, int]]:
    """Looks up the names that may be in some texts."""
    single = vocabulary.longest(set().union(*split))
    pairs: dict[str, tuple[str, str]] = {}
    for sequence in split:
        for both in zip(sequence, sequence[1:], strict=False):
            if single.get(both[0], 0) > 1:
                pairs[f"{both[0]} {both[1]}"] = both
    longer = vocabulary.longest(pairs)
    candidates = {*single, *pairs}
    for sequence in split if longer else ():
        for at, both in enumerate(zip(sequence, sequence[1:], strict=False)):
            most = longer.get(f"{both[0]} {both[1]}", 0)
            candidates.update(" ".join(sequence[at:end]) for end in range(at + 3, min(at + most, len(sequence)) + 1))
    known = vocabulary.known(candidates)
    starts: dict[str, dict[str, int]] = {word: {ALONE: 1} if word in known else {} for word in single}
    for pair, (first, second) in pairs.items():
        if pair in longer or pair in known:
            starts[first][second] = longer.get(pair, 2)
    return starts, known


def _leftmost_longest(sequence: list[str], starts: Starts, known: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Returns (name, first word, end) of each name in a text."""
    chosen: list[tuple[int, int, int]] = []
    free = 0  # earlier words belong to a name already
    for at, (word, second) in enumerate(zip_longest(sequence, sequence[1:], fillvalue=" ")):
        seconds = starts.get(word)
        if seconds is None or at < free:
            continue
        if second in seconds:
            for end in range(min(at + seconds[second], len(sequence)), at + 1, -1):
                name = known.get(" ".join(sequence[at:end]))
                if name is not None:
                    chosen.append((name, at, end))
                    free = end
                    break
        if at >= free and ALONE in seconds:
            chosen.append((known[word], at, at + 1))
    return chosen


def _occurrences(text: str, chosen: list[tuple[int, int, int]]) -> list[Occurrence]:
    if not chosen:
        return []
    where = spans(text, chosen[-1][2])
    return [Occurrence(name, where[first][0], where[end - 1][1]) for name, first, end in chosen]
