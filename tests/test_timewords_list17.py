"""Forms of times by the reason for which the reader failed on list 17; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question

TUESDAY = datetime(2025, 10, 14, 9, 30)

FORMS = {
    "a short day or month between a noun and a thing that has a date": [
        ("phone contract sept invoice", ["2025-09-01 to 2025-09-30"]),
        ("band fri gig fee", ["2025-10-10"]),
        ("freaky friday review", []),
        ("red october party", []),
    ],
    "a short word for a day is no name": [
        ("tmrw scout camp who drives", ["2025-10-15"]),
        ("yest parcel", ["2025-10-13"]),
        ("tomorrow people cast", []),
    ],
    "a quarter of a report": [
        ("q2 staffing report", ["2025-04-01 to 2025-06-30"]),
        ("q2 button label", []),
    ],
    "a year between a thing and another": [
        ("school trip 2018 coach", ["2018-01-01 to 2018-12-31"]),
        ("exchange server 2019 certificate", []),
    ],
    "before, for ago": [
        ("which road we took before two days", ["2025-10-12"]),
        ("the run-up to Christmas 2024", ["until 2024-12-24"]),
    ],
    "what looks ahead": [
        ("hearing court date 8 nov", ["2025-11-08"]),
        ("What are the actors wearing on Friday?", ["2025-10-17"]),
        ("What were the actors wearing on Friday?", ["2025-10-10"]),
    ],
    "a month that is a name": [
        ("the cat named may, her chip", []),
        ("a horse called october", []),
    ],
    "German habits": [
        ("darf man hier laut sein", []),
        ("wer war gestern abends da", ["2025-10-13 18:00 to 2025-10-14 00:00"]),
    ],
}


@pytest.mark.parametrize(("text", "expected"), [form for forms in FORMS.values() for form in forms])
def test_questions(text, expected):
    assert [period.meaning for period in read_question(text, TUESDAY)] == expected
