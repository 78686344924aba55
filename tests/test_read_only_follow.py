"""A reader sees each commit at once and completely, and reads only the changes; writers take turns."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import FitConfig, IndexLocked, InvalidInput, PredictiveAssociativeIndex, ReadOnlyIndex, Trajectory
from pam_retriever.errors import IndexFormatError
from pam_retriever.store.folder import snapshot
from pam_retriever.store.folder.writable_folder import WritableManifest
from pam_retriever.store.sqlite import changes
from pam_retriever.store.sqlite.changes import MAX_RANGES, Changes
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.copies import Copies

DIM = 8
QUICK = FitConfig(passes=2)
WORDS = ("stairs", "kitchen", "harbour", "violin", "glacier", "lantern")


def filled(path: Path | None, memories: int = 40) -> PredictiveAssociativeIndex:
    rng = np.random.default_rng(1)
    index = PredictiveAssociativeIndex(DIM) if path is None else PredictiveAssociativeIndex.open(path, DIM)
    index.add(
        rng.normal(size=(memories, DIM)),
        ids=[f"m{at}" for at in range(memories)],
        texts=[f"{WORDS[at % 6]} {WORDS[at // 6 % 6]}" for at in range(memories)],
        metadatas=[{"user": at % 3} for at in range(memories)],
    )
    return index


def answers(index: PredictiveAssociativeIndex) -> object:
    """Returns the answers to queries of all kinds, in a form that can be compared."""
    vector = np.linspace(-1, 1, DIM)

    def plain(hits: object) -> list[object]:
        return [(hit.id, round(hit.score, 5), hit.text, hit.metadata) for hit in hits]  # type: ignore[attr-defined]

    found = [
        len(index),
        plain(index.search(vector, 6)),
        plain(index.search(vector, 6, where={"user": 1})),
        plain(index.recall(vector, 6, text="the kitchen stairs")),
        plain(index.recall(vector, 6, text="the violin last week", now=datetime(2026, 5, 20))),
        [(record.id, record.text, record.metadata) for record in index.find({"user": {"$in": [0, 2]}})],
        [(one.id, one.ids) for one in index.trajectories()],
        [(one.id, one.used) for one in index.feedbacks()],
        index.is_fitted,
    ]
    if index.is_fitted and "m0" in index:
        found += [plain(index.recall("m0", 5)), plain(index.recall("m0", 5, "specific", hops=2))]
    return found


def change(index: PredictiveAssociativeIndex, rng: np.random.Generator, at: int) -> str:
    """Makes one random change; returns its kind."""
    ids = [record.id for record in index.find()]
    some = [str(one) for one in rng.choice(ids, size=3, replace=False)]
    vector, states, word, stamp = (
        rng.normal(size=DIM),
        rng.normal(size=(3, DIM)),
        rng.choice(WORDS),
        datetime(2026, 5, 9),
    )
    all_changes = {
        "add": lambda: index.add(states[:2], [f"n{at}", some[0]], [f"{word} {at}", None], timestamps=[stamp, None]),
        "update": lambda: index.update(some[0], text=f"{word} again", metadata={"user": at % 3, "n": at}),
        "delete": lambda: index.delete(some[:1]),
        "observe": lambda: index.observe(Trajectory(ids=some, id=f"t{at % 4}")),
        "dated": lambda: index.observe(Trajectory(ids=some, timestamps=[stamp] * 3, id=f"d{at % 4}")),
        "states": lambda: index.observe(Trajectory(vectors=states, id=f"s{at % 3}")),
        "append": lambda: index.append(f"session{at % 3}", vector=vector, text=f"{word} {at}"),
        "trajectory": lambda: index.delete_trajectory(f"t{at % 4}"),
        "feedback": lambda: index.feedback(vector, some[:2], text=f"where is the {word}?", id=f"f{at % 5}"),
        "unlearn": lambda: index.delete_feedback([f"f{at % 5}"]),
        "prune": lambda: index.prune(max(len(index) - 2, 10)),
        "erase": lambda: index.erase(some[:1]),
    }
    kind = str(rng.choice(list(all_changes)))
    all_changes[kind]()
    return kind


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_a_reader_answers_as_one_that_opens_now(tmp_path, seed):
    rng = np.random.default_rng(seed)
    writer = filled(tmp_path / "i")
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    answers(reader)  # the first queries load words, metadata and times, which must then follow the changes
    for at in range(36):
        kind = change(writer, rng, at)
        if at in (12, 24):
            writer.fit(progress=False, config=QUICK, from_scratch=at == 24)
        if at == 30:
            writer.close()
            writer = PredictiveAssociativeIndex.open(tmp_path / "i")
        if at % 3 == 2:  # so the reader follows several commits at once
            now = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True)
            assert answers(reader) == answers(now) == answers(writer), (at, kind)
            now.close()
    writer.close()


def test_refresh_takes_a_reader_to_now_and_no_further(tmp_path):
    """``refresh`` shows a reader the current state; later writes need another ``refresh``."""
    writer = filled(tmp_path / "i")
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True)
    before = answers(reader)
    writer.add(np.ones((1, DIM)), ["new"])
    assert answers(reader) == before
    assert reader.refresh()
    assert answers(reader) == answers(writer)
    assert not reader.refresh()
    writer.delete("new")
    assert "new" in reader
    assert not writer.refresh()


def test_following_costs_what_changed(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(changes, "MAX_TRANSACTIONS", 5)
    writer = filled(tmp_path / "i")
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    with caplog.at_level(logging.INFO, "pam_retriever.store"):
        writer.add(np.ones((1, DIM)), ["new"])
        writer.append("s", vector=np.ones(DIM), id="one")
        writer.delete(["m3", "m4"])
        writer.feedback(np.ones(DIM), ["new"])
        assert answers(reader) == answers(writer)
        assert not caplog.messages
        for _ in range(7):
            writer.feedback(np.ones(DIM), ["new"], id="f")
        assert answers(reader) == answers(writer)
        assert "rebuild" in caplog.text  # the log no longer has all changes, so the reader reads everything again


def test_changes_survive_json():
    changes = Changes({1, 2, 3, 9}, {4}, {7: 2}, {"model", "grew:7", "ann"})
    assert Changes.of(json.loads(changes.to_json())) == Changes({1, 2, 3, 9}, {4}, {7: 2}, {"model"})
    assert Changes.of(json.loads(Changes(set(range(0, 4 * MAX_RANGES, 2))).to_json())).everything
    for wrong in ({}, {"rows": [[1]], "removed": [], "grown": {}, "settings": []}, {"rows": 1}):
        assert Changes.of(wrong).everything


def test_an_interrupted_reader_reads_everything_again(tmp_path, monkeypatch):
    writer = filled(tmp_path / "i")
    writer.fit([["m1", "m5"], ["m7", "m6"]], progress=False, config=QUICK)
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    writer.observe(["m1", "m2", "m3"])
    take = Copies._take

    def interrupted(*given: object) -> None:
        take(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Copies, "_take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reader.search("m1")
    monkeypatch.undo()
    writer.observe(["m3", "m4"])
    now = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True)
    assert reader.expand({"m2": 1.0}) == now.expand({"m2": 1.0})
    assert answers(reader) == answers(now)


def test_a_reader_goes_over_to_what_replaced_the_index(tmp_path):
    filled(tmp_path / "i").close()
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    answers(reader)
    other = filled(tmp_path / "other", 7)
    other.save(tmp_path / "i", overwrite=True)
    assert answers(reader) == answers(other)
    wide = PredictiveAssociativeIndex(DIM + 1)
    wide.save(tmp_path / "i", overwrite=True)
    with pytest.raises(IndexFormatError, match="dim=9"):
        reader.search("m1")
    other.save(tmp_path / "i", overwrite=True)
    assert answers(reader) == answers(other)


@pytest.mark.parametrize("how", ["saved over", "moved"])
@pytest.mark.parametrize("follow", [True, False])
def test_a_reader_goes_over_to_what_replaced_the_index_under_the_same_name(tmp_path, how, follow):
    """Equal contents give equal names of databases, and a copied folder keeps them. The file itself is another one."""
    folder, base = tmp_path / "i", filled(None)
    base.save(folder)
    base.save(tmp_path / "copy")
    if how == "moved":
        with PredictiveAssociativeIndex.open(tmp_path / "copy") as writer:
            writer.delete("m3")
    names = {path.name for path in folder.glob("memories-*")}
    with PredictiveAssociativeIndex.open(folder) as writer:
        writer.delete("m1")
    with PredictiveAssociativeIndex.open(folder, read_only=True, follow=follow) as reader:
        assert "m1" not in reader
        if how == "moved":
            folder.rename(tmp_path / "old")
            (tmp_path / "copy").rename(folder)
        else:
            base.save(folder, overwrite=True)
        if not follow:
            assert reader.refresh()
        assert {path.name for path in folder.glob("memories-*.sqlite")} == names
        assert answers(reader) == answers(PredictiveAssociativeIndex.load(folder))
        with PredictiveAssociativeIndex.open(folder) as writer:
            writer.delete("m2")
        if not follow:
            assert reader.refresh()
        assert {f"m{at}" for at in range(5) if f"m{at}" not in reader} == {"m2", *(["m3"] if how == "moved" else [])}


def test_a_reader_that_may_not_write_into_the_folder_sees_each_commit(tmp_path, monkeypatch):
    """While there is no journal it reads a copy in memory: SQLite could not make the files that a reader needs.

    Root may write to every folder, so the test simulates the refusal of the system.
    """
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    writer = filled(tmp_path / "i")
    writer.erase(["m0"])  # which empties the journal
    with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True) as reader:
        assert len(reader) == 39
        writer.delete("m1")
        assert len(reader) == 38
        writer.close()
        assert len(reader) == 38
        lift = WritableManifest.lift

        def lift_and_read(manifest: WritableManifest) -> None:
            lift(manifest)
            assert len(reader) == 38  # it reads a copy again, because the manifest changed; the commit comes later

        with monkeypatch.context() as patched, PredictiveAssociativeIndex.open(tmp_path / "i") as writer:
            patched.setattr(WritableManifest, "lift", lift_and_read)
            writer.delete("m2")
            assert len(reader) == 37


@pytest.mark.parametrize("how", ["load", "open"])
def test_a_file_that_changes_while_it_is_copied_without_locks_is_read_again(tmp_path, monkeypatch, how):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    writer = filled(tmp_path / "i")
    writer.erase(["m0"])
    check_everything, checked = snapshot.check_everything, []

    def erase_and_check(connection: Connection) -> None:
        if not checked:
            writer.erase(["m1"])
        checked.append(connection)
        check_everything(connection)

    monkeypatch.setattr(snapshot, "check_everything", erase_and_check)
    reads = {"load": PredictiveAssociativeIndex.load, "open": partial(PredictiveAssociativeIndex.open, read_only=True)}
    with reads[how](tmp_path / "i") as reader:
        assert len(checked) == 2
        assert len(reader) == 38
    writer.close()


@pytest.mark.parametrize("fault", ["another dimension", "damage"])
def test_what_a_reader_cannot_go_over_to_is_an_error_of_each_query(tmp_path, fault):
    folder, other = tmp_path / "index", tmp_path / "other"
    filled(folder).close()
    with PredictiveAssociativeIndex.open(folder, read_only=True, follow=True) as reader:
        before, manifest = answers(reader), (folder / "manifest.json").read_bytes()
        if fault == "damage":
            (folder / "manifest.json").write_bytes(b"{")
        else:
            PredictiveAssociativeIndex.open(other, DIM + 1).close()
            folder.rename(tmp_path / "old")
            other.rename(folder)
        for _ in range(3):
            with pytest.raises(IndexFormatError):
                reader.search(np.ones(DIM))
            with pytest.raises(IndexFormatError):
                reader.find()
        if fault == "damage":
            (folder / "manifest.json").write_bytes(manifest)
        else:
            folder.rename(other)
            (tmp_path / "old").rename(folder)
        assert answers(reader) == before


def test_who_follows_holds_no_journal(tmp_path):
    """A reader that follows does not keep the writer from emptying its journal at ``close``."""
    writer = filled(tmp_path / "i")
    with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True) as reader:
        answers(reader)
        writer.close()
        assert json.loads((tmp_path / "i" / "manifest.json").read_text())["database_sha256"]
        assert len(reader) == 40
        with pytest.raises(ReadOnlyIndex):
            reader.add(np.ones((1, DIM)))


def test_a_copy_has_no_change_log(tmp_path):
    """Copies of equal contents have equal bytes, because they contain no log of changes."""
    for index, name in ((filled(tmp_path / "i"), "a"), (filled(None), "b")):
        index.observe(Trajectory(ids=["m1", "m2"], id="t"))
        index.update("m1", text="other")
        index.save(tmp_path / name)
    names = [sorted(path.name for path in (tmp_path / one).iterdir()) for one in "ab"]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"follow": True}, "follow=True without read_only"),
        ({"read_only": True, "lock_timeout": 1}, "waits for no writer"),
        ({"lock_timeout": -1}, "0 to 86,400"),
        ({"lock_timeout": float("nan")}, "finite"),
        ({"lock_timeout": "10"}, "finite"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(tmp_path, given, message):
    filled(tmp_path / "i").close()
    with pytest.raises(InvalidInput, match=message):
        PredictiveAssociativeIndex.open(tmp_path / "i", **given)


def test_an_index_in_memory_cannot_be_refreshed(tmp_path):
    filled(tmp_path / "i").close()
    with pytest.raises(InvalidInput, match="in memory"):
        PredictiveAssociativeIndex.load(tmp_path / "i").refresh()


def test_many_threads_follow_at_once(tmp_path):
    """Each answer is consistent: pairs that are stored and deleted together never appear alone."""
    writer = filled(tmp_path / "i")
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    done, wrong, answered = threading.Event(), [], [0] * 4

    def ask(me: int) -> None:
        while not done.is_set() or not answered[me]:
            names = {record.id for record in reader.find({"pair": {"$exists": True}})}
            hits = {hit.id for hit in reader.search(np.ones(DIM), 2, where={"pair": {"$exists": True}})}
            whole = [{name[0] for name in one} in (set(), {"a", "b"}) for one in (names, hits)]
            apart = [len({name[1:] for name in one}) > 1 for one in (names, hits)]
            if not all(whole) or any(apart):
                wrong.append((names, hits))
            answered[me] += 1

    threads = [threading.Thread(target=ask, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for at in range(40):
        vectors = np.ones((2, DIM)) + np.random.default_rng(at).normal(size=(2, DIM)) / 100
        writer.add(vectors, [f"a{at}", f"b{at}"], metadatas=[{"pair": at}, {"pair": at}])
        writer.delete([f"a{at}", f"b{at}"])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(answered)


# ---- processes

WRITER = """
import sys, numpy as np
from pam_retriever import PredictiveAssociativeIndex, FitConfig, Trajectory
with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
    for line in sys.stdin:
        exec(line)
        print("done", flush=True)
