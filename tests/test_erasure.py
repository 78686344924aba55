"""Erasure: deleted data are in no file after ``close``, and in no file directly after ``erase``."""

from __future__ import annotations

import random
import sqlite3
import string
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg
import pytest
from conftest import QUICK
from engine_servers import ENGINES, fresh_engine, postgres

from pam_retriever import ErasureReport, InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite import connection, words
from pam_retriever.store.view import frozen

DIM = 32


def word(seed: int) -> str:
    """Returns a word that differs from all others in its first letter: FTS5 stores only differences between words."""
    return "".join(random.Random(seed).choices(string.ascii_lowercase, k=14))


@dataclass
class Traces:
    """The bytes that a deleted memory could leave in files."""

    ids: dict[str, list[bytes]] = field(default_factory=dict)

    def note(self, id: str, vector: np.ndarray, *texts: str) -> None:
        unit = vector / np.linalg.norm(vector)
        vectors = [vector.astype("<f4").tobytes(), unit.astype("<f4").tobytes()[:64]]
        self.ids.setdefault(id, []).extend([id.encode(), *(text.encode() for text in texts), *vectors])

    def found(self, folder, ids) -> set[tuple[str, str, bytes]]:
        files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return {
            (name, id, trace[:20])
            for name, content in files.items()
            for id in ids
            for trace in self.ids[id]
            if trace in content
        }


def fill(index: PredictiveAssociativeIndex, traces: Traces, first: int, count: int, fits: bool = False) -> None:
    """Adds memories in sessions of five, each named by an address; one request for each."""
    rng = np.random.default_rng(first)
    for start in range(first, first + count, 5):
        numbers = range(start, start + 5)
        ids = [f"id-{word(number)}" for number in numbers]
        vectors = rng.standard_normal((5, DIM)).astype(np.float32)
        texts = [f"the secret {word(10_000 + n)} " + "and common words " * (n % 7) for n in numbers]
        mails = [f"{word(20_000 + n)}@example.org" for n in numbers]
        index.add(vectors, ids, texts, [{"mail": mail, "start": start} for mail in mails])
        session = f"session {word(30_000 + start)}"
        index.observe(Trajectory(ids, id=session))
        requests = rng.standard_normal((5, DIM)).astype(np.float32)
        asked = [f"request {word(40_000 + n)}" for n in numbers]
        index.feedback(requests, [[id] for id in ids], text=asked)
        for id, vector, n, mail, request, said in zip(ids, vectors, numbers, mails, requests, asked, strict=True):
            traces.note(id, vector, word(10_000 + n), mail, said, session)
            traces.ids[id].append(request.astype("<f4").tobytes())
    if fits:
        index.fit(window=2, config=QUICK, progress=False)


def ids_of(first: int, count: int) -> list[str]:
    return [f"id-{word(number)}" for number in range(first, first + count)]


GONE = [*ids_of(20, 15), *ids_of(60, 10)]  # whole sessions, so that their names are deleted, too


@pytest.fixture(params=["flat", "fitted", "without secure_delete"])
def stored(request, tmp_path, monkeypatch):
    """Returns an index in a folder, and the bytes of its memories."""
    path, traces = tmp_path / "index", Traces()
    if request.param == "without secure_delete":
        connect = sqlite3.connect

        def as_other_builds_do(*arguments, **options):
            made = connect(*arguments, **options)
            made.execute("PRAGMA secure_delete = OFF")
            return made

        monkeypatch.setattr(sqlite3, "connect", as_other_builds_do)
    index = PredictiveAssociativeIndex.open(path, dim=DIM)
    fill(index, traces, 0, 100, fits=request.param == "fitted")
    return index, path, traces


def test_every_trace_is_one(stored):
    """Control: before a deletion the files contain the bytes that the other tests search for."""
    index, path, traces = stored
    index.close()
    found = {(id, trace) for _, id, trace in traces.found(path, GONE)}
    assert {id for id, _ in found} == set(GONE)
    assert len(found) >= 7 * len(GONE)


