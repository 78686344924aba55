"""A word of a question that no memory holds is searched as the stored word that it may be a typing error of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.spelling import ALPHABETS, LONGEST, SHORTEST, misspellings
from pam_retriever.retrieval.lexical import MOST_MISTYPED, Lexicon

LATIN = ALPHABETS[0]
TEXTS = [
    "Ann painted a sunrise at the lake",
    "Ben repaired the kitchen door",
    "The doctor moved our appointment to Friday",
    "The stables are behind the hill",
]


def distance(one: str, other: str) -> int:
    """Returns the number of letters that are missing, added, wrong or swapped (the restricted edit distance)."""
    table = np.zeros((len(one) + 1, len(other) + 1), int)
    table[:, 0], table[0] = range(len(one) + 1), range(len(other) + 1)
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return int(table[-1, -1])


def words(alphabet, shortest=SHORTEST, longest=LONGEST):
    return st.text(alphabet, min_size=shortest, max_size=longest)


@given(words("abc", 5, 7), words("abc", 4, 8))
def test_the_terms_near_a_term_are_those_at_distance_one_with_the_same_first_letter(term, other):
    near = distance(term, other) == 1 and other[0] == term[0]
    assert (other in misspellings(term)) == near


@given(words(LATIN))
def test_each_near_term_is_given_once_in_order(term):
    found = misspellings(term)
    assert found == sorted(set(found)) and term not in found
    assert {term[0]} == {one[0] for one in found}


@pytest.mark.parametrize("term", ["rain", "", "ab123", "2024", "a" * (LONGEST + 1), "日本語日本語", "moscowж"])
def test_short_and_long_terms_numbers_codes_and_other_scripts_have_none(term):
    assert misspellings(term) == []


def test_cyrillic_and_greek_words_have_near_ones():
    assert "собака" in misspellings("сабака")
    assert "θαλασσα" in misspellings("θαλασα")


def filled(index, texts=TEXTS, metadatas=None):
    """Returns the index with texts whose vectors say nothing."""
    index.add(np.ones((len(texts), 4), np.float32), [str(at) for at in range(len(texts))], texts, metadatas)
    return index


def first(index, question, **options):
    return index.recall(np.ones(4, np.float32), 1, text=question, **options).ids[0]


QUESTIONS = {
    "Where did she see the sunrsie?": "0",
    "Who repared it?": "1",
    "Is the apointment tomorrow?": "2",
    "When is the appoinntment?": "2",
    "Were they in the statbles?": "3",
}


def test_a_mistyped_word_finds_its_memory_in_every_engine(anywhere):
    index = filled(anywhere(4))
    assert {question: first(index, question) for question in QUESTIONS} == QUESTIONS


def test_a_reopened_folder_and_an_index_with_past_requests_find_it_too(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path, dim=4) as index:
        filled(index)
    with PredictiveAssociativeIndex.open(tmp_path) as index:
        assert {question: first(index, question) for question in QUESTIONS} == QUESTIONS
        index.feedback(np.array([1, -1, 0, 0], np.float32), ["1"], text="hinges")
        assert {question: first(index, question) for question in QUESTIONS} == QUESTIONS


def asked(texts, question, metadatas=None):
    index = filled(PredictiveAssociativeIndex(4), texts, metadatas)
    return set(Lexicon(index._store.view().database).asked(question))


def test_a_word_that_a_text_or_a_label_holds_stays_alone():
    assert asked(["the horse", "the house", "a house"], "horse") == {"hors"}
    assert asked(["a friend of Melanie", "ours"], "Melania", [{"who": "Melania"}, {}]) == {"melania"}


def test_the_most_frequent_of_several_near_words_joins_the_question():
    texts = ["the doctor", "a director", "her director", "directed by"]
    assert asked(texts, "directr") == {"directr", "director"}


def test_a_word_without_a_near_one_stays_alone():
    assert asked(TEXTS, "helicopter") == {"helicopt"}


def test_a_question_of_many_unknown_words_is_in_another_language():
    many = ["sunrife", "pommel", "hansel", "grubel", "windel", "kessel", "tafeln", "mondes", "hafens"]
    assert len(many) == MOST_MISTYPED + 1
    assert "sunris" in asked(TEXTS, " ".join(many[:-1]))
    assert "sunris" not in asked(TEXTS, " ".join(many))


def test_a_word_that_arrives_is_right_from_then_on_and_wrong_again_when_it_is_gone():
    index = filled(PredictiveAssociativeIndex(4))
    lexicon = Lexicon(index._store.view().database)
    assert lexicon.asked("sunrife") == ["sunrif", "sunris"]
    index.add(np.ones((1, 4), np.float32), ["new"], ["Sunrife is a brand of lamps"])
    assert lexicon.asked("sunrife") == ["sunrif"]
    index.delete(["new"])
    assert lexicon.asked("sunrife") == ["sunrif", "sunris"]
    index.delete(["0"])
    assert lexicon.asked("sunrife") == ["sunrif"]
