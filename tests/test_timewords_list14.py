"""Forms of times by the reason for which the reader failed on list 14; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question, read_text

SATURDAY = datetime(2023, 12, 30, 18)

QUESTIONS = {
    "things that do something look ahead": [
        ("subscriptions that renew in March", ["2024-03-01 to 2024-03-31"]),
        ("colleagues who retire in May", ["2024-05-01 to 2024-05-31"]),
        ("subscriptions that we renewed in March", ["2023-03-01 to 2023-03-31"]),
        ("emails that mention March", []),
    ],
    "a year after a comma": [
        ("who came to the picnic on June 3rd, last year", ["2022-06-03"]),
        ("In August, what did we pay last year?", ["2022-08-01 to 2022-08-31"]),
    ],
    "a range of days that has begun": [
        ("what did I eat between Christmas Eve and New Year's Eve", ["2023-12-24 to 2023-12-31"]),
        ("who called between 28 December and 4 January", ["2023-12-28 to 2024-01-04"]),
        ("who called between 3 January and 9 January", ["2023-01-03 to 2023-01-09"]),
    ],
    "some": [("what did she say some weeks ago", ["2023-11-20 to 2023-12-17"])],
    "no times": [
        ("what is Summer's last name", []),
        ("does Autumn live next door", []),
        ("the cat sleeps in the sun", []),
    ],
}

TEXTS = {
    "what was moved": [
        ("They pushed the whole review to Monday.", ["2024-01-01"]),
        ("We moved to Leeds on Monday.", ["2023-12-25"]),
    ],
    "a note of what to do": [
        ("Pay the gas bill on the 4th.", ["2024-01-04"]),
        ("please buy candles for Tuesday", ["2024-01-02"]),
        ("Submit the form in three days.", ["2024-01-02"]),
        ("Call with Ann on Tuesday.", ["2023-12-26"]),
    ],
    "figures before a full stop": [("The keys are due on 24/2.", ["2024-02-24"]), ("The ratio is 3/4.", [])],
}


@pytest.mark.parametrize(("text", "expected"), [form for forms in QUESTIONS.values() for form in forms])
def test_questions(text, expected):
    assert [period.meaning for period in read_question(text, SATURDAY)] == expected


@pytest.mark.parametrize(("text", "expected"), [form for forms in TEXTS.values() for form in forms])
def test_texts(text, expected):
    assert [period.meaning for period in read_text(text, SATURDAY)] == expected
