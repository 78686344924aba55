"""Forms of times by the reason for which the reader failed on list 11; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question

WEDNESDAY = datetime(2024, 5, 15, 15)

FORMS = {
    "a question in the present tense looks ahead": [
        ("what do we have on Sunday", ["2024-05-19"]),
        ("tell me where I have to be on Friday", ["2024-05-17"]),
        ("who's coming over on Saturday?", ["2024-05-18"]),
        ("what time does the concert start on Monday", ["2024-05-20"]),
        ("which meetings do I lead in September?", ["2024-09-01 to 2024-09-30"]),
        ("are we still meeting Mara on Tuesday?", ["2024-05-21"]),
        ("agenda for Monday", ["2024-05-20"]),
        ("deadlines in the last week of July", ["2024-07-25 to 2024-07-31"]),
        ("who's covering for Tom in late August?", ["2024-08-21 to 2024-08-31"]),
        ("does Ann fly to Rome in October", ["2024-10-01 to 2024-10-31"]),
        ("what must I bring on Thursday?", ["2024-05-16"]),
        ("Was machst du am Samstag?", ["2024-05-18"]),
        ("wann treffe ich am Freitag den Steuerberater", ["2024-05-17"]),
        ("Wer kommt am Sonntag zum Essen?", ["2024-05-19"]),
        ("Welche Fristen laufen im September ab?", ["2024-09-01 to 2024-09-30"]),
        ("Wohin fahren wir im Oktober?", ["2024-10-01 to 2024-10-31"]),
        ("Qu'est-ce qu'on mange dimanche ?", ["2024-05-19"]),
        ("Où dois-je être lundi ?", ["2024-05-20"]),
        ("Qui vient samedi ?", ["2024-05-18"]),
        ("nous partons où en octobre ?", ["2024-10-01 to 2024-10-31"]),
        ("¿Qué hacemos el sábado?", ["2024-05-18"]),
        ("¿Quién viene el domingo?", ["2024-05-19"]),
        ("¿Adónde vamos en octubre?", ["2024-10-01 to 2024-10-31"]),
        ("mis citas del lunes", ["2024-05-20"]),
        ("is Ann around on Friday", ["2024-05-17"]),
        ("whose turn is it on Friday", ["2024-05-17"]),
        ("what's on in October", ["2024-10-01 to 2024-10-31"]),
        ("Ist am Montag Schule?", ["2024-05-20"]),
        ("Wann fängt das Konzert am Freitag an", ["2024-05-17"]),
        ("est-ce que Paul vient vendredi", ["2024-05-17"]),
        ("¿A qué hora empieza el concierto el viernes?", ["2024-05-17"]),
        ("周五有什么会议", ["2024-05-17"]),
        ("星期天我们去哪", ["2024-05-19"]),
    ],
    "what was, and what a record says, is back": [
        ("what did we have on Sunday", ["2024-05-12"]),
        ("who came over on Saturday?", ["2024-05-11"]),
        ("tell me where I was on Friday", ["2024-05-10"]),
        ("what do I know about Sunday's picnic", ["2024-05-12"]),
        ("do we have photos from September?", ["2023-09-01 to 2023-09-30"]),
        ("can you show me the invoices from September", ["2023-09-01 to 2023-09-30"]),
        ("can you find the notes I took in September", ["2023-09-01 to 2023-09-30"]),
        ("what are the sales figures in September?", ["2023-09-01 to 2023-09-30"]),
        ("what does the report for March say", ["2024-03-01 to 2024-03-31"]),
        ("expenses in September", ["2023-09-01 to 2023-09-30"]),
        ("do you remember the hotel in September", ["2023-09-01 to 2023-09-30"]),
        ("Was hast du am Samstag gemacht?", ["2024-05-11"]),
        ("Was haben wir am Samstag besprochen?", ["2024-05-11"]),
        ("Wer kam am Sonntag zum Essen?", ["2024-05-12"]),
        ("Qu'est-ce qu'on a mangé dimanche ?", ["2024-05-12"]),
        ("Où étais-je lundi ?", ["2024-05-13"]),
        ("Qui est venu samedi ?", ["2024-05-11"]),
        ("¿Qué hicimos el sábado?", ["2024-05-11"]),
        ("¿Quién vino el domingo?", ["2024-05-12"]),
        ("周五开了什么会", ["2024-05-10"]),
        ("星期天我们去了哪", ["2024-05-12"]),
        ("Can I learn it in two weeks?", []),
    ],
}


@pytest.mark.parametrize(
    ("text", "meanings"), [form for forms in FORMS.values() for form in forms], ids=lambda value: str(value)[:60]
)
def test_form(text: str, meanings: list[str]) -> None:
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == meanings
