"""Forms of times by the reason for which the reader failed on list 6 or on forms near it; each in another sentence."""

from __future__ import annotations

from datetime import datetime

import pytest

from benchmarks.real import times
from pam_retriever.timewords.reader import read_question, read_text

WEDNESDAY = datetime(2024, 5, 15, 14, 30)
FORMS = {
    "a time of day without a day, in a question about what was": [
        ("Who rang at 10am?", ["2024-05-15 10:00 to 2024-05-15 11:00"]),
        ("Who rang at 5pm?", ["2024-05-14 17:00 to 2024-05-14 18:00"]),
        ("Any mail since noon?", ["2024-05-15 12:00 to 2024-05-16 00:00"]),
        ("What was said between 9 and 11am?", ["2024-05-15 09:00 to 2024-05-15 11:00"]),
        ("Wer hat um 10 Uhr angerufen?", ["2024-05-15 10:00 to 2024-05-15 11:00"]),
        ("Is the gym open until 10pm?", []),
        ("Where did he go at 9 on 2 May?", ["2024-05-02"]),
    ],
    "an hour in figures alone": [
        ("What did we do on Friday around 3?", ["2024-05-10 15:00 to 2024-05-10 16:00"]),
        ("Who rang last night around 11?", ["2024-05-14 23:00 to 2024-05-15 00:00"]),
        ("Qui a appelé hier vers 16 h ?", ["2024-05-14 16:00 to 2024-05-14 17:00"]),
        ("Qui a appelé hier entre 9 h et 11 h ?", ["2024-05-14 09:00 to 2024-05-14 11:00"]),
        ("¿Quién llamó ayer a las cinco de la tarde?", ["2024-05-14 17:00 to 2024-05-14 18:00"]),
        ("昨天下午两点到四点谁来了", ["2024-05-14 14:00 to 2024-05-14 16:00"]),
    ],
    "two counts": [
        ("what did I read over the last 2 or 3 days", ["2024-05-12 to 2024-05-15"]),
        ("what did I read 2-3 weeks ago", ["2024-04-22 to 2024-05-05"]),
        ("Was habe ich vor drei bis vier Tagen gelesen?", ["2024-05-11 to 2024-05-12"]),
        ("Qu'ai-je lu il y a deux ou trois jours ?", ["2024-05-12 to 2024-05-13"]),
        ("¿Qué leí hace tres o cuatro días?", ["2024-05-11 to 2024-05-12"]),
        ("两三天前我读了什么", ["2024-05-12 to 2024-05-13"]),
    ],
    "a count that is about right": [
        ("Was habe ich vor etwa zwei Wochen gelesen?", ["2024-04-29 to 2024-05-05"]),
        ("Qu'ai-je lu il y a environ deux mois ?", ["2024-03-01 to 2024-03-31"]),
        ("Qu'ai-je lu il y a une dizaine de jours ?", ["2024-05-05"]),
        ("¿Qué leí hace más o menos dos semanas?", ["2024-04-29 to 2024-05-05"]),
        ("一个多月前我读了什么", ["2024-04-01 to 2024-04-30"]),
    ],
    "parts of an hour": [
        ("what did you say a quarter of an hour ago", ["2024-05-15 14:15 to 2024-05-15 14:16"]),
        ("what did you say an hour and a half ago", ["2024-05-15 13:00 to 2024-05-15 13:01"]),
        ("Was habe ich vor einer halben Stunde gesagt?", ["2024-05-15 14:00 to 2024-05-15 14:01"]),
        ("Qu'ai-je dit il y a une demi-heure ?", ["2024-05-15 14:00 to 2024-05-15 14:01"]),
        ("¿Qué dije hace media hora?", ["2024-05-15 14:00 to 2024-05-15 14:01"]),
        ("半个小时前我说了什么", ["2024-05-15 14:00 to 2024-05-15 14:01"]),
        ("errors in the last 24h", ["2024-05-14 14:30 to 2024-05-15 14:30"]),
    ],
    "a holiday with its weekend or week": [
        ("where were we over Memorial Day weekend 2023", ["2023-05-27 to 2023-05-29"]),
        ("where were we on Thanksgiving weekend", ["2023-11-23 to 2023-11-26"]),
        ("where were we Easter week", ["2024-03-25 to 2024-03-31"]),
        ("Wo waren wir am Osterwochenende?", ["2024-03-30 to 2024-03-31"]),
        ("国庆假期我们去哪儿了", ["2023-10-01 to 2023-10-07"]),
        ("圣诞节前两天我们去哪儿了", ["2023-12-23"]),
    ],
    "days of a month in a list": [
        ("who came on the 2nd or the 3rd", ["2024-05-02", "2024-05-03"]),
        ("who came on the 2nd, 3rd and 4th", ["2024-05-02", "2024-05-03", "2024-05-04"]),
        ("who came on 2 and 3 April 2023", ["2023-04-02", "2023-04-03"]),
        ("who came on April 2 and 3", ["2024-04-02", "2024-04-03"]),
        ("who came in 2nd and 3rd", []),
        ("Wer kam am 2. und 3. April?", ["2024-04-02", "2024-04-03"]),
        ("4月2号和3号谁来了", ["2024-04-02", "2024-04-03"]),
    ],
    "a day of the month, other languages": [
        ("Was hat Eva am 7. gekocht?", ["2024-05-07"]),
        ("Notizen vom 3. bis zum 7.", ["2024-05-03 to 2024-05-07"]),
        ("Was war am 7. Tag der Reise?", []),
        ("Qui est venu le 7 ?", ["2024-05-07"]),
        ("mes notes du 3 au 7", ["2024-05-03 to 2024-05-07"]),
        ("Je prends le bus 7 pour rentrer", []),
        ("¿Quién vino el día 7?", ["2024-05-07"]),
        ("notas desde el 7", ["2024-05-07 to 2024-05-15"]),
        ("我7号去哪儿了", ["2024-05-07"]),
        ("7号线到哪儿", []),
        ("qui est venu le vendredi 13", ["2023-10-13"]),
    ],
    "the last of a month with 'in'": [
        ("what did I pay on the last day in April", ["2024-04-30"]),
        ("Was war am letzten Freitag im April?", ["2024-04-26"]),
        ("4月的最后一周我做了什么", ["2024-04-24 to 2024-04-30"]),
        ("my notes of last week in the April folder", ["2024-05-06 to 2024-05-12"]),
    ],
    "German compounds": [
        ("Was habe ich in der zweiten Aprilhälfte gelesen?", ["2024-04-16 to 2024-04-30"]),
        ("Was habe ich in der ersten Aprilwoche gelesen?", ["2024-04-01 to 2024-04-07"]),
        ("Was habe ich seit Jahresbeginn gelesen?", ["2024-01-01 to 2024-05-15"]),
        ("Wer kam zwischen den Jahren?", ["2023-12-24 to 2024-01-01"]),
        ("Was war im Spätherbst?", ["2023-11-01 to 2023-11-30"]),
        ("Was war in den Achtzigern?", ["1980-01-01 to 1989-12-31"]),
    ],
    "from one weekday to another": [
        ("what did I cook Mon through Wed", ["2024-05-13 to 2024-05-15"]),
        ("mes notes de lundi à mercredi", ["2024-05-13 to 2024-05-15"]),
        ("mis notas de lunes a miércoles", ["2024-05-13 to 2024-05-15"]),
        ("le mardi de la semaine dernière", ["2024-05-07"]),
    ],
    "this time of another year": [
        ("what did I read last year around this time", ["2023-05-12 to 2023-05-18"]),
        ("Was war letztes Jahr um diese Zeit?", ["2023-05-12 to 2023-05-18"]),
        ("去年的今天我做了什么", ["2023-05-15"]),
    ],
    "winters, and weeks by a date": [
        ("where did we ski in winter 2022/23", ["2022-12-01 to 2023-02-28"]),
        ("where did we go this past winter", ["2023-12-01 to 2024-02-29"]),
        ("notes of the week of 4/8", ["2024-04-08 to 2024-04-14"]),
        ("notes of the week ending 12 April", ["2024-04-08 to 2024-04-14"]),
    ],
    "a time of day after a count": [
        ("what did I cook three days ago at noon", ["2024-05-12 12:00 to 2024-05-12 13:00"]),
        ("what did I cook two days ago in the evening", ["2024-05-13 18:00 to 2024-05-14 00:00"]),
        ("Qu'ai-je lu il y a trois jours à midi ?", ["2024-05-12 12:00 to 2024-05-12 13:00"]),
        ("Was war vor zwei Tagen um 10 Uhr?", ["2024-05-13 10:00 to 2024-05-13 11:00"]),
    ],
    "a part of the day beside a day, and an hour before it": [
        ("who rang the night before Christmas", ["2023-12-24 18:00 to 2023-12-25 06:00"]),
        ("who rang the morning after Christmas", ["2023-12-26 06:00 to 2023-12-26 12:00"]),
        ("who rang around 7 this morning", ["2024-05-15 07:00 to 2024-05-15 08:00"]),
        ("who rang on 2 May at around 9am", ["2024-05-02 09:00 to 2024-05-02 10:00"]),
    ],
    "ordinals in words, and many days": [
        ("who came on the twenty-first of April", ["2024-04-21"]),
        ("who came on April the ninth", ["2024-04-09"]),
        ("who came in the first twelve days of April", ["2024-04-01 to 2024-04-12"]),
        ("who sings on the ninth, the last track", []),
        ("who came on Saturday 5/4", ["2024-05-04"]),
    ],
    "an age, and the noun of a weekday": [
        ("files older than April 2024", ["until 2024-03-31"]),
        ("files newer than April 2024", ["from 2024-05-01"]),
        ("who came to dinner at Sunday's party", ["2024-05-12"]),
    ],
    "greetings, names, and the meaning of words": [
        ("Guten Morgen, hilfst du mir?", []),
        ("What does 'year to date' mean?", []),
        ("Paul et Lundi, où sont-ils ?", []),
        ("the August Wilson plays", []),
        ("星期三书店在哪儿", []),
        ("圣诞快乐!", []),
        ("en los noventa minutos del partido", []),
    ],
}


