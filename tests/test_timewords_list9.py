"""Forms of times by the reason for which the reader failed on list 9; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question

WEDNESDAY = datetime(2024, 5, 15, 15)

FORMS = {
    "a determiner before the past units": [
        ("which films have I seen these last two weeks", ["2024-05-01 to 2024-05-15"]),
        ("who have I met this past two weeks", ["2024-05-01 to 2024-05-15"]),
    ],
    "spring after a preposition, without an article": [
        ("where did we hike in spring", ["2024-03-01 to 2024-05-31"]),
        ("where did the book sell in Spring Street", []),
        ("what did the rider spring over", []),
    ],
    "a half without a year": [
        ("what did we earn in H2", ["2023-07-01 to 2023-12-31"]),
        ("what is the H2 heading good for", []),
    ],
    "the Spanish weekend, shortened": [
        ("¿dónde cenamos el finde pasado?", ["2024-05-11 to 2024-05-12"]),
    ],
    "a phase and a decade with a hyphen": [
        ("where did they live in the mid-80s", ["1983-05-01 to 1986-08-31"]),
    ],
    "some units ahead, with an article": [
        ("what will we do in a few weeks", ["2024-05-27 to 2024-06-23"]),
        ("what will we do in a couple of months", ["2024-07-01 to 2024-07-31"]),
    ],
    "the last weekends": [
        ("where did we go the last three weekends", ["2024-04-27 to 2024-05-12"]),
    ],
    "a holiday in a name": [
        ("who lives on Easter Island", []),
        ("what did Ann give us on Easter", ["2024-03-31"]),
    ],
}
CASES = [(reason, text, meanings) for reason, forms in FORMS.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), CASES, ids=[text for _, text, _ in CASES])
def test_a_form_is_read(reason, text, meanings):
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == meanings, reason
