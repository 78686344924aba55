"""An index reopens fast, from saved files that it verifies later; damage is always detected."""

from __future__ import annotations

import gc
import shutil
import sqlite3
import subprocess
import sys
import threading
import weakref
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import FitConfig, IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.store.folder import handles
from pam_retriever.store.folder.manifest import read_manifest
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.folder.verification import Verification
from pam_retriever.store.sqlite import database
from pam_retriever.store.sqlite.trajectories import SQLiteTrajectories

COUNT, DIM = 2_000, 8
IDS = [f"m{n}" for n in range(COUNT)]


@pytest.fixture(scope="module")
def closed_index(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "index"
    with PredictiveAssociativeIndex.open(path, DIM, "faiss:ivf,sq8") as index:
        index.add(np.random.default_rng(5).standard_normal((COUNT, DIM)), IDS)
        walks = [IDS[s : s + 10] for s in range(0, COUNT, 10)]
        index.fit(walks, config=FitConfig(passes=1, hidden=16), progress=False)
        index.observe(IDS[5:0:-1])
        index.delete("m7")
    return path


@pytest.fixture
def path(closed_index, tmp_path) -> Path:
    shutil.copytree(closed_index, tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def paused_verification(monkeypatch):
    """Makes verifications in the background wait until this event is set."""
    go_on, run = threading.Event(), Verification._run
    monkeypatch.setattr(Verification, "_run", lambda self, *given: (go_on.wait(30), run(self, *given)))
    yield go_on
    go_on.set()


@pytest.fixture
def open_files():
    """Returns a function that lists open files and files that wait to be closed, without those of other tests."""
    gc.collect()  # so that no index of another test closes during this one
    connections, waiting = handles._connections.copy(), set(handles._waiting)
    return lambda: (handles._connections - connections, handles._waiting.keys() - waiting)


def flip(file: Path, at: float = 0.5) -> None:
    contents = bytearray(file.read_bytes())
    contents[int(at * len(contents))] ^= 1
    file.write_bytes(contents)


def answers(index) -> list:
    return [(hit.id, hit.score) for hits in index.recall(IDS[:500:17], k=5) for hit in hits]


def reading(monkeypatch) -> list:
    read, real = [], SQLiteTrajectories.experienced
    monkeypatch.setattr(SQLiteTrajectories, "experienced", lambda self, *given: (read.append(1), real(self, *given))[1])
    return read


def test_what_cannot_be_verified_is_not_taken_for_sound(path, monkeypatch):
    def fail(self: Verification, copies: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Verification, "_verify", fail)
    index = PredictiveAssociativeIndex.open(path)
    with pytest.raises(IndexFormatError, match=r"could not be verified \(MemoryError"):
        index.close()


@pytest.mark.parametrize("how", ["close", "erase"])
def test_keys_that_are_removed_while_they_are_verified_are_no_damage(path, paused_verification, how):
    """Keys may be removed while a verification still reads their file: it reports no damage."""
    index = PredictiveAssociativeIndex.open(path)
    if how == "erase":
        threading.Timer(0.3, paused_verification.set).start()
        index.erase(["m900"])
    else:
        index.delete("m900")
        threading.Timer(0.3, paused_verification.set).start()
    index.close()  # waits for the verification, then overwrites the removed data
    assert check(path) == []
    with PredictiveAssociativeIndex.open(path) as index:
        assert "m900" not in index


@pytest.mark.parametrize("read_only", [False, True])
def test_the_saved_links_are_those_of_the_database(path, monkeypatch, read_only):
    read = reading(monkeypatch)
    with PredictiveAssociativeIndex.open(path, read_only=read_only) as index:
        assert not read
        kept, stored = index._store.links.steps(), index._store.database.trajectories.experienced()
        for a, b in zip(kept, stored, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        assert index._store.links.memories == index._store.database.trajectories.memories()


@pytest.mark.parametrize("harm", ["flipped", "short", "gone", "of another kind", "replaced"])
def test_damaged_saved_links_are_read_from_the_database(path, monkeypatch, harm):
    with PredictiveAssociativeIndex.open(path) as index:
        before = answers(index)
    (links,) = path.glob("*.links.npy")
    if harm == "flipped":
        flip(links)
    elif harm == "short":
        links.write_bytes(links.read_bytes()[:-28])
    elif harm == "gone":
        links.unlink()
    elif harm == "of another kind":
        np.save(links, np.zeros(3))
    else:
        shutil.copy(next(path.glob("*.rows.npy")), links)
    assert "links.npy" in check(path)[0]
    read = reading(monkeypatch)
    with PredictiveAssociativeIndex.open(path) as index:
        assert read
        assert answers(index) == before
    assert check(path) == []  # ``close`` has saved the links again
    read.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert not read
        assert answers(index) == before


def test_a_change_drops_the_links_in_its_own_transaction(path, monkeypatch):
    index = PredictiveAssociativeIndex.open(path)
    index.observe(["m100", "m900"])
    index._store._writable_folder.close()  # like a kill, this saves nothing
    read = reading(monkeypatch)
    with PredictiveAssociativeIndex.open(path) as index:
        assert read
        assert "m900" in {hit.id for hit in index.recall("m100", k=30, faithful=True)}
    read.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert not read
        assert "m900" in {hit.id for hit in index.recall("m100", k=30, faithful=True)}
        index.delete("m900")
        index.observe(["m100", "m901"])
    with PredictiveAssociativeIndex.open(path) as index:
        assert not read
        kept, stored = index._store.links.steps(), index._store.database.trajectories.experienced()
        np.testing.assert_array_equal(np.stack(kept), np.stack(stored))


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("pattern", ["memories-*.sqlite", "keys-*.f32"])
@pytest.mark.parametrize("at", [0.6, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.3, 0.9999))])
def test_a_flipped_byte_is_reported_by_the_next_call_or_by_close(
    path, paused_verification, pattern, read_only, at, open_files
):
    (file,) = path.glob(pattern)
    flip(file, at)
    try:
        index = PredictiveAssociativeIndex.open(path, read_only=read_only)
    except IndexFormatError:  # SQLite itself found the damage while reading
        assert pattern.startswith("mem")
    else:
        paused_verification.set()
        with pytest.raises(IndexFormatError, match=file.name):
            index._store.copies.database.finish_verifying()
        for call in (lambda: index.recall("m0"), lambda: len(index), lambda: index.get(["m0"]), index.close):
            with pytest.raises(IndexFormatError, match=file.name):
                call()
    with pytest.raises(IndexFormatError), PredictiveAssociativeIndex.open(path):
        pass
    assert check(path)
    if pattern.startswith("keys"):
        file.unlink()
        with PredictiveAssociativeIndex.open(path) as index:
            assert len(answers(index)) == 150
    else:
        repair(path)
    assert check(path) == []
    assert not any(open_files())


def test_what_is_written_before_the_verification_ends_is_there_and_so_is_its_finding(path, paused_verification):
    """Writes during a verification are stored, and do not change the file that it reads."""
    with PredictiveAssociativeIndex.open(path) as index:
        database = index._store.database.connection
        file = path / str(read_manifest(path)["database"])
        before = file.read_bytes()
        for at in range(30):
            ids = [f"new{at}-{n}" for n in range(100)]
            index.add(np.ones((100, DIM)) * np.arange(1, 101)[:, None], ids, ["long " * 400] * 100)
        assert file.read_bytes() == before  # until the verification ends, new data are only in the journal
        paused_verification.set()
        index._store.database.finish_verifying()
        index.add(np.ones((1, DIM)), ["last"])
        assert file.read_bytes() != before
        assert database.fetch("PRAGMA wal_autocheckpoint")[0][0] == 1000
    with PredictiveAssociativeIndex.open(path) as index:
        assert len(index) == COUNT - 1 + 3001
        assert index.search(np.ones(DIM), k=1)[0].score > 0.99
    assert check(path) == []


def test_damage_below_new_memories_stays_damage(path, paused_verification):
    """If a file is damaged, new memories do not give it a valid checksum."""
    (file,) = path.glob("memories-*.sqlite")
    contents = bytearray(file.read_bytes())
    with PredictiveAssociativeIndex.open(path) as index:
        bank = index._store
        width = bank.predictor.config.width
        stored = bank.database.memories.stored(np.array([1500]), DIM, width)[1].tobytes()
        paused_verification.set()
    at = contents.index(stored)  # an association vector has no separate checksum
    contents[at] ^= 1
    file.write_bytes(contents)
    index = PredictiveAssociativeIndex.open(path)
    with suppress(IndexFormatError):  # a check may find the damage before ``close`` does
        index.add(np.ones((1, DIM)), ["new"])
    with pytest.raises(IndexFormatError, match="checksum differs"):
        index.close()
    with pytest.raises(IndexFormatError, match="checksum differs"), PredictiveAssociativeIndex.open(path) as index:
        len(index)
    repair(path)
    with PredictiveAssociativeIndex.open(path) as index:
        assert len(index) >= COUNT - 1


def test_closing_an_index_that_was_only_asked_leaves_it_as_it_was(path):
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with PredictiveAssociativeIndex.open(path) as index:
        answers(index)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_changes_of_a_loaded_copy_leave_the_folder_as_it_was(path):
    """A copy in memory does not share the files of the index that was saved."""
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with PredictiveAssociativeIndex.load(path) as copy:
        copy.add(np.eye(DIM))
        copy.delete("m8")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_save_over_an_index_removes_the_files_that_were_derived_from_it(path):
    """The file of full keys has the vectors of memories that the copy does not have."""
    with PredictiveAssociativeIndex.load(path) as copy:
        copy.delete("m8")
        copy.save(path, overwrite=True)
    assert {file.name.partition("-")[0] for file in path.iterdir()} == {"manifest.json", "memories", "predictor"}
    assert check(path) == []


@pytest.mark.parametrize("follow", [False, True])
def test_an_index_that_is_replaced_while_it_is_verified_is_no_damage(path, paused_verification, follow):
    """A reader keeps what it opened until the end, or until it follows."""
    with (
        PredictiveAssociativeIndex.load(path) as copy,
        PredictiveAssociativeIndex.open(path, read_only=True, follow=follow) as reader,
    ):
        copy.delete("m8")
        copy.save(path, overwrite=True)
        paused_verification.set()
        assert reader.search("m9", k=1)
        reader._store.copies.database.finish_verifying()
        assert ("m8" in reader) != follow


def test_two_readers_of_one_process_and_a_verification_keep_their_locks(path, open_files):
    """Two readers and a verification in one process do not release each other's locks on the file."""
    first = PredictiveAssociativeIndex.open(path, read_only=True)
    second = PredictiveAssociativeIndex.open(path, read_only=True)
    for index in first, second:  # a running verification has taken the waiting file
        index._store.database.finish_verifying()
    connections, waiting = open_files()
    assert sum(connections.values()) == 2
    assert waiting  # files that were read while SQLite had them open stay open
    second.close()
    assert open_files()[1]
    first.close()
    assert not any(open_files())


def test_a_reader_that_stays_does_not_cost_an_unchanged_index_its_checksum(path):
    """If a writer changes nothing, the index keeps its checksum, even if a reader is still open."""
    before = read_manifest(path)
    with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
        with PredictiveAssociativeIndex.open(path) as index:
            answers(index)
        assert read_manifest(path) == before
        assert answers(reader)


def test_nothing_is_held_once_it_is_closed_or_gone(path):
    """A closed or deleted index releases memory and files at once, without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        index = PredictiveAssociativeIndex.open(path)
        index.add(np.eye(DIM))
        index.close()
        open_files = [str(one.resolve()) for one in Path("/proc/self/fd").iterdir()]
        assert str(path) not in "\n".join([*open_files, Path("/proc/self/maps").read_text()])
        other = PredictiveAssociativeIndex(dim=4)
        other.add(np.eye(4))
        bank = weakref.ref(other._store)
        del other
        assert bank() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [0, 10**9])
@pytest.mark.parametrize("damage", ["a number", "a length", "a type"])
def test_a_flat_index_is_verified_before_it_opens(tmp_path, monkeypatch, size, damage):
    """A large file is verified while it is read. The error names its checksum, also where reading fails first."""
    monkeypatch.setattr(database, "VERIFIED_AT_ONCE", size)
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        index.add(np.random.default_rng(5).standard_normal((COUNT, DIM)), IDS)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == COUNT
    (file,) = (tmp_path / "index").glob("memories-*")
    new = {"a number": "zeroblob(32)", "a length": "x'00'", "a type": "1.5"}[damage]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE vectors SET vector = {new} WHERE row = 1000")
    for read_only in (False, True):
        with pytest.raises(IndexFormatError, match=f"{file.name} is damaged: its checksum differs"):
            PredictiveAssociativeIndex.open(tmp_path / "index", read_only=read_only)


ADD = """
import sys
import numpy as np
from pam_retriever import PredictiveAssociativeIndex

for id in sys.argv[2:]:
    with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
        index.add(np.ones((1, index.dim)), [id])
"""


@pytest.mark.slow
@pytest.mark.parametrize("reads", [lambda path: PredictiveAssociativeIndex.load(path).close(), check])
def test_a_reader_keeps_its_locks_when_its_process_reads_the_folder_again(tmp_path, reads):
    """Else the next writer would delete the journal of the reader, which would see no later commit, or damage."""
    path = tmp_path / "index"
    PredictiveAssociativeIndex.open(path, 4).close()
    with PredictiveAssociativeIndex.open(path, read_only=True, follow=True) as reader:
        for at in range(3):
            reads(path)
            subprocess.run([sys.executable, "-c", ADD, str(path), f"a{at}", f"b{at}"], check=True, timeout=60)
            assert list(path.glob("*-wal"))
            assert len(reader) == 2 * at + 2
            assert reader.get([f"b{at}"])[0].id == f"b{at}"


WRITES = """
import sys
import numpy as np
from pam_retriever import PredictiveAssociativeIndex

with PredictiveAssociativeIndex.open(sys.argv[1], 4) as index:
    index.add(np.ones((1, 4)), ["a"])
    print(flush=True)
    sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("reads", ["load", "check"])
def test_a_load_keeps_its_locks_when_another_thread_reads_the_folder(tmp_path, monkeypatch, reads):
    """Else a writer that closes would overwrite pages of the file while they are copied."""
    path, inside, go_on = tmp_path / "index", threading.Event(), threading.Event()

    class Slow(sqlite3.Connection):
        def backup(self, target: sqlite3.Connection, **more: object) -> None:
            if threading.current_thread() is thread:
                self.execute("BEGIN")
                self.execute("SELECT count(*) FROM sqlite_master").fetchall()
                inside.set()
                go_on.wait(60)
                self.execute("COMMIT")
            super().backup(target, **more)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **more: connect(*given, **{"factory": Slow} | more))
    thread = threading.Thread(target=lambda: PredictiveAssociativeIndex.load(path).close())
    command = [sys.executable, "-c", WRITES, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        thread.start()
        assert inside.wait(60)
        if reads == "load":
            PredictiveAssociativeIndex.load(path).close()
        else:
            check(path)
        writer.communicate("close\n", timeout=60)
    try:
        (journal,) = path.glob("*-wal")
        assert journal.stat().st_size
    finally:
        go_on.set()
        thread.join()