def test_delete_leaves_no_byte_after_close(stored):
    index, path, traces = stored
    assert index.delete(GONE) == len(GONE)
    kept = [hit.id for hit in index.search(np.ones(DIM), k=100)]
    index.close()
    assert traces.found(path, GONE) == set()
    with PredictiveAssociativeIndex.open(path) as again:
        assert [hit.id for hit in again.search(np.ones(DIM), k=100)] == kept
        assert again.search(again.get(kept[:1])[0].vector, k=1)[0].id == kept[0]
        assert len(again.feedbacks()) == 75


def test_what_a_replacement_replaces_leaves_no_byte_either(stored):
    index, path, traces = stored
    old = {id: traces.ids.pop(id)[1:2] for id in GONE}  # the old texts
    index.add(np.ones((len(GONE), DIM)), GONE, ["something else"] * len(GONE))
    index.close()
    traces.ids = old
    assert traces.found(path, GONE) == set()


def test_erase_leaves_no_byte_at_once(stored, tmp_path):
    index, path, traces = stored
    index.delete(GONE[:3])
    report = index.erase(GONE)
    assert traces.found(path, GONE) == set()
    assert (report.memories, report.feedback) == (len(GONE) - 3, len(GONE) - 3)
    assert report.trajectories == 5
    assert report.learnt == index.is_fitted
    assert report.remaining == ()
    assert any(name.startswith("memories-") for name in report.overwritten)
    assert "weights" in repr(report) if index.is_fitted else "weights" not in repr(report)
    index.save(tmp_path / "copy")
    index.close()
    assert traces.found(tmp_path, GONE) == set()
    assert len(traces.found(tmp_path / "copy", ids_of(0, 20))) > 100


def test_a_copy_of_an_index_that_is_still_open_holds_nothing_of_what_was_deleted(stored, tmp_path):
    index, _, traces = stored
    index.delete(GONE)
    index.save(tmp_path / "copy")
    assert traces.found(tmp_path / "copy", GONE) == set()
    index.close()
    loaded = PredictiveAssociativeIndex.load(tmp_path / "copy")
    assert len(loaded) == 75
    named = loaded.recall(np.ones(DIM), k=75, mode="hybrid", text=word(10_003))
    assert [hit.id for hit in named if hit.lexical == 1] == ids_of(3, 1)
    loaded.delete(ids_of(0, 5))
    loaded.save(tmp_path / "second")
    assert traces.found(tmp_path / "second", [*GONE, *ids_of(0, 5)]) == set()


def test_a_process_that_dies_before_close_leaves_the_work_to_the_next(stored):
    index, path, traces = stored
    index.delete(GONE)
    home = index._store._writable_folder
    home.database.connection.close()  # simulates the end of a process
    home.lock.release()
    with PredictiveAssociativeIndex.open(path):
        pass
    assert traces.found(path, GONE) == set()


def test_erase_by_filter_in_a_folder_and_in_memory(tmp_path):
    for index in (PredictiveAssociativeIndex(DIM), PredictiveAssociativeIndex.open(tmp_path / "i", dim=DIM)):
        traces = Traces()
        fill(index, traces, 0, 20)
        report = index.erase(where={"start": {"$gte": 10}})
        assert (report.memories, report.trajectories, len(index)) == (10, 2, 10)
        assert index.erase("nobody").memories == 0
        assert index.erase(where={}).memories == 10
        assert isinstance(report, ErasureReport)
        with pytest.raises(InvalidInput, match="one of them"):
            index.erase()
        with pytest.raises(InvalidInput, match="one of them"):
            index.erase("a", where={})
        index.close()
    assert traces.found(tmp_path, ids_of(0, 20)) == set()


def test_a_session_keeps_its_name_as_long_as_it_has_a_step():
    index, traces = PredictiveAssociativeIndex(DIM), Traces()
    fill(index, traces, 0, 10)
    index.delete(ids_of(0, 4))
    assert index.recall(ids_of(5, 1)[0], k=3, mode="similarity")
    assert len(index._store.database.trajectories) == 2
    index.delete(ids_of(4, 1))
    assert len(index._store.database.trajectories) == 1


