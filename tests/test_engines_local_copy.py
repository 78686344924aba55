"""Feedback, times and mentions in an engine are the same for every process, whichever of them writes."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone

import numpy as np
import psycopg
import pytest
from engine_servers import ENGINES, fresh_engine, postgres
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import MilvusBackend, PgVectorBackend, PredictiveAssociativeIndex, Trajectory
from pam_retriever.engines.local_copy import KINDS
from pam_retriever.store.folder.repair import check

DIM = 4
DAYS = [datetime(2023, 1, 1, tzinfo=timezone.utc) + timedelta(days=n) for n in range(400)]
NAMES = ["Red Sea", "Oslo", "Blue Sea", "Rome"]
WORKS = ["add", "add", "replace", "feedback", "feedback", "again", "unlearn", "delete", "observe", "append", "forget"]


def vector(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


def fill(index: PredictiveAssociativeIndex) -> None:
    """Adds texts without names, so that names are rare."""
    index.add([vector(n) for n in range(8)], [f"z{n}" for n in range(8)], [f"nothing of note {n}" for n in range(8)])


def change(index: PredictiveAssociativeIndex, step: int, work: str, at: int) -> None:
    """Makes one change, which is the same in all indexes with equal contents."""
    ids = sorted(record.id for record in index.find())
    one, seed = ids[at % len(ids)] if ids else "", 100 * step + at
    text, day = f"{NAMES[at % 4]} and {NAMES[(at + 1) % 4]} {step}", DAYS[seed % 400]
    metadata = {"title": NAMES[step % 4], "n": at}
    if work == "add":
        index.add([vector(seed)] * 2, [f"a{at}", f"b{step}"], [text, None], [metadata, {}], timestamps=[day, None])
    elif work == "feedback":
        used = [one] if at % 2 else ids[:2]
        unused = [id for id in ids[-1:] if at % 3 and id not in used]
        index.feedback(vector(seed), used, unused=unused, text=text, id=f"f{step}")
    elif work == "again":
        index.feedback(vector(seed), {one: 1 + at}, metadata=metadata, timestamp=float(at), id="again")
    elif work == "unlearn":
        index.delete_feedback(where={} if at == 9 else {"n": {"$gte": 5}})
    elif work == "replace":
        index.add(vector(seed)[None], [one], [text], [metadata if at % 2 else {}])
    elif work == "delete":
        index.delete(one)
    elif work == "observe":
        index.observe(Trajectory(ids=[*ids[:2], one], timestamps=[day, day, DAYS[-1]], id=f"t{at}"))
    elif work == "append":
        index.append("session", vector(seed), text=text, id=f"s{step}", metadata=metadata, timestamp=DAYS[step])
    else:
        index.prune(keep=max(2, len(ids) - 1))


def stored_state(index: PredictiveAssociativeIndex) -> dict[str, object]:
    """Returns all requests, times and names of an index, without its internal numbers."""
    database = index._store.database
    with index._lock.shared():
        ids = {row: id for row, (id, *_) in database.memories.contents(database.memories.rows()).items()}
        fetch = database.mentions.store._sql.fetch
        names = dict(fetch("SELECT number, phrase FROM names"))
        called = [(ids[row], str(names.get(n, n)), s) for row, n, s in fetch("SELECT row, number, short FROM called")]
        mentions = fetch("SELECT row, number, start, length FROM mentions")
        return {
            "feedback": [(one, one.vector.tolist()) for one in database.feedback.find({}, None)],
            "uses": sorted((ids[row], weight) for row, weight in fetch("SELECT row, weight FROM uses")),
            "times": sorted((record.id, str(record.time)) for record in database.memories.find({}, None)),
            "handed": sorted((ids[row], handed) for row, handed in fetch("SELECT row, handed FROM times")),
            "called": sorted(called),
            "mentions": sorted((ids[row], str(names.get(n, n)), at, length) for row, n, at, length in mentions),
            "names": sorted(names.values()),
            "begun": {words for (words,) in fetch("SELECT words FROM beginnings")}
            >= {n.split()[0] for n in names.values()},
        }


def answers(index: PredictiveAssociativeIndex) -> list[object]:
    asked = {"text": "what of the Red Sea in March 2023?", "k": 99, "now": DAYS[-1], "explain": True}
    timed = index.time_counts() is not None
    found = [index.recall(vector(1), **asked), index.recall(vector(1), 99, when="2023" if timed else None)]
    stored = sorted(record.id for record in index.find())
    found += [index.recall(one, 99, explain=True) for one in stored[:2]]
    hits = [
        {hit.id: (round(hit.score, 3), hit.mentions and sorted(map(str, hit.mentions)), hit.times) for hit in hits}
        for hits in found
    ]
    return [*hits, timed and index.recall(when=(DAYS[0], None), k=None).ids]


@pytest.mark.parametrize("kind", ENGINES)
def test_all_processes_answer_like_an_index_in_memory(kind):
    compare_after_each_change(kind, [(work, at % 10, at % 2 == 1) for at, work in enumerate(WORKS)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WORKS), st.integers(0, 9), st.booleans()), min_size=4, max_size=14))
def test_all_processes_answer_alike_after_any_changes(kind, works):
    compare_after_each_change(kind, works)


def compare_after_each_change(kind: str, works: list[tuple[str, int, bool]]) -> None:
    """Compares two indexes of one engine with one in memory after each change; either of the two may make it."""
    engine, plain = fresh_engine(kind), PredictiveAssociativeIndex(DIM)
    with (
        PredictiveAssociativeIndex(DIM, backend=engine) as one,
        PredictiveAssociativeIndex(backend=engine) as other,
    ):
        fill(one)
        fill(plain)
        for step, (work, at, by_other) in enumerate([("add", 3, False), *works]):
            change(plain, step, work, at)
            change(other if by_other else one, step, work, at)
            assert stored_state(one) == stored_state(other) == stored_state(plain)
            if step % 4 == 3:
                assert answers(one) == answers(other) == answers(plain)
        with PredictiveAssociativeIndex(backend=engine) as late:
            assert stored_state(late) == stored_state(plain)
            assert answers(late) == answers(plain)


WRITER = """
import sys, numpy as np
from datetime import datetime, timezone
from pam_retriever import PgVectorBackend, PredictiveAssociativeIndex
with PredictiveAssociativeIndex(backend=PgVectorBackend(sys.argv[1], schema=sys.argv[2])) as index:
    index.add(np.eye(4)[:1], ["told"], ["I met Oslo Smith"], timestamps=[datetime(2023, 3, 1)])
    index.feedback(np.eye(4)[1], ["oslo", "told"], text="who?", id="asked")
    index.delete_feedback("first")
    index.delete("gone")