@pytest.mark.parametrize(
    ("question", "meanings"),
    [pytest.param(question, meanings, id=question) for forms in FORMS.values() for question, meanings in forms],
)
def test_a_form_is_read(question, meanings):
    assert [period.meaning for period in read_question(question, WEDNESDAY)] == meanings


def test_the_initials_of_a_name_do_not_make_a_text_french():
    text = "Music by Cyril J. Mockridge and Charles D. Clarke, released by L. C. Fox on June 4, 1947"
    assert [str(period.start.date()) for period in read_text(text, WEDNESDAY)] == ["1947-06-04"]


def test_a_time_of_day_is_no_language():
    assert [period.meaning for period in read_question("notes, 14 May, 10am", WEDNESDAY)] == [
        "2024-05-14 10:00 to 2024-05-14 11:00"
    ]


def test_a_text_has_no_time_of_day_without_its_day():
    assert read_text("I got up at 6 am and was at work at 9 am", WEDNESDAY) == []


@pytest.mark.parametrize("number", [6, 7])
def test_a_list_is_read(number):
    """Their first runs are in the guide; this is what was mended since."""
    result = times.one_list(number)
    assert result["all"]["right"] >= 0.95 * result["all"]["expressions"], result["wrong"]
    assert result["all"]["taken"] <= 0.04 * result["all"]["traps"], result["taken"]
