"""Forms of times by the reason for which the reader failed on list 9; each in a sentence of no list."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question, read_text

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
    "a title between quotation marks": [
        ("《昨天今天明天》是谁演的", []),
        ("昨天《今天》杂志说了什么", ["2024-05-14"]),
        ('who sang "Last Christmas"', []),
        ("who sang “Manic Monday” yesterday", ["2024-05-14"]),
        ('what did we do on "May 3"', ["2024-05-03"]),
        ('who said "see you yesterday"', ["2024-05-14"]),
        ("Wer spielt in „Am Sonntag nach Mitternacht“?", []),
        ("Qui a écrit « Un soir de décembre » ?", []),
    ],
    "a title after a word of works": [
        ("who stars in Memorial Day", []),
        ("what is the plot of Boxing Day", []),
        ("where were we on Memorial Day", ["2023-05-29"]),
        ("what was the rating of March 2024", ["2024-03-01 to 2024-03-31"]),
    ],
    "a phrase with capitals": [
        ("have I seen The Day Before Yesterday", []),
        ("what did I cook the day before yesterday", ["2024-05-13"]),
        ("who founded 21st Century Robotics", []),
        ("who painted in the 19th century", ["1801-01-01 to 1900-12-31"]),
    ],
    "a month that is a name": [
        ("who is the eldest of the March brothers", []),
        ("what came out of the March figures", ["2024-03-01 to 2024-03-31"]),
        ("is that a song by June Carter", []),
        ("Wer mixt den besten Cocktail, etwa einen Mai Tai?", []),
        ("Was haben wir im Mai Schönes erlebt?", ["2024-05-01 to 2024-05-31"]),
        ("¿Quién es el padre de Abril Zamora?", []),
        ("¿Qué hicimos en abril?", ["2024-04-01 to 2024-04-30"]),
        ("Qui est la mère de Juillet et Anna ?", []),
    ],
    "a part of a decade or a century": [
        ("who sang in the second half of the eighties", ["1985-01-01 to 1989-12-31"]),
        ("who painted in the early 18th century", ["1701-01-01 to 1734-04-30"]),
        ("who sang in the noughties", ["2000-01-01 to 2009-12-31"]),
    ],
    "the end of the year in one word": [
        ("what did we earn at year-end", ["2023-11-01 to 2023-12-31"]),
        ("what did we sell by the close of 2022", ["until 2022-12-31"]),
        ("what happened at the close of business", []),
    ],
    "recent units": [
        ("whom did I meet in recent weeks", ["2024-04-10 to 2024-05-15"]),
        ("what is the most recent week of the plan", []),
        ("what did I bake the other weekend", ["2024-04-13 to 2024-05-05"]),
    ],
    "the season of a holiday": [
        ("whom did we visit over the festive season", ["2023-12-24 to 2024-01-01"]),
        ("五天前的早上谁来了", ["2024-05-10 06:00 to 2024-05-10 12:00"]),
    ],
    "exactly so many units": [
        ("who called exactly two weeks ago", ["2024-05-01"]),
        ("Was war genau vor einem Jahr?", ["2023-05-15"]),
    ],
    "a day of this or the last month, in Chinese": [
        ("上个月20号我们去了哪里", ["2024-04-20"]),
        ("这个月3号谁来了", ["2024-05-03"]),
    ],
    "a day in figures with one reading": [
        ("the notes from 4/23", ["2024-04-23"]),
        ("shrink it from 3/4 of the page", []),
    ],
    "a season before the first person": [
        ("back in the spring I bought a bike, didn't I", ["2024-03-01 to 2024-05-31"]),
    ],
}
CASES = [(reason, text, meanings) for reason, forms in FORMS.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), CASES, ids=[text for _, text, _ in CASES])
def test_a_form_is_read(reason, text, meanings):
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == meanings, reason


SAID = {
    "a plan in the present progressive": [
        ("I'm seeing the dentist on the 28th", ["2024-05-28"]),
        ("We're so excited, we're flying to Oslo on Saturday", ["2024-05-18"]),
        ("We're hosting a party at Halloween", ["2024-10-31"]),
        ("I'm starting a job in two weeks", ["2024-05-27 to 2024-06-02"]),
        ("We're missing you since Sunday", ["2024-05-12 to 2024-05-15"]),
        ("She's having fun and met Tom on Sunday", ["2024-05-12"]),
    ],
    "a wish, an offer or a meeting to come": [
        ("Let's cook together on Friday", ["2024-05-17"]),
        ("We should swim on Saturday", ["2024-05-18"]),
        ("We should have swum on Saturday", ["2024-05-11"]),
        ("I have a job interview on Monday", ["2024-05-20"]),
        ("We fly to Oslo on the 3rd", ["2024-06-03"]),
        ("Lena turns six on Sunday", ["2024-05-19"]),
        ("I want to tell you what happened on Monday", ["2024-05-13"]),
    ],
    "a plan in another language": [
        ("Am Samstag fahren wir an die See", ["2024-05-18"]),
        ("Am Samstag sind wir an die See gefahren", ["2024-05-11"]),
        ("Nous partons le 3 juin", ["2024-06-03"]),
        ("Nos vemos el viernes", ["2024-05-17"]),
    ],
    "a timetable in the present tense": [
        ("The train departs Friday at 9am", ["2024-05-17 09:00 to 2024-05-17 10:00"]),
        ("The fair opens on June 3", ["2024-06-03"]),
        ("The party is on Saturday", ["2024-05-18"]),
        ("Dad's operation is on Friday, fingers crossed", ["2024-05-17"]),
        ("This photo is from Sunday", ["2024-05-12"]),
        ("The party was on Saturday", ["2024-05-11"]),
        ("The leaves in October were lovely", ["2023-10-01 to 2023-10-31"]),
    ],
}
TEXTS = [(reason, text, meanings) for reason, forms in SAID.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), TEXTS, ids=[text for _, text, _ in TEXTS])
def test_a_plan_is_read(reason, text, meanings):
    assert [period.meaning for period in read_text(text, WEDNESDAY)] == meanings, reason
