"""The metrics of ``evaluate`` equal the results of plain loops."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.errors import InvalidInput
from pam_retriever.evaluation import evaluate, evaluate_rankings, interval

RANKED = st.lists(st.integers(0, 30), unique=True, max_size=25)
RIGHT = st.sets(st.integers(0, 30), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(st.tuples(RANKED, RIGHT), min_size=1, max_size=5), st.integers(1, 20))
def test_metrics_are_those_of_explicit_loops(rows, k):
    found = evaluate_rankings([ranked for ranked, _ in rows], [right for _, right in rows], ks=(k,))
    for at, (ranked, right) in enumerate(rows):
        hits, gain, first = 0, 0.0, 0.0
        for position, id in enumerate(ranked[:k], start=1):
            if id in right:
                hits += 1
                gain += 1 / math.log2(position + 1)
                first = first or 1 / position
        ideal = sum(1 / math.log2(position + 1) for position in range(1, min(k, len(right)) + 1))
        assert found.per_question[f"recall@{k}"][at] == pytest.approx(hits / min(k, len(right)))
        assert found.per_question[f"mrr@{k}"][at] == pytest.approx(first)
        assert found.per_question[f"ndcg@{k}"][at] == pytest.approx(gain / ideal)


def test_the_interval_holds_the_mean_and_narrows_with_more_questions():
    random = np.random.default_rng(0)
    few, many = interval(random.random(30)), interval(random.random(3000))
    assert few.low < few.mean < few.high
    assert many.high - many.low < (few.high - few.low) / 3
    assert interval(np.ones(5)).low == interval(np.ones(5)).high == 1


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(1).random(50)
    assert interval(values, seed=3) == interval(values, seed=3)
    assert interval(values, seed=3) != interval(values, seed=4)


@dataclass(frozen=True)
class Hit:
    id: str


class FixedRetriever:
    """A retriever that returns its ids in order, for any query."""

    def recall(self, query, k):
        return [Hit(id) for id in "abcdef"[:k]]


def test_an_index_is_asked_every_question():
    found = evaluate(FixedRetriever(), ["x", np.zeros(3)], [{"b"}, {"f", "z"}], ks=(2, 6))
    assert found["recall@2"].mean == pytest.approx(0.5)
    assert found["recall@6"].mean == pytest.approx(0.75)
    assert found["mrr@2"].mean == pytest.approx(0.25)
    assert found.questions == 2
    assert "recall@2" in repr(found)
    assert json.loads(json.dumps(found.to_dict()))["metrics"]["recall@2"]["mean"] == pytest.approx(0.5)


def test_one_can_ask_in_another_way():
    found = evaluate(FixedRetriever(), ["x"], [{"f"}], ks=(1,), recall=lambda query, k: [Hit("f")])
    assert found["recall@1"].mean == 1


@pytest.mark.parametrize(
    ("ranked", "relevant", "ks", "says"),
    [
        ([["a"]], [], (5,), "1 question and 0"),
        ([], [], (5,), "at least one"),
        ([["a"]], [set()], (5,), "Question 0"),
        ([["a"]], ["a"], (5,), "has 'a' as relevant"),
        ([["a"]], [{"a"}], (0,), r"ks=0"),
        ([["a"]], [{"a"}], (), r"no ks"),
        ([["a", "a"]], [{"a"}], (5,), "twice"),
    ],
)
def test_bad_input_is_refused(ranked, relevant, ks, says):
    with pytest.raises(InvalidInput, match=says):
        evaluate_rankings(ranked, relevant, ks=ks)


@pytest.mark.parametrize("answer", [None, ["b"], [[Hit("b")]], [{"id": "b"}], [Hit(None)], [Hit(["b"])], 3])
def test_an_answer_that_is_no_list_of_hits_is_named(answer):
    with pytest.raises(InvalidInput, match=r"The answer to question 1 is .* list of hits"):
        evaluate(None, ["x", "y"], [["b"], ["b"]], recall=lambda query, k: answer if query == "y" else iter([Hit("b")]))


def test_a_question_that_is_a_batch_is_named():
    index = PredictiveAssociativeIndex(dim=4)
    index.add(np.eye(4), ids=list("abcd"))
    index.observe(["a", "b", "c"])
    with pytest.raises(InvalidInput, match="one query per question"):
        evaluate(index, [["a", "b"]], [["c"]])


def test_numbers_are_no_ids_of_hits_that_are_strings():
    with pytest.raises(InvalidInput, match=r"Question 1 has the relevant id 3 \(int\).*str\(id\)"):
        evaluate(FixedRetriever(), ["x", "y"], [["a"], [3]])
    assert evaluate(None, ["x"], [[3]], ks=[1], recall=lambda query, k: [Hit(3)])["recall@1"].mean == 1


def test_relevant_ids_that_the_index_does_not_have_are_named_in_a_warning():
    index = PredictiveAssociativeIndex(dim=4)
    index.add(np.eye(4), ids=list("abcd"))
    questions = np.eye(4)[:2] + 0.1  # a vector of a stored memory would not find this memory
    for recall in (None, lambda query, k: index.search(query, k=k)):
        with pytest.warns(UserWarning, match=r"2 relevant ids that the index does not have: \['x', 'y'\]") as caught:
            found = evaluate(index, questions, [["a", "x"], ["b", "x", "y"]], ks=[4], recall=recall)
        assert caught[0].filename == __file__  # of the call
        assert found.per_question["recall@4"].tolist() == pytest.approx([1 / 2, 1 / 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(index, questions, [["a"], ["b", "d"]], ks=[1])
        evaluate(index, ["a"], [["x"]], ks=[1], recall=lambda query, k: [Hit("x")])  # of another index


def test_a_depth_beyond_all_hits_takes_no_memory():
    found = evaluate(FixedRetriever(), ["x"], [{"f", "z"}], ks=(6, 10**15))
    for metric in ("recall", "mrr", "ndcg"):
        assert found[f"{metric}@{10**15}"] == found[f"{metric}@6"]
    assert evaluate_rankings([[], []], [["a"], ["b"]], ks=[10**15])[f"ndcg@{10**15}"].mean == 0


def test_an_unknown_metric_names_those_that_there_are():
    with pytest.raises(InvalidInput, match="recall@5"):
        evaluate_rankings([["a"]], [{"a"}])["recall@7"]


def test_questions_answers_and_depths_may_come_from_generators():
    index = PredictiveAssociativeIndex(dim=4)
    index.add(np.eye(4), ids=list("abcd"))
    index.observe(["a", "b", "c"])
    lists = evaluate(index, ["a", "b"], [["b"], ["c"]], ks=[1, 2])
    lazy = evaluate(index, (id for id in "ab"), ([id] for id in "bc"), ks=(k for k in (1, 2)))
    assert lazy.metrics == lists.metrics
    rankings = evaluate_rankings((row for row in ["ba", "cb"]), ([id] for id in "bc"), ks=(k for k in (1, 2)))
    assert rankings.metrics["recall@1"].mean == 1
