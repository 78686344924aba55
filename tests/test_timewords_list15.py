"""Forms of times by the reason for which the reader failed on list 15; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question

THURSDAY = datetime(2025, 6, 19, 11, 20)

FORMS = {
    "since so many units, in any language": [
        ("since two months the heating leaks", ["2025-04-19 to 2025-06-19"]),
        ("seit drei Tagen tropft der Hahn", ["2025-06-16 to 2025-06-19"]),
        ("seit einem Monat kein Internet", ["2025-05-19 to 2025-06-19"]),
        ("depuis une semaine il fait froid", ["2025-06-12 to 2025-06-19"]),
        ("since three weeks before Easter", ["2025-03-24 to 2025-06-19"]),
        ("what changed since the week began", []),
    ],
    "spoken years": [
        ("where did we live in twenty sixteen", ["2016-01-01 to 2016-12-31"]),
        ("what was new in nineteen eighty", ["1980-01-01 to 1980-12-31"]),
        ("who ran it in two thousand and seven", ["2007-01-01 to 2007-12-31"]),
        ("my vision is twenty twenty", []),
    ],
    "dictation": [
        ("what did he say on uh tuesday", ["2025-06-17"]),
        ("who called yesterday at like four in the afternoon", ["2025-06-18 16:00 to 2025-06-18 17:00"]),
        ("i think it was november when she left", ["2024-11-01 to 2024-11-30"]),
        ("i need to know who called on monday", ["2025-06-16"]),
        ("i need to find out where we ate on monday", ["2025-06-16"]),
        ("i need to find a plumber on monday", ["2025-06-23"]),
    ],
    "terse notes": [
        ("errors 19/05 night", ["2025-05-19 18:00 to 2025-05-20 06:00"]),
        ("photos summer 23", ["2023-06-01 to 2023-08-31"]),
        ("who sang Summer of 69", []),
        ("mail from mon pm", ["2025-06-16 12:00 to 2025-06-16 18:00"]),
        ("who is the pm of this project", []),
        ("paint colours (October)", ["2024-10-01 to 2024-10-31"]),
    ],
    "several days of a month": [
        ("what rained in during the last days of May", ["2025-05-27 to 2025-05-31"]),
        ("who came in the last day of May", ["2025-05-31"]),
    ],
    "years beside a time": [
        ("what were we doing two years ago around this time", ["2023-06-16 to 2023-06-22"]),
        ("wo waren wir vor drei Jahren im Herbst", ["2022-09-01 to 2022-11-30"]),
    ],
}


@pytest.mark.parametrize(("text", "expected"), [form for forms in FORMS.values() for form in forms])
def test_questions(text, expected):
    assert [period.meaning for period in read_question(text, THURSDAY)] == expected