"""


def test_what_another_process_wrote_is_in_the_next_answer():
    engine = fresh_engine("pgvector")
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        fill(index)
        index.add(np.eye(4)[2:], ["oslo", "gone"], ["a name", "x"], [{"title": "Oslo Smith"}, {}])
        index.feedback(np.eye(4)[0], ["gone"], id="second")
        index.feedback(np.eye(4)[0], ["oslo"], id="first")
        arguments = [sys.executable, "-W", "ignore", "-c", WRITER, postgres().get_uri(), engine.schema]
        subprocess.run(arguments, check=True, timeout=120)
        (left,) = index.feedbacks()
        assert (left.id, left.used) == ("asked", {"oslo": 1.0, "told": 1.0})
        assert index.recall(when="March 2023").ids == ["told"]
        found = index.recall(np.eye(4)[0], text="Oslo Smith", mode="hybrid", explain=True)
        assert [str(one) for one in found[found.ids.index("oslo")].mentions][-1] == '"told" names "Oslo Smith"'
        index.feedback(np.eye(4)[0], ["oslo"], id="later")
        assert [one.id for one in index.feedbacks()] == ["asked", "later"]


@pytest.mark.parametrize("kind", ENGINES)
def test_request_numbers_are_never_reused(kind):
    engine, request = fresh_engine(kind), np.array([0.2, 0, 0, 1.0])  # no stored memory, which would be left out
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        index.add(np.eye(4), list("abcd"))
        index.feedback(np.eye(4)[:2], [["a"], ["b"]], id=["1", "2"])
        index.delete_feedback("2")
        before = index._store.database.feedback.state()
        with PredictiveAssociativeIndex(backend=engine) as other:
            other.feedback(request, ["d"], id="3")
        assert index.recall(request, 1).ids == ["d"]
        assert index._store.database.feedback.state() == (before[0] + 1, 3)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_call_that_fails_leaves_all_processes_alike(kind, monkeypatch):
    engine = fresh_engine(kind)
    one, other = (PredictiveAssociativeIndex(DIM, backend=engine) for _ in range(2))
    for step in range(4):
        change(one, step, "add", step)
    change(other, 5, "feedback", 2)
    with monkeypatch.context() as patch:
        patch.setattr(other._store, "reserve_disk", lambda *_: 1 / 0)
        patch.setattr("pam_retriever.store.learnt.mark_forgotten_rows", lambda *_: 1 / 0)
        for work in ("replace", "delete"):
            before = stored_state(one)
            with pytest.raises(ZeroDivisionError):
                change(other, 6, work, 1)
            assert kind == "milvus" or stored_state(other) == before
        stored = other._store.database.local_copy._documents.put
        patch.setattr(other._store.database.local_copy._documents, "put", lambda documents: [stored(documents), 1 / 0])
        with pytest.raises(ZeroDivisionError):
            change(other, 6, "feedback", 3)
    change(one, 7, "feedback", 1)
    with PredictiveAssociativeIndex(backend=engine) as late:
        assert stored_state(one) == stored_state(other) == stored_state(late)
        assert ("f6" in str(stored_state(late))) == (
            kind == "milvus"
        )  # Milvus has no rollback: the failed call stays stored
    one.close()
    other.close()


@pytest.mark.parametrize("kind", ENGINES)
def test_a_copy_in_a_folder_has_all_of_it(kind, tmp_path):
    with PredictiveAssociativeIndex(DIM, backend=fresh_engine(kind)) as index:
        for step, work in enumerate(
            ["add", "add", "append", "feedback", "again", "observe", "feedback", "unlearn"] * 2
        ):
            change(index, step, work, step)
        index.save(tmp_path / "copy")
        expected = stored_state(index)
        assert all(expected.values())
    with PredictiveAssociativeIndex.open(tmp_path / "copy") as copy:
        assert stored_state(copy) == expected
        change(copy, 99, "feedback", 3)
    assert check(tmp_path / "copy") == []


@pytest.mark.parametrize("kind", ENGINES)
def test_an_index_that_an_older_version_made_goes_on(kind):
    engine = fresh_engine(kind)
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        fill(index)
        for step in range(4):
            change(index, step, "add", step)
        expected = stored_state(index)
    _make_older(engine)
    with PredictiveAssociativeIndex(backend=engine) as index, PredictiveAssociativeIndex(backend=engine) as other:
        assert index.feedbacks() == []
        assert any(hit.mentions for hit in other.recall(vector(1), text="Oslo", explain=True))
        assert stored_state(index)["mentions"] == expected["mentions"] != []
        index.feedback(vector(1), ["a1"])
        assert other.feedbacks()[0].used == {"a1": 1.0}


def _make_older(engine: PgVectorBackend | MilvusBackend) -> None:
    """Removes the data that format 1 does not have."""
    if isinstance(engine, PgVectorBackend):
        with psycopg.connect(postgres().get_uri(), autocommit=True) as connection:
            connection.execute(f"DROP TABLE {engine.schema}.kept")
            connection.execute(f"UPDATE {engine.schema}.state SET format = 1")
        return
    store = engine.open_store(None)
    store.database.calls.connection.drop("pam_kept")
    store.database.settings.write("$index", f"1 {DIM}")
    store.close()


def test_a_long_request_that_becomes_short_leaves_no_part_behind():
    engine = fresh_engine("milvus")
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        index.add(np.eye(4), list("abcd"))
        long = " ".join(str(n) for n in range(60_000)) + " é"
        for text in (long, "short", long):
            index.feedback(np.eye(4)[0], ["a"], text=text, id="f")
            with PredictiveAssociativeIndex(backend=engine) as other:
                assert other.feedbacks()[0].text == text
        index.delete("a")
        connection = index._store.database.calls.connection
        left = connection.query("pam_kept", "key >= 0", ["value", "name"])
        assert not [one for one in left if "123 124" in one["value"] or len(one["value"]) > 1000]


def test_a_copy_holds_all_stored_documents():
    """An engine stores every table that a folder stores, so that a copy loses no data."""
    kept = {table for tables in KINDS.values() for table in tables}
    with PredictiveAssociativeIndex(DIM, backend=fresh_engine("milvus")) as index:
        fetch = index._store.database.local_copy._sql.fetch
        tables = {name for (name,) in fetch("SELECT name FROM sqlite_master WHERE type = 'table'")}
    in_tables_of_their_own = {"vectors", "trajectories", "steps", "observations", "weights", "beginnings"}
    assert {name for name in tables if not name.startswith(("words", "sqlite_"))} - kept == in_tables_of_their_own


@pytest.mark.parametrize("kind", ENGINES)
def test_a_copy_holds_the_weights_and_uses_no_number_again(kind, tmp_path):
    with PredictiveAssociativeIndex(DIM, backend=fresh_engine(kind)) as index:
        fill(index)
        for session in ("s1", "s2"):
            index.observe(Trajectory(ids=["z1", "z2"], id=session))
        index.fit(config="fast", time_budget=0.2, progress=False)
        index.delete_trajectory("s2")
        index.delete("z7")
        index._store.set_setting("learnt_requests", {}, b"regression")
        learnt, row = index._store.last_trained, index._store.database.memories.last_row
        index.save(tmp_path / "copy")
    with PredictiveAssociativeIndex.open(tmp_path / "copy") as copy:
        assert copy._store.database.settings.weights("learnt_requests") == b"regression"
        copy.observe(Trajectory(ids=["z3", "z4"], id="s3"))
        assert copy._store.database.trajectories.last_number() > learnt  # else ``fit`` would take it for learnt
        copy.add(vector(9)[None], ["z9"])
        assert copy._store.database.memories.last_row > row


@pytest.mark.parametrize("kind", ["exact", *ENGINES])
def test_only_the_first_passage_of_a_file_names_it(kind):
    """The openings of first passages are names; those of all passages are too few."""
    first, later = "{0} is a city in the north.", "It has a harbour, and {0} more of these."
    places = ["Oslo", "Bergen", "Trondheim", "Stavanger", "Tromso", "Drammen", "Molde", "Narvik"]
    texts = [(later if at else first).format(at or place) for place in places for at in range(6)]
    metadatas = [{"source": f"{place}.md"} for place in places for _ in range(6)]
    with PredictiveAssociativeIndex(DIM, backend=kind if kind == "exact" else fresh_engine(kind)) as index:
        ids = [f"p{n}" for n in range(len(texts))]
        index.add([vector(n) for n in range(len(texts))], ids, texts, metadatas)
        assert index._store.database.mentions.openings


@pytest.mark.parametrize("kind", ["exact", *ENGINES])
def test_a_memory_with_several_names_in_one_text_can_be_deleted(kind):
    """The text is searched again once, not once for each name that is gone."""
    texts = ["a bridge", "Ironbridge is near Telford and Oslo.", "a city"]
    metadatas = [{"title": "Ironbridge", "aliases": ["Telford"]}, {}, {"title": "Oslo"}]
    with PredictiveAssociativeIndex(DIM, backend=kind if kind == "exact" else fresh_engine(kind)) as index:
        fill(index)
        index.add([vector(10 + n) for n in range(3)], ["bridge", "text", "city"], texts, metadatas)
        index.delete("bridge")
        (hit,) = (hit for hit in index.recall("text", explain=True) if hit.mentions)
        assert [str(one) for one in hit.mentions] == ['"text" names "Oslo"']
