"""Columns of pandas and arrays of NumPy are accepted wherever lists are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pam_retriever import InvalidInput, PAMError, PredictiveAssociativeIndex, Trajectory

TICKETS = pd.DataFrame(
    {
        "id": list("abcd"),
        "customer": [17, 17, 18, 18],
        "text": ["The printer is jammed.", "A part is ordered.", "No login.", "The password is new."],
        "opened": pd.to_datetime(["2026-01-03", "2026-01-04", "2026-02-04", "2026-02-05"]),
        "vector": [[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    }
)
KINDS = [
    lambda column: column,
    lambda column: column.to_numpy(),
    lambda column: pd.Index(column),
    lambda column: column.astype("category"),
    lambda column: column.astype(object).set_axis(range(7, 7 + len(column))),
]


def embed(texts: list[str]) -> np.ndarray:
    assert all(isinstance(text, str) for text in texts)
    known = TICKETS.text.tolist()
    return np.array([np.eye(4)[known.index(text)] if text in known else np.ones(4) for text in texts])


@pytest.fixture
def index():
    index = PredictiveAssociativeIndex(embedder=embed)
    metadatas = TICKETS[["customer"]].to_dict("records")
    index.add(ids=TICKETS.id, texts=TICKETS.text, timestamps=TICKETS.opened, metadatas=metadatas)
    index.observe_many([["a", "b"], ["c", "d"]])
    return index


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_ids_and_texts_are_queries(index, kind):
    ids, texts = TICKETS.id, TICKETS.text
    for column, values in ((ids, ids.tolist()), (ids[1:2], ids.tolist()[1:2])):
        assert index.recall(kind(column)) == index.recall(values)
        assert index.recall_many(kind(column), k=2) == index.recall_many(values, k=2)
        assert index.search(kind(column)) == index.search(values)
        assert index.recall_next(kind(column)) == index.recall_next(values)
    assert index.recall_many(texts=kind(texts)) == index.recall_many(texts=texts.tolist())
    assert index.recall(text=kind(texts)) == index.recall(text=texts.tolist())


def test_a_column_of_lists_of_numbers_is_a_batch_of_vectors(index):
    rows = TICKETS.vector.tolist()
    for column in (TICKETS.vector, TICKETS.vector.to_numpy(), TICKETS.vector.map(np.array)):
        assert index.search(column) == index.search(rows)
        assert index.recall_many(column) == index.recall_many(rows)
        assert index.add(column, TICKETS.id) == list("abcd")
        np.testing.assert_array_equal([record.vector for record in index.get(TICKETS.id)], np.eye(4))
    with pytest.raises(InvalidInput, match="same length"):
        index.add(pd.Series([[1.0, 0, 0, 0], [1.0, 0]]), ["x", "y"])
    assert "x" not in index


def test_trajectories_of_a_table_are_observed(index):
    groups = TICKETS.groupby("customer").id
    expected = [["a", "b"], ["c", "d"]]
    assert index.observe_many(groups.apply(list)) == expected
    assert index.observe_many(ids for _, ids in groups) == expected
    assert index.observe_many(pd.Series([Trajectory(ids=ids) for _, ids in groups])) == expected
    assert index.observe_many(TICKETS.id.to_numpy().reshape(2, 2)) == expected
    assert index.observe_many(groups.apply(list)[:0]) == []
    assert len(index.trajectories()) == 2 * 5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (TICKETS, "groupby"),
        (TICKETS[["id"]], "groupby"),
        (TICKETS.id, "Wrap the ids"),
        (np.eye(4), "Wrap it"),
        ({"a": ["a", "b"]}, "lists of ids"),
        (5, "lists of ids"),
        ("ab", "Wrap it"),
    ],
)
def test_what_is_no_list_of_trajectories_is_refused(index, wrong, said):
    for call in (index.observe_many, lambda wrong: index.fit(wrong, progress=False)):
        with pytest.raises(InvalidInput, match=said):
            call(wrong)
    assert len(index.trajectories()) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_feedback_of_a_table(index, kind):
    requests, when = TICKETS.text[:2], TICKETS.opened[:2]
    used, unused = pd.Series([["a"], ["c", "d"]]), pd.Series([["b"], []])
    for given in ({"query": kind(requests)}, {"text": kind(requests)}):
        ids = index.feedback(used=used, unused=unused, timestamp=when, id=kind(TICKETS.id[:2]), **given)
        assert ids == ["a", "b"]
        stored = index.feedbacks()
        assert [one.text for one in stored] == requests.tolist()
        assert [dict(one.used) for one in stored] == [{"a": 1.0, "b": -1.0}, {"c": 1.0, "d": 1.0}]
    assert index.feedback(text="No login.", used=kind(TICKETS.id[2:])) not in ("a", "b")
    for wrong in ({"used": used[:1]}, {"used": kind(TICKETS.id)}, {"used": used, "metadata": TICKETS[:2]}):
        with pytest.raises(PAMError):
            index.feedback(requests, **wrong)
    assert len(index.feedbacks()) == 3


def test_a_column_is_a_list_of_values_in_a_filter(index):
    for values in (TICKETS.customer[:2], TICKETS.customer.to_numpy()[:2], pd.Index([17])):
        assert [record.id for record in index.find({"customer": {"$in": values}})] == ["a", "b"]
        assert [record.id for record in index.find({"customer": {"$nin": values}})] == ["c", "d"]
    with pytest.raises(InvalidInput, match="list of values"):
        index.find({"customer": {"$in": np.eye(2)}})
