"""Words are counted for an engine as SQLite counts them for a folder."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pam_retriever.engines.words import WordCounter, grouped
from pam_retriever.store.sqlite.words import LONGEST_TERM


def test_each_memory_has_its_words_and_labels_with_their_counts():
    metadatas = ['{"place": "cellar"}', '{"place": "attic"}', "{}"]
    found = WordCounter()([3, 7, 9], ["damp stairs, damp cellar", None, ""], metadatas)
    assert sorted(found) == [
        ("cellar", False, 3, 1),
        ("cellar", True, 3, 1),
        ("damp", False, 3, 2),
        ("stair", False, 3, 1),
    ]


def test_a_count_that_was_interrupted_leaves_no_word_to_the_next_memory():
    """The number of a memory that was not stored is used again."""

    def texts() -> Iterator[str]:
        yield "a secret"
        raise KeyboardInterrupt

    counter = WordCounter()
    with pytest.raises(KeyboardInterrupt):
        counter([1, 2], texts(), ["{}", "{}"])
    assert counter([1], ["stairs"], ["{}"]) == [("stair", False, 1, 1)]


def test_each_thread_gets_the_words_of_its_own_memory():
    counter, terms = WordCounter(), ["attic", "kettl", "lamp", "stair"]

    def count(row: int) -> list[object]:
        return [counter([row], [terms[row]], ["{}"]) for _ in range(100)]

    with ThreadPoolExecutor(len(terms)) as pool:
        for row, found in enumerate(pool.map(count, range(len(terms)))):
            assert found == [[(terms[row], False, row, 1)]] * 100


def test_a_term_that_is_too_long_is_left_out():
    longest = "x" * LONGEST_TERM
    assert WordCounter()([1], [f"{longest} {longest}x"], ["{}"]) == [(longest, False, 1, 1)]


def test_memories_are_grouped_in_order():
    memories = [(1, "b", '{"session": "s", "turn": 2}'), (2, "a", '{"session": "s", "turn": 1}'), (3, "c", "{}")]
    assert [found[:3] for found in grouped(memories, "session", "turn")] == [(2, "a", "s"), (1, "b", "s")]