"""
TURNS = """
import sys, numpy as np
from pam_retriever import PredictiveAssociativeIndex
path, me, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = None
for at in range(turns):
    with PredictiveAssociativeIndex.open(path, 8, lock_timeout=120) as index:
        index.append(me, vector=np.full(8, at + 1.0), id=f"{me}{at}", text=f"turn {at}")
    if reader is None:
        reader = PredictiveAssociativeIndex.open(path, read_only=True, follow=True)
    mine = {one.id: one for one in reader.trajectories()}[me]
    assert len(mine.ids) == at + 1, mine
"""


def started(code: str, *given: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_reader_sees_another_process(tmp_path):
    filled(tmp_path / "i").close()
    writer = started(WRITER, tmp_path / "i")
    assert writer.stdin is not None
    assert writer.stdout is not None
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True)
    one, zebra = [1.0] * DIM, "zebra"
    steps: list[tuple[str, Callable[[], bool]]] = [
        (
            'index.add(np.ones((1, 8)), ["new"], ["a zebra"])',
            lambda: reader.recall(one, 1, text=zebra)[0].id == "new",
        ),
        ('index.update("new", text="a unicorn")', lambda: reader.get(["new"])[0].text == "a unicorn"),
        ('index.observe(Trajectory(ids=["m1", "m2", "m3"], id="t"))', lambda: len(reader.trajectories()) == 1),
        ("index.fit(progress=False, config=FitConfig(passes=2))", lambda: reader.is_fitted),
        ('index.feedback(np.ones(8), ["m9"], id="f")', lambda: [f.used for f in reader.feedbacks()] == [{"m9": 1.0}]),
        ('index.delete("new")', lambda: "new" not in reader and reader.search(one, 1)[0].id != "new"),
    ]
    for line, seen in steps[1:-1]:
        assert "update" in line or not seen(), line
    for line, seen in steps:
        writer.stdin.write(f"{line}\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "done\n"
        assert seen(), line  # the first query after the write sees it
    writer.kill()
    writer.wait()
    assert answers(reader)
    with PredictiveAssociativeIndex.open(tmp_path / "i") as index:
        index.add(np.ones((1, DIM)), ["later"])
        assert answers(reader) == answers(index)


def test_two_processes_take_turns(tmp_path):
    """Two processes write alternately to a new folder; each sees its own and the other's writes."""
    turns = 6
    both = [started(TURNS, tmp_path / "i", me, turns) for me in ("ann", "bob")]
    errors = [one.communicate(timeout=300)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], errors
    with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True) as index:
        found = {one.id: one.ids for one in index.trajectories()}
    assert found == {me: tuple(f"{me}{at}" for at in range(turns)) for me in ("ann", "bob")}


def test_who_waits_long_enough_gets_the_lock(tmp_path):
    first = filled(tmp_path / "i")
    with pytest.raises(IndexLocked):
        PredictiveAssociativeIndex.open(tmp_path / "i", lock_timeout=0.05)
    timer = threading.Timer(0.2, first.close)
    timer.start()
    with PredictiveAssociativeIndex.open(tmp_path / "i", lock_timeout=60) as second:
        assert len(second) == 40
    timer.join()
