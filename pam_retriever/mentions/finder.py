"""Finds names in texts: leftmost, longest, whole words only.

A search of a few texts needs three look-ups: words that begin a name, pairs of words that begin a name, and phrases
that are names. So a table can store the names, and no automaton has to be compiled for each new or deleted name, or
held in memory. A search of many texts uses ``MemoryVocabulary``, which reads the names once
(``benchmarks/scaling/mentions.py`` compares it with two Aho-Corasick automata).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pam_retriever.mentions.folding import are_aligned, fold_words, spans
from pam_retriever.mentions.vocabulary import Found, MemoryVocabulary

Pairs = Mapping[tuple[str, str], int]  # the first two words of names -> the most words of such a name


class Vocabulary(Protocol):
    """The names to search for."""

    def longest(self, beginnings: Iterable[str]) -> Mapping[str, int]:
        """Returns for each beginning the number of words of the longest name that starts with it, or a larger number.

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
        name: number of the name in the vocabulary.
        start: start of the name in the text, in characters.
        end: end of the name in the text, in characters.
    """

    name: int
    start: int
    end: int


def find(texts: Sequence[str], vocabulary: Vocabulary | MemoryVocabulary) -> list[list[Occurrence]]:
    """Returns the names in each text, in order, none inside another.

    Args:
        texts: Q texts.
        vocabulary: the names.

    Returns:
        Q lists.
    """
    folded = [fold_words(text) for text in texts]
    if isinstance(vocabulary, MemoryVocabulary):
        return _occurrences(texts, folded, vocabulary.find(folded))
    split = [one.split() for one in folded]
    pairs, known = _look_up(split, vocabulary)
    found: list[list[Occurrence]] = []
    for text, one, sequence in zip(texts, folded, split, strict=True):
        chosen = _leftmost_longest(sequence, pairs, known)
        where = spans(text, one, chosen[-1][2]) if chosen else []
        found.append([Occurrence(name, where[first][0], where[end - 1][1]) for name, first, end in chosen])
    return found


def _occurrences(texts: Sequence[str], folded: Sequence[str], found: Iterable[Found]) -> list[list[Occurrence]]:
    """Returns the names in each text, given the names found in the folded texts."""
    result: list[list[Occurrence]] = [[] for _ in texts]
    moved: dict[int, list[tuple[int, int]] | None] = {}  # the words of texts whose characters folding moved
    for one in found:
        at, start, end = one.text, one.start, one.end
        if at not in moved:
            moved[at] = None if are_aligned(texts[at], folded[at]) else spans(texts[at], folded[at])
        if (words := moved[at]) is not None:
            start, end = words[one.word][0], words[one.word + one.words - 1][1]
        result[at].append(Occurrence(one.name, start, end))
    return result


def _look_up(split: list[list[str]], vocabulary: Vocabulary) -> tuple[Pairs, Mapping[str, int]]:
    """Looks up the names that may be in some texts."""
    single = vocabulary.longest(set().union(*split))
    pairs = {
        both: f"{both[0]} {both[1]}"
        for sequence in split
        for both in zip(sequence, sequence[1:], strict=False)
        if single.get(both[0], 0) > 1
    }
    longer = vocabulary.longest(pairs.values())
    candidates = {*single, *pairs.values()}
    for sequence in split if longer else ():
        for at, both in enumerate(zip(sequence, sequence[1:], strict=False)):
            most = longer.get(pairs.get(both, ""), 0)
            candidates.update(" ".join(sequence[at:end]) for end in range(at + 3, min(at + most, len(sequence)) + 1))
    known = vocabulary.known(candidates)
    return {both: longer.get(pair, 2) for both, pair in pairs.items() if pair in longer or pair in known}, known


def _leftmost_longest(sequence: list[str], pairs: Pairs, known: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """Returns (name, first word, end) of each name in a text."""
    first = [at for at, both in enumerate(zip(sequence, sequence[1:], strict=False)) if both in pairs]
    alone = [at for at, word in enumerate(sequence) if word in known]
    chosen: list[tuple[int, int, int]] = []
    free = 0  # earlier words belong to a name already
    for at in sorted({*first, *alone}):
        if at < free:
            continue
        most = pairs.get((sequence[at], sequence[at + 1]), 0) if at + 1 < len(sequence) else 0
        for end in range(min(at + max(most, 1), len(sequence)), at, -1):
            name = known.get(" ".join(sequence[at:end]))
            if name is not None:
                chosen.append((name, at, end))
                free = end
                break
    return chosen