@pytest.mark.parametrize(
    "kind", ["ivf,sq8", *(pytest.param(one, marks=pytest.mark.slow) for one in ("ivf,pq", "hnsw,sq8", "flat,fp16"))]
)
def test_a_compressed_index_keeps_no_key_of_what_was_deleted(kind, tmp_path):
    pytest.importorskip("faiss")
    path, count = tmp_path / "index", 3000
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((count, DIM)).astype(np.float32)
    ids = [f"m{at}" for at in range(count)]
    index = PredictiveAssociativeIndex.open(path, dim=DIM, backend=f"faiss:{kind}")
    index.add(vectors, ids)
    index.close()
    units = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def leaks(positions) -> list[tuple[str, int]]:
        files = {path.name: path.read_bytes() for path in path.iterdir()}
        return [
            (name, at)
            for name, content in files.items()
            for at in positions
            if units[at, 1:9].tobytes() in content or vectors[at, 1:9].tobytes() in content
        ]

    assert leaks(range(20))  # control: before the deletion the bytes are there
    index = PredictiveAssociativeIndex.open(path)
    before = index.search(vectors[100:400], k=5)
    index.delete(ids[:20])
    index.close()
    assert leaks(range(20)) == []
    with PredictiveAssociativeIndex.open(path) as again:
        assert again.search(vectors[:50], k=1)[30][0].id == "m30"
        same = [set(a.ids) & set(b.ids) for a, b in zip(again.search(vectors[100:400], k=5), before, strict=True)]
        assert np.mean([len(one) for one in same]) > 4.8
        report = again.erase(ids[20:40])
        assert leaks(range(40)) == []
        assert any(name.startswith("keys-") for name in report.overwritten)
        again.add(vectors[:1], ["back"])
        assert again.search(vectors[0], k=1)[0].id == "back"
    assert leaks(range(20, 40)) == []
    with PredictiveAssociativeIndex.open(path) as again:
        assert again.search(vectors[0], k=1)[0].id == "back"
        assert again.search(vectors[1000:1050], k=1)[7][0].id == "m1007"


