"""What a question without a time pays for times, and what it must not miss for it."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest

from pam_retriever.timewords.reader import read_question
from pam_retriever.timewords.tokens import names_a_time

NOW = datetime(2024, 1, 3, tzinfo=timezone.utc)
VECTORS = np.eye(4, dtype=np.float32)


def heard(index) -> set[str]:
    hits = index.recall(VECTORS.mean(axis=0), text="what happened in March 2023?", k=4, now=NOW, explain=True)
    return {hit.id for hit in hits if hit.times}


def test_the_kind_of_the_times_is_asked_again_after_each_change(anywhere):
    index = anywhere(dim=4)
    index.add(VECTORS[:2], ["a", "b"], ["we moved", "we painted"])
    assert heard(index) == set()
    index.add(VECTORS[2:3], ["c"], ["we packed"], timestamps=[datetime(2023, 3, 5)])
    assert heard(index) == {"c"}
    index.update("a", timestamp=datetime(2023, 3, 9))
    assert heard(index) == {"a", "c"}
    index.delete(["a", "c"])
    assert heard(index) == set()
    index.add(VECTORS[3:], ["d"], ["we rested"], timestamps=[datetime(2023, 3, 9)])
    assert heard(index) == {"d"}


@pytest.mark.parametrize(
    "text",
    [
        "Is the vase on a shelf?",
        "Who spoke before the vote?",
        "Who works on recent things?",
    ],
)
def test_one_word_is_not_a_unit_and_its_number(text):
    assert not names_a_time(text, 0, len(text))


@pytest.mark.parametrize("text", ["what did we say on the first", "on the 3rd", "an hour ago", "il y a un an"])
def test_the_fast_test_lets_times_pass(text):
    assert names_a_time(text, 0, len(text))
    assert read_question(text, NOW)
