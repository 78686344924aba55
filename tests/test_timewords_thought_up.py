"""Forms of times that were thought up after list 10 was mended, and that the reader did not read."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question

WEDNESDAY = datetime(2024, 5, 15, 15)

FORMS = {
    "the age of a thing": [
        ("what files are older than 30 days", ["until 2024-04-14"]),
        ("show me notes not older than a week", ["2024-05-08 to 2024-05-15"]),
        ("Welche Dateien sind älter als zwei Wochen?", ["until 2024-04-30"]),
    ],
    "abbreviations and short spellings": [
        ("how many cases did we close MTD", ["2024-05-01 to 2024-05-15"]),
        ("show revenue QTD", ["2024-04-01 to 2024-05-15"]),
        ("what was Ann's weight 3 mos ago", ["2024-02-01 to 2024-02-29"]),
        ("where are we meeting tmrw", ["2024-05-16"]),
        ("what did I say a coupla days ago", ["2024-05-13"]),
        ("what'd you do last wknd", ["2024-05-11 to 2024-05-12"]),
    ],
    "midnight": [
        ("who called since midnight", ["2024-05-15"]),
        ("who left the house after midnight on Saturday", ["2024-05-11"]),
    ],
    "days beside a day, as a whole": [
        ("whom did I meet in the three days before Good Friday", ["2024-03-26 to 2024-03-28"]),
        ("whom did I meet three days before Good Friday", ["2024-03-26"]),
        ("¿Qué hice la semana anterior a Navidad?", ["2023-12-18 to 2023-12-24"]),
        ("Les messages d'avant le 10 mars", ["until 2024-03-09"]),
        ("Was geschah bis einschließlich 10. März?", ["until 2024-03-10"]),
        ("how did I feel after the holidays", ["from 2024-01-02"]),
        ("what did we sing during Holy Week", ["2024-03-24 to 2024-03-31"]),
    ],
    "a clock before any day": [
        ("the mail I sent at 11:58 PM on New Year's Eve", ["2023-12-31 23:58 to 2023-12-31 23:59"]),
    ],
    "a year that is so many years ago": [
        ("Wo waren wir im Sommer vor zwei Jahren?", ["2022-06-01 to 2022-08-31"]),
        ("where did we sail in the summer two years ago", ["2022-06-01 to 2022-08-31"]),
        ("whom did I meet in March a year ago", ["2023-03-01 to 2023-03-31"]),
        ("¿Dónde estuvimos en marzo hace dos años?", ["2022-03-01 to 2022-03-31"]),
    ],
    "a range with the year of its start": [
        ("2023年3月到5月的账单", ["2023-03-01 to 2023-05-31"]),
        ("what did we pay from December 2022 to March", ["2022-12-01 to 2023-03-31"]),
        ("what did Tom say between last Monday and Thursday", ["2024-05-06 to 2024-05-09"]),
    ],
    "this winter, after it": [
        ("have I been sick at all this winter", ["2023-12-01 to 2024-02-29"]),
        ("what will we read this winter", ["2024-12-01 to 2025-02-28"]),
    ],
    "a weekday and its date": [
        ("who comes to the match this coming Saturday, May 18th, at 1pm?", ["2024-05-18 13:00 to 2024-05-18 14:00"]),
        ("who came on Thursday, May 18", ["2023-05-18"]),
    ],
    "a time of a weekday that has not come yet": [
        ("whom did I meet on Wednesday evening", ["2024-05-08 18:00 to 2024-05-09 00:00"]),
    ],
    "counted units before their ordinal": [
        ("les trois premiers mois de 2023", ["2023-01-01 to 2023-03-31"]),
        ("los primeros tres meses de 2023", ["2023-01-01 to 2023-03-31"]),
    ],
    "what comes, by the question word": [
        ("when is our next meeting after June 10", ["from 2024-06-11"]),
    ],
    "a noun before a relative time": [
        ("which day last week did it rain", ["2024-05-06 to 2024-05-12"]),
    ],
    "French without a word that only French has": [
        ("mes notes d'il y a trois jours", ["2024-05-12"]),
    ],
    "no times": [
        ("what does Ann do on weekends", []),
        ("what happened at the last minute", []),
        ("Wer singt Der letzte Sommer?", []),
        ("have we seen The Summer together", []),
        ("周末愉快怎么说", []),
    ],
}
CASES = [(reason, text, meanings) for reason, forms in FORMS.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), CASES, ids=[text for _, text, _ in CASES])
def test_a_form_is_read(reason, text, meanings):
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == meanings, reason
