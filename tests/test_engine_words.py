"""Words are counted for an engine as SQLite counts them for a folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pam_retriever.engines.words import WordCounter, grouped
from pam_retriever.store.sqlite.words import LONGEST_TERM


def test_each_memory_has_its_words_and_labels_with_their_counts():
    found = WordCounter()([3, 7, 9], ["damp stairs, damp cellar", None, ""], ['{"place": "cellar"}', "{}", "{}"])
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


def test_a_term_that_is_too_long_is_left_out():
    longest = "x" * LONGEST_TERM
    assert WordCounter()([1], [f"{longest} {longest}x"], ["{}"]) == [(longest, False, 1, 1)]


def test_memories_are_grouped_in_order():
    memories = [(1, "b", '{"session": "s", "turn": 2}'), (2, "a", '{"session": "s", "turn": 1}'), (3, "c", "{}")]
    assert [found[:3] for found in grouped(memories, "session", "turn")] == [(2, "a", "s"), (1, "b", "s")]