@pytest.mark.parametrize("kind", ENGINES)
def test_erasure_in_an_engine(kind):
    engine = fresh_engine(kind)
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        rng = np.random.default_rng(0)
        ids = [f"id-{word(number)}" for number in range(20)]
        texts = [f"the secret {word(10_000 + number)}" for number in range(20)]
        index.add(rng.standard_normal((20, DIM)), ids, texts, [{"half": number // 10} for number in range(20)])
        for start in range(0, 20, 5):
            index.observe(Trajectory(ids[start : start + 5], id=f"session {word(30_000 + start)}"))
        asked, names = [word(40_000 + number) for number in range(20)], [word(50_000 + number) for number in range(20)]
        for id, text, name in zip(ids, asked, names, strict=True):
            index.feedback(rng.standard_normal(DIM), [id], text=text, metadata={"who": text[::-1]}, id=f"of {text}")
            index.update(id, metadata={"half": ids.index(id) // 10, "title": f"the {name}"})
        report = index.erase(where={"half": 1})
        assert (report.memories, report.trajectories, report.feedback, len(index)) == (10, 2, 10, 10)
        kept = str(index._store.database.local_copy._documents.since(-1))
        assert [one for one in (*asked, *names) if one in kept] == [*asked[:10], *names[:10]]
        assert report.remaining and "log" in report.remaining[0]
        assert len(index.search(np.ones(DIM), k=20)) == 10
        assert index.recall(np.ones(DIM), text=word(10_003), mode="hybrid", k=1)[0].id in ids[:10]
        if kind == "pgvector":
            index.delete(ids[0])
            assert index.erase(ids[1:5]).trajectories == 1
            gone = [one for part in (ids, texts, asked, names) for one in (*part[:5], *part[10:])]
            assert postgres_traces(engine.schema, gone) == []


def postgres_traces(schema: str, words: list[str]) -> list[str]:
    """Returns the words that are in the files of a schema, or of its indexes."""
    with psycopg.connect(postgres().get_uri(), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        folder = Path(connection.execute("SHOW data_directory").fetchone()[0])
        paths = connection.execute(
            "SELECT pg_relation_filepath(pg_class.oid) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE n.nspname = %s AND relkind IN ('r', 'i')",
            [schema],
        ).fetchall()
    content = b"".join((folder / path).read_bytes() for (path,) in paths)
    assert f"id-{word(7)}".encode() in content  # control: the files contain a stored word
    return [one for one in words if one.encode() in content]


def test_the_report_names_a_reader_that_still_needs_the_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.1)  # how long ``erase`` waits for the reader
    path, traces = tmp_path / "index", Traces()
    index = PredictiveAssociativeIndex.open(path, dim=DIM)
    fill(index, traces, 0, 20)
    reader = PredictiveAssociativeIndex.open(path, read_only=True)
    report = index.erase(ids_of(0, 5))
    assert "journal" in report.remaining[0] and "journal" in repr(report)
    assert len(reader) == 20  # the snapshot of the reader
    reader.close()
    assert index.erase([]).remaining == ()
    assert traces.found(path, ids_of(0, 5)) == set()
    index.close()


def test_the_report_says_that_a_running_fit_needs_the_journal(tmp_path, monkeypatch):
    """A fit in the background reads the state in which it began, also if no other process has the folder open."""
    monkeypatch.setattr(connection, "LOCK_SECONDS", 0.1)
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.add(np.eye(DIM)[:3], ["a", "b", "c"], texts=["aqueous words", "b", "c"])
        with frozen(index._store, index._lock):
            report = index.erase(["a"])
        assert "a fit that runs" in report.remaining[0]
        assert index.erase([]).remaining == ()


def test_words_are_found_however_often_some_were_erased():
    """Many erasures do not break the word index: FTS5 of SQLite 3.40 fails at 2,000 levels, and a merge adds two."""
    index = PredictiveAssociativeIndex(2)
    vocabulary = [word(seed) for seed in range(2000)]
    texts = [f"kettle {' '.join(vocabulary[20 * at : 20 * at + 20])}" for at in range(100)]
    index.add(np.ones((100, 2)), [str(at) for at in range(100)], texts, [{"who": "ann"}] * 100)
    fetch, longest = index._store.database.connection.fetch, 0
    for row in range(1000, 2100):
        with index._store.database.transaction():
            fetch(
                "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, 'boat', '{}', 0)",
                [row, f"n{row}"],
            )
        with index._store.database.transaction():
            fetch("DELETE FROM memories WHERE row = ?", [row])
            index._store.database.settings.set(words.REMOVED, True)
            words.erase_removed(fetch)
        longest = max(longest, fetch("SELECT length(block) FROM words_data WHERE id = 10")[0][0])
    fetch("INSERT INTO words (words) VALUES ('integrity-check')")
    for query, found in (("kettle", 100), ("labels: ann", 100), (vocabulary[0], 1), ("boat", 0)):
        assert len(fetch("SELECT rowid FROM words WHERE words MATCH ?", [query])) == found
    assert longest < 2 * words.MOST_BYTES


def test_an_unreadable_word_index_is_detected_and_rebuilt(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add(np.eye(2), ["a", "b"], ["a kettle", "a boat"])
        levels = bytes(4) + bytes([0x8F, 0x52, 0, 1]) + bytes(4010)  # a block with 2,002 levels, as after 1,001 merges
        index._store.database.connection.fetch("UPDATE words_data SET block = ? WHERE id = 10", [levels])
    assert "words" in str(check(tmp_path / "index"))
    assert any("words" in line for line in repair(tmp_path / "index"))
    assert check(tmp_path / "index") == []
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.recall(np.ones(2), k=1, text="boat").ids == ["b"]
