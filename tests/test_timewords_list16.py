"""Forms of times by the reason for which the reader failed on list 16; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question, read_text

TUESDAY = datetime(2025, 10, 14, 9, 30)

FORMS = {
    "a day before or behind what has a date": [
        ("tue sync", ["2025-10-14"]),
        ("thu retro actions", ["2025-10-09"]),
        ("mon team lunch", ["2025-10-13"]),
        ("brunch sat", ["2025-10-11"]),
        ("brunch sat where", ["2025-10-11"]),
        ("after the class sat around", []),
        ("notes fri demo", ["2025-10-10"]),
        ("sun hike photos", ["2025-10-12"]),
        ("monday meeting link", ["2025-10-13"]),
        ("picked up the parcel sat", ["2025-10-11"]),
        ("the chair where she sat", []),
        ("ate what wed lunch", ["2025-10-08"]),
        ("sat nav update", []),
        ("sat test results", []),
        ("sun shade for the pram", []),
        ("wed ring size", []),
        ("friday harbor ferry", []),
        ("wednesday addams costume party", []),
    ],
    "a month before or behind what has a date": [
        ("sep statement", ["2025-09-01 to 2025-09-30"]),
        ("rent july", ["2025-07-01 to 2025-07-31"]),
        ("show june receipts", ["2025-06-01 to 2025-06-30"]),
        ("nov electricity bill", ["2024-11-01 to 2024-11-30"]),
        ("dec rainbow emulator", []),
        ("march of the penguins narrator", []),
        ("auntie june photos", []),
        ("call jan", []),
        ("june call me back", []),
        ("june visit", ["2025-06-01 to 2025-06-30"]),
        ("the report may have errors", []),
        ("which payments may, in part, be late", []),
        ("photos june has of the cat", []),
        ("payslip march", ["2025-03-01 to 2025-03-31"]),
        ("may we bill you later", []),
        ("anna may visit", []),
    ],
    "a feast, a season or a weekend of what has a date": [
        ("easter lunch guests", ["2025-04-20"]),
        ("halloween party photos", ["2024-10-31"]),
        ("weekend run", ["2025-10-11 to 2025-10-12"]),
        ("winter bills", ["2024-12-01 to 2025-02-28"]),
        ("christmas tree stand size", []),
        ("easter dinner recipe", []),
        ("weekend bag", []),
        ("winter coat receipt", []),
    ],
    "a year behind or before what has a date": [
        ("taxes 2023", ["2023-01-01 to 2023-12-31"]),
        ("2022 budget", ["2022-01-01 to 2022-12-31"]),
        ("photos paris 2018", ["2018-01-01 to 2018-12-31"]),
        ("easter trip 2021", ["2021-04-04"]),
        ("h2 24 numbers", ["2024-07-01 to 2024-12-31"]),
        ("q1 25", ["2025-01-01 to 2025-03-31"]),
        ("q2 okrs", ["2025-04-01 to 2025-06-30"]),
        ("2023 taxes", ["2023-01-01 to 2023-12-31"]),
        ("2000 orders", []),
        ("exchange 2019 backup", []),
        ("room 2019 call button", []),
    ],
    "figures beside what has a date": [
        ("readings 2/27", ["2025-02-27"]),
        ("session 28/2", ["2025-02-28"]),
        ("19/8 call", ["2025-08-19"]),
        ("vet 22/9", ["2025-09-22"]),
        ("shift 13.2.", ["2025-02-13"]),
        ("cut the board 5/18 wide", []),
        ("update to 12.8.", []),
        ("steel 18/10 pan", []),
        ("photos from the 5th", ["2025-10-05"]),
        ("notes from the 5th floor", []),
    ],
    "short forms": [
        ("nxt fri", ["2025-10-17"]),
        ("prev month spend", ["2025-09-01 to 2025-09-30"]),
        ("yst photos", ["2025-10-13"]),
        ("todays todos", ["2025-10-14"]),
        ("fridays call", ["2025-10-10"]),
        ("tue am", ["2025-10-14 06:00 to 2025-10-14 12:00"]),
        ("who rang this pm", ["2025-10-14 12:00 to 2025-10-14 18:00"]),
        ("wed eve", ["2025-10-08 18:00 to 2025-10-09 00:00"]),
        ("mon to wed", ["2025-10-06 to 2025-10-08"]),
        ("tue-thu logs", ["2025-10-07 to 2025-10-09"]),
        ("6mo ago", ["2025-04-01 to 2025-04-30"]),
        ("what this am I to make of", []),
    ],
    "English of non-natives": [
        ("in monday what we discussed", ["2025-10-13"]),
        ("what you told me before 2 weeks", ["2025-09-29 to 2025-10-05"]),
        ("last to last week", ["2025-09-29 to 2025-10-05"]),
        ("two three days ago", ["2025-10-11 to 2025-10-12"]),
        ("how often before two weeks are over", []),
    ],
    "a to-do list of a week, and tickets": [
        ("todo wk 41", ["2025-10-06 to 2025-10-12"]),
        ("tix for 5th nov", ["2025-11-05"]),
    ],
    "a day that is a name": [
        ("tomorrow people episode guide", []),
        ("today widget", []),
        ("def yesterday helper in utils", []),
        ("datetime.today vs now", []),
        ("yesterday standup notes", ["2025-10-13"]),
        ("today blood pressure reading", ["2025-10-14"]),
        ("what did i eat yesterday exactly", ["2025-10-13"]),
    ],
    "a title": [
        ('who sang "tomorrow"', []),
        ("friday i'm in love lyrics", []),
        ("the day after tomorrow cast", []),
        ("lyrics I noted yesterday", ["2025-10-13"]),
        ("born 12 May 1984, which actress", ["1984-05-12"]),
    ],
    "a word in place of a month or a weekday": [
        ("who is on the march for the climate", []),
        ("the april o'neil figure", []),
        ("octal to dec in python", []),
        ("set dec as default base", []),
        ("sat next to whom", []),
        ("may the fourth option win", []),
        ("mail for jan from payroll", []),
        ("report for june from finance", ["2025-06-01 to 2025-06-30"]),
        ("dinner with may", []),
        ("every other tuesday", []),
        ("how many days in february", []),
        ("how many days in february did I run", ["2025-02-01 to 2025-02-28"]),
    ],
    "a weekday that is no day of now": [
        ("was she born on a sunday or later", []),
        ("map entry for friday in the enum", []),
        ("abbreviation for thursday", []),
        ("what is the dog named sunday like", []),
        ("the project is called monday", []),
        ("who called monday", ["2025-10-13"]),
        ("wednesday's surname", []),
        ("thursday's invoice", ["2025-10-09"]),
        ("crusoe and friday summary of chapter", []),
        ("monday and friday calls", ["2025-10-13", "2025-10-10"]),
    ],
    "a call of a function": [
        ("why does tomorrow() return utc", []),
        ("where is today(tz) tested", []),
    ],
    "a name with a month": [
        ("october boys book club", []),
        ("blue november stout", []),
        ("which of the april fires was the largest", []),
        ("may the fourth be with you mug", []),
    ],
    "a programme": [
        ("the tonight show band", []),
        ("sunday night football theme", []),
        ("last friday night lyrics", []),
        ("what was the theme of the talk last friday", ["2025-10-10"]),
    ],
    "other languages": [
        ("pan con mayo", []),
        ("essen mit mai", []),
        ("meldung fehler 2013 im protokoll", []),
        ("was war 2013 im protokoll", ["2013-01-01 to 2013-12-31"]),
        ("国庆路在哪", []),
    ],
}

TEXTS = [
    ("Back at my desk nxt mon", ["2025-10-20"]),
    ("In a fortnight we'll hear from them", ["2025-10-27 to 2025-11-02"]),
    ("February was dull here.", ["2025-02-01 to 2025-02-28"]),
    ("June was late as always.", []),
    ("We met in May 2018 and married that October.", ["2018-05-01 to 2018-05-31", "2018-10-01 to 2018-10-31"]),
    ("Ann Lee (born 12 May 1984) is an English actress.", ["1984-05-12"]),
    ("Until 1986 he had the weekend breakfast show.", ["until 1986-12-31"]),
    ('He said "see you tomorrow".', ["2025-10-15"]),
]


@pytest.mark.parametrize(("text", "expected"), [form for forms in FORMS.values() for form in forms])
def test_questions(text, expected):
    assert [period.meaning for period in read_question(text, TUESDAY)] == expected


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_texts(text, expected):
    assert [period.meaning for period in read_text(text, TUESDAY)] == expected
