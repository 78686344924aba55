"""Phrases around a question change nothing about what it finds by words."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.phrases import MOST, without_phrases
from pam_retriever.retrieval.lexical import Lexicon

QUESTION = "where Ann keeps the spare key"
AROUND = [
    "Could you please tell me {}?",
    "Hi there! Can you help me find out {}?",
    "Do you remember {}?",
    "I just need to know {}. Thanks a lot in advance!",
    "I\N{RIGHT SINGLE QUOTATION MARK}d like to know {}",
    "Hello. Quick question: {}?",
    "I was wondering {}.\nIf you don't know, just say so.",
    "Based on our previous conversations, {}? Please keep the answer short.",
    "Search my notes for this: {}",
    "Answer the following question. Question: {}?",
]


def words(text):
    return "".join(one if one.isalnum() else " " for one in text).split()


@pytest.mark.parametrize("around", AROUND)
def test_the_words_of_a_phrase_are_left_out(around):
    left = words(without_phrases(around.format(QUESTION)))
    assert [word for word in left if word != "this"] == words(QUESTION)


@pytest.mark.parametrize(
    "text",
    [
        "What did she tell me about Oslo?",
        "Who did Ann thank in her speech?",
        "The help desk, the search for gold",
        "hi-fi shop",
        "list of helpers",
        "the question of the key",
        "",
        "Thank you",
        "Hello! Hi!",
        "¿Dónde está la llave?",
        "  鍵はどこですか  ",
    ],
)
def test_a_text_without_phrases_and_one_of_phrases_alone_stay_as_they_are(text):
    assert without_phrases(text) == text.strip() or without_phrases(text) == text
    assert words(without_phrases(text)) == words(text)


def test_no_more_than_a_few_phrases_in_a_row_are_read():
    """Each takes a pass over the text, which may be a whole document."""
    assert words(without_phrases("hi " * (MOST + 2) + "key")) == ["hi", "hi", "key"]


def test_a_memory_that_holds_the_words_of_a_phrase_is_not_found_by_them():
    texts = ["Ann: the spare key is under the blue pot", "Ben: I need help, do you know a plumber?"]
    index = PredictiveAssociativeIndex(4)
    index.add(np.ones((2, 4), np.float32), ["key", "help"], texts)
    asked = "Can you help me find out where the pot is? I need to know it."
    assert index.recall(np.ones(4, np.float32), 2, text=asked).ids == ["key", "help"]
    index.feedback(np.ones(4, np.float32), ["key"], text="Do you know where the pot is?")
    assert "know" not in Lexicon(index._store.view().database).asked("Do you know where the pot is?")
    assert index.recall(np.ones(4, np.float32), 2, text=asked).ids == ["key", "help"]
