"""Function words and question words do not count in a question, in the language of the question."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.stop_words import OTHERS, STOP_WORDS, content_words


def left(question):
    return content_words(re.findall(r"\w+", question.lower()))


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("What did we do with the key in July?", "key july"),
        ("Was haben wir im Juli mit dem Schlüssel gemacht?", "juli schlüssel gemacht"),
        ("Où est la clé de la cave ?", "clé cave"),
        ("Qu'est-ce qu'on a planté dans le jardin ?", "planté jardin"),
        ("¿Dónde está la llave del sótano?", "llave sótano"),
        ("Donde esta la llave del sotano", "llave sotano"),
        ("Dove sono le chiavi della cantina?", "chiavi cantina"),
        ("Waar is de sleutel van de kelder?", "sleutel kelder"),
        ("Onde está a chave da adega?", "chave adega"),
        ("what was it", "what was it"),
        ("", ""),
    ],
)
def test_the_words_that_a_question_is_about_are_left(question, content):
    assert left(question) == content.split()


@pytest.mark.parametrize(
    "question",
    [
        "cold war",
        "the son of Ann",
        "Los Angeles trip",
        "Did the dog die in the war?",
        "a comment on his son",
        "la la land",
    ],
)
def test_a_stop_word_of_another_language_counts_in_an_english_question(question):
    english = set(STOP_WORDS.split())
    assert left(question) == [word for word in question.lower().strip("?").split() if word not in english]


@given(st.lists(st.sampled_from(sorted({word for words in OTHERS.values() for word in words.split()} | {"key"}))))
def test_words_keep_their_order_and_some_are_left(words):
    found = content_words(words)
    rest = iter(words)
    assert all(word in rest for word in found)  # a subsequence
    assert bool(found) == bool(words)
    assert words.count("key") in (0, found.count("key"))


@pytest.mark.parametrize(
    ("question", "about", "other"),
    [
        ("Was hat Ben mit dem Schlüssel?", "Der Schlüssel liegt hier", "Was hat er mit dem Rad, wer weiß"),
        ("Où est-ce que Paul a laissé la clé ?", "Une clé de Paul", "Ce que Paul a laissé, est-ce que je le sais"),
    ],
)
def test_recall_finds_what_a_question_in_another_language_is_about(question, about, other):
    index = PredictiveAssociativeIndex(dim=4)
    same = np.ones(4)
    index.add([same] * 5, ["other", "about", "3", "4", "5"], [other, about, "Kino", "Tee", "Boot"])
    assert index.recall(same, k=1, text=question).ids == ["about"]
