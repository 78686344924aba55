"""Forms of time that people put into questions, beside those of the lists in ``tests/data``."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval import hybrid
from pam_retriever.timewords.reader import read_question, read_text
from pam_retriever.timewords.scores import TimePrior, time_scores

SUNDAY = datetime(2023, 10, 22, 10)


@pytest.mark.parametrize(
    ("question", "meanings"),
    [
        # a verb is no part of a month or of a week
        ("What hobby did Ann start in September 2022?", ["2022-09-01 to 2022-09-30"]),
        ("Which course did Ann end in June 2022?", ["2022-06-01 to 2022-06-30"]),
        ("What did Ann start last week?", ["2023-10-09 to 2023-10-15"]),
        ("What did Ann do at the start of September 2022?", ["2022-09-01 to 2022-09-07"]),
        ("What was decided at end June 2023?", ["2023-06-24 to 2023-06-30"]),
        # what was planned is over, what is planned is not
        ("What did Ann plan for 10 August?", ["2023-08-10"]),
        ("What was planned for the 10 July meeting?", ["2023-07-10"]),
        ("Was Ann going to travel in July?", ["2023-07-01 to 2023-07-31"]),
        ("What is Ann planning for July?", ["2024-07-01 to 2024-07-31"]),
        # two days of one month
        ("What did Ann do between August 10 and 18, 2023?", ["2023-08-10 to 2023-08-18"]),
        ("What did Ann do between June 3 and 5?", ["2023-06-03 to 2023-06-05"]),
        # months that share a year
        ("What did Ann do in both June and July 2022?", ["2022-06-01 to 2022-06-30", "2022-07-01 to 2022-07-31"]),
        (
            "What did Ann do in May, June and July 2022?",
            ["2022-05-01 to 2022-05-31", "2022-06-01 to 2022-06-30", "2022-07-01 to 2022-07-31"],
        ),
        # short years, and years in brackets
        ("What did Ann do in July '22?", ["2022-07-01 to 2022-07-31"]),
        ("What did Ann do in summer \u201922?", ["2022-06-01 to 2022-08-31"]),
        ("What did Ann do on June 5 (2022)?", ["2022-06-05"]),
        ("What did Ann do on 05-06-2023?", ["2023-05-06"]),
        # units beside a month, a year or a day
        ("What did Ann do the month before July 2023?", ["2023-06-01 to 2023-06-30"]),
        ("What did Ann do two months after June 2022?", ["2022-08-01 to 2022-08-31"]),
        ("What did Ann do in the year after 2020?", ["2021-01-01 to 2021-12-31"]),
        ("What did Ann do a few days before July 10, 2023?", ["2023-07-05 to 2023-07-08"]),
        ("What did Ann do in the days after 10 July 2023?", ["2023-07-11 to 2023-07-15"]),
        ("What did Ann do the week leading up to July 10, 2023?", ["2023-07-03 to 2023-07-09"]),
        ("What did Ann do the week preceding July 10, 2023?", ["2023-07-03 to 2023-07-09"]),
        ("What did Ann do the week following July 10, 2023?", ["2023-07-11 to 2023-07-17"]),
        ("What did Ann do on the Sunday before 10 September 2023?", ["2023-09-03"]),
        ("Qu'a fait Ann la semaine du 12 juillet 2023 ?", ["2023-07-10 to 2023-07-16"]),
        ("Was machte Ann in der Woche vom 12. Juli 2023?", ["2023-07-10 to 2023-07-16"]),
        # parts of a month
        ("What did Ann do in the last few days of July 2023?", ["2023-07-27 to 2023-07-31"]),
        ("What did Ann do in the first few days of July 2023?", ["2023-07-01 to 2023-07-05"]),
        ("What did Ann do in the final week of July 2023?", ["2023-07-25 to 2023-07-31"]),
        ("Was machte Ann in der ersten Woche im Juli 2023?", ["2023-07-01 to 2023-07-07"]),
        ("Qu'a fait Ann à la fin du mois d'août 2023 ?", ["2023-08-25 to 2023-08-31"]),
        # a range that ends before it begins is two times
        ("What did Ann do from 5 June 2023 to 3 June 2023?", ["2023-06-05", "2023-06-03"]),
        # the next weekend of a holiday, not that of the year
        ("Ann and next Labor Day weekend", ["2024-08-31 to 2024-09-02"]),
        # figures whose order leaves no doubt
        ("Que contient le rapport du 12/3 ?", ["2023-03-12"]),
        ("¿Qué contiene el informe del 25/3?", ["2023-03-25"]),
        # a weekday of a month is no weekday of this week
        ("What did Ann do on Sunday of May?", ["2023-05-01 to 2023-05-31"]),
        # a date that the question gives as its own now
        ("What did Ann do last Friday, as of 9 June 2023?", ["2023-06-02", "2023-06-09"]),
        ("What did Ann do yesterday, as mentioned on 9 June 2023?", ["2023-06-08", "2023-06-09"]),
        ("As of June 9, 2023, what did Ann do two weeks ago?", ["2023-06-09", "2023-05-22 to 2023-05-28"]),
        ("What does Ann say about last week on 9 June 2023?", ["2023-10-09 to 2023-10-15", "2023-06-09"]),
    ],
)
def test_forms_of_questions(question, meanings):
    assert [period.meaning for period in read_question(question, SUNDAY)] == meanings


@pytest.mark.parametrize(
    "question",
    [
        "How do I start the '22 engine?",
        "Who sang '10 things I hate about you'?",
        "Did Ann end up in Augusta?",
        "As of now, who leads?",
        "Plot of September",
    ],
)
def test_what_is_no_time(question):
    assert not read_question(question, SUNDAY)


def test_a_plan_of_the_past_in_a_text_is_of_the_past():
    (period,) = read_text("I was planning a party in June.", SUNDAY)
    assert period.meaning == "2023-06-01 to 2023-06-30"


@pytest.mark.parametrize(
    ("question", "relative"),
    [
        ("What did we do last week?", True),
        ("What did we do three days ago?", True),
        ("What did we do on Monday?", True),
        ("What did we do over the weekend?", True),
        ("Was haben wir vor zwei Wochen gemacht?", True),
        ("安上周做了什么", True),
        ("What did we do in July?", False),
        ("What did we do on Friday, 13 October?", False),
        ("What did we do in the last week of May 2023?", False),
        ("What did we do on 2023-07-10?", False),
        ("What did we do at Christmas?", False),
        ("What did we do last week, as of 9 June 2023?", False),
        ("安在七月做了什么", False),
    ],
)
def test_times_that_depend_on_now_are_marked(question, relative):
    assert {period.relative for period in read_question(question, SUNDAY)} == {relative}


def test_a_time_that_depends_on_now_counts_less():
    (week,) = read_question("What did we do last week?", SUNDAY)
    times = np.array([week.start.timestamp(), *[0.0] * 20])
    same = time_scores([replace(week, relative=False)], times)
    assert time_scores([week], times) == pytest.approx(same * TimePrior().relative)


@pytest.mark.parametrize(
    "head",
    [
        "1:56 pm on 8 May, 2023",
        "1:56 pm, 8 May 2023",
        "8 May, 2023, 1:56 pm",
        "May 8th 2023 at 1:56 PM",
        "2023/05/08 (Mon) 13:56",
        "2023-05-08 13:56:00",
        "08.05.2023, 13:56 Uhr",
        "8 mai 2023, 13h56",
        "8 de mayo de 2023, 13:56",
        "Monday, 8 May 2023, 13:56",
    ],
)
def test_heads_of_sessions_are_times(head):
    assert read_text(head, SUNDAY)[0].start.isoformat() == "2023-05-08T13:56:00+00:00"


def test_an_explicit_year_is_that_year_and_now_decides_one_that_is_left_out():
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(dim=16)
    said = [datetime(2022, 11, 1 + at) if at < 4 else datetime(2023, 1 + at % 8, at) for at in range(28)]
    index.add(random.standard_normal((28, 16)), texts=[f"talk number {at}" for at in range(28)], timestamps=said)

    def times(question, now):
        hits = index.recall(random.standard_normal(16), text=question, k=28, now=now, explain=True)
        return {one.meaning for hit in hits for one in hit.times if one.source == "question"}

    march_2024 = datetime(2024, 3, 3)
    for question in (
        "What did we do in November 2023?",
        "What did we do on 8 November 2024?",
        "What did we do in 2024?",
    ):
        assert not times(question, march_2024)  # no memory is of that time, whichever year comes near it
        assert not times(question, datetime(2023, 8, 20))
    assert not times("What did we do in November?", march_2024)  # of 2023
    assert times("What did we do in November?", datetime(2023, 10, 3)) == {"2022-11-01 to 2022-11-30"}
    assert times("What did we do in November 2022?", march_2024) == {"2022-11-01 to 2022-11-30"}
    assert not index.recall(when="November 2023", now=march_2024).ids


def test_few_memories_of_a_time_are_compared_as_by_a_look_up(monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((400, 8)).astype(np.float32)
    index = PredictiveAssociativeIndex(dim=8)
    days = [datetime(2023, 1, 1) + timedelta(days=at // 4) for at in range(400)]
    index.add(vectors, texts=[f"note {at % 7} of the day" for at in range(400)], timestamps=days)
    question = {"text": "which note did I write in February?", "now": datetime(2023, 6, 1), "k": 20}
    directly = index.recall(vectors[0], **question)
    monkeypatch.setattr(hybrid, "FEW_THEN", 0)
    assert [(hit.id, hit.score) for hit in index.recall(vectors[0], **question)] == [
        (hit.id, hit.score) for hit in directly
    ]
