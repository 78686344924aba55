"""One writer and many readers, disks that fail, folders that are damaged and repaired."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import DIM, QUICK, WINDOW

from pam_retriever import (
    FitConfig,
    IndexFormatError,
    IndexLocked,
    InvalidInput,
    PredictiveAssociativeIndex,
    ReadOnlyIndex,
    StorageError,
)
from pam_retriever.apps.cli import main
from pam_retriever.store import columns, faults
from pam_retriever.store.folder.files import check_file
from pam_retriever.store.folder.manifest import MANIFEST
from pam_retriever.store.folder.repair import check, repair

SMALL = FitConfig(hidden=8, passes=1)
GOLDEN = Path(__file__).parent / "golden"


def contents(index: PredictiveAssociativeIndex) -> list:
    return [(r.id, r.vector.tobytes(), r.text, r.metadata) for r in index.find()]


def make(path: Path, memories: int = 8) -> PredictiveAssociativeIndex:
    """Returns an open, fitted index of a few memories in a folder."""
    index = PredictiveAssociativeIndex.open(path, dim=3)
    ids = [f"m{n}" for n in range(memories)]
    vectors = np.random.default_rng(3).standard_normal((memories, 3))
    index.add(vectors, ids, [f"text {id}" for id in ids], [{"n": n} for n in range(memories)])
    index.fit([ids], window=1, config=SMALL, progress=False)
    return index


@pytest.fixture
def saved(tmp_path) -> Path:
    with make(tmp_path / "index"):
        pass
    return tmp_path / "index"


# ---- one writer, many readers


def test_a_reader_sees_a_snapshot_while_the_writer_writes(tmp_path):
    with make(tmp_path / "index") as writer:
        reader = PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True)
        before, hits = contents(reader), reader.recall("m0", k=9)
        writer.add(np.ones((1, 3)), ["later"])
        writer.delete("m3")
        writer.fit([["later", "m0", "m1"]], config=SMALL, progress=False)
        assert contents(reader) == before
        assert reader.recall("m0", k=9) == hits
        assert "m1" in {hit.id for hit in reader.recall("m0", faithful=True)}
        with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as second:
            assert "later" in second
            assert "m3" not in second
        loaded = PredictiveAssociativeIndex.load(tmp_path / "index")
        assert contents(loaded) == contents(writer)
    assert contents(reader) == before  # the reader still has its snapshot, although the writer has closed
    reader.close()


def test_a_reader_changes_nothing(saved):
    with PredictiveAssociativeIndex.open(saved, read_only=True) as reader:
        assert "read-only, at" in repr(reader)
        before = contents(reader)
        for change in (
            lambda: reader.add(np.ones((1, 3))),
            lambda: reader.delete("m0"),
            lambda: reader.observe(["m0", "m1"]),
            lambda: reader.fit(config=SMALL, progress=False),
            lambda: reader.set_capacity(10),
        ):
            with pytest.raises(ReadOnlyIndex, match="read_only"):
                change()
        assert contents(reader) == before
    assert check(saved) == []


@pytest.mark.parametrize("follow", [False, True])
def test_a_reader_does_not_save_over_what_was_written_since(saved, tmp_path, follow):
    with PredictiveAssociativeIndex.open(saved, read_only=True, follow=follow) as reader:
        with PredictiveAssociativeIndex.open(saved) as writer:
            writer.add(np.ones((1, writer.dim)), ["since"])
        with pytest.raises(InvalidInput, match="another folder"):
            reader.save(saved, overwrite=True)
        reader.save(tmp_path / "copy")
    loaded = PredictiveAssociativeIndex.load(saved)
    assert "since" in loaded
    loaded.save(saved, overwrite=True)  # an index in memory may overwrite the folder


def start(code: str, path: Path) -> subprocess.Popen[str]:
    """Runs code in a new process, with the path as its argument."""
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


READER = """
    import sys
    from pam_retriever import PredictiveAssociativeIndex
    with PredictiveAssociativeIndex.open(sys.argv[1], read_only=True) as index:
        print(len(index), flush=True)
        input()
        print(len(index), [hit.id for hit in index.recall("m0", k=3)], flush=True)
"""


def test_a_reader_in_another_process_outlives_a_killed_writer(tmp_path):
    path = tmp_path / "index"
    writer = make(path)
    reader = start(READER, path)
    assert reader.stdout.readline() == "8\n"
    writer.add(np.ones((1, 3)), ["later"])
    expected = [hit.id for hit in PredictiveAssociativeIndex.load(path).recall("m0", k=99)]
    assert "later" in expected
    answer, _ = reader.communicate("\n")
    count, ids = answer.split(" ", 1)
    assert count == "8"
    assert "later" not in ids
    writer.close()


APPENDS = """
    import sys
    import numpy as np
    from pam_retriever import PredictiveAssociativeIndex
    with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
        for id in sys.stdin:
            print(index.add(np.ones((1, 3)), [id.strip()]), flush=True)
"""


def test_what_a_killed_writer_did_not_commit_in_time_never_appears(tmp_path):
    """A commit that a killed writer wrote to the journal, but not yet to SQLite's shared memory, never appears."""

    path = tmp_path / "index"

    def add(id: str) -> None:
        writer.stdin.write(f"{id}\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == f"['{id}']\n"

    def ids() -> list[str]:  # in a new process, so that this one does not release the locks of the reader
        code = """
            import sys
            from pam_retriever import PredictiveAssociativeIndex
            with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
                print(*[record.id for record in index.find()])
        """
        return start(code, path).communicate()[0].split()

    make(path).close()
    writer = start(APPENDS, path)
    add("first")
    reader = start(READER, path)
    assert reader.stdout.readline() == "9\n"  # its snapshot keeps others from emptying the journal
    (shared,) = path.glob("*-shm")
    before = shared.read_bytes()
    add("second")
    writer.kill()
    writer.communicate()
    with shared.open("r+b") as file:
        file.write(before)
    found = ids()
    assert "first" in found
    assert "second" not in found
    reader.kill()
    reader.communicate()
    assert ids() == found  # nobody has the database open, so SQLite reads the whole journal again


def test_a_reader_that_comes_first_does_not_keep_the_writer_out(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    reader = PredictiveAssociativeIndex.open(tmp_path / "saved", read_only=True)
    with PredictiveAssociativeIndex.open(tmp_path / "saved") as writer:
        writer.delete("m000")
    assert "m000" in reader
    reader.close()
    assert "m000" not in PredictiveAssociativeIndex.load(tmp_path / "saved")


def test_the_lock_is_free_after_kill_and_close(tmp_path):
    child = start(HOLDER, tmp_path / "index")
    assert child.stdout.readline() == "open\n"
    with pytest.raises(IndexLocked, match=f"process {child.pid} on "):
        PredictiveAssociativeIndex.open(tmp_path / "index")
    with pytest.raises(IndexLocked, match=f"process {child.pid} on "):
        PredictiveAssociativeIndex(dim=2).save(tmp_path / "index", overwrite=True)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert "kept" in index
    assert not (tmp_path / "index" / "writer.lock").exists()


HOLDER = """
import sys, time
from pam_retriever import PredictiveAssociativeIndex
index = PredictiveAssociativeIndex.open(sys.argv[1], dim=2)
index.add([[1, 2]], ["kept"])
print("open", flush=True)
time.sleep(60)
"""


# ---- disks that fail


class Limit:
    """Limits the size of files, as a full disk does."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


def test_a_full_disk_fails_the_call_and_the_index_still_answers(tmp_path):
    with make(tmp_path / "index") as index:
        before, hits = contents(index), index.recall("m0")
        for change in (
            lambda: index.add(np.ones((200, 3)), [f"new{n}" for n in range(200)]),
            lambda: index.fit(config=SMALL, seed=1, progress=False),
            lambda: index.save(tmp_path / "saved"),
        ):
            with Limit(1000), pytest.raises(StorageError, match="as it was"):
                change()
            assert contents(index) == before
            assert index.recall("m0") == hits
        assert sorted(path.name for path in tmp_path.iterdir()) == ["index"]
        index.save(tmp_path / "saved")
        index.add(np.ones((1, 3)), ["room again"])
    assert check(tmp_path / "index") == check(tmp_path / "saved") == []
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == 9


def test_a_close_without_disk_space_for_the_checksum_loses_nothing(tmp_path):
    index = make(tmp_path / "index")
    with Limit(10), pytest.warns(RuntimeWarning, match="without a checksum"):
        index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == 8


@pytest.mark.parametrize("gone", ["removed", "moved", "replaced", "a file"])
def test_a_folder_that_goes_away_fails_the_call_and_the_index_still_answers(tmp_path, gone):
    path = tmp_path / "index"
    index = make(path)
    before = contents(index)
    if gone == "removed":
        shutil.rmtree(path)
    else:
        path.rename(tmp_path / "elsewhere")
    if gone == "replaced":
        shutil.copytree(tmp_path / "elsewhere", path)
    elif gone == "a file":
        path.write_text("in its place")
    for change in (lambda: index.add(np.ones((1, 3))), lambda: index.fit(config=SMALL, progress=False)):
        with pytest.raises(StorageError, match="removed, moved or replaced"):
            change()
    assert contents(index) == before
    assert index.recall("m0")
    index.save(tmp_path / "rescued")
    with pytest.warns(RuntimeWarning, match="removed, moved or replaced"):
        index.close()
    assert len(PredictiveAssociativeIndex.load(tmp_path / "rescued")) == 8
    if gone == "replaced":
        assert check(path) == []


def test_a_folder_whose_permissions_go_fails_the_call_and_close_warns(tmp_path, monkeypatch):
    """Root may read every folder, so the test simulates the refusal of the system."""
    index, path = make(tmp_path / "index"), tmp_path / "index"
    before = contents(index)

    def refusing(real):
        def refuse(at, **more):
            if isinstance(at, str | Path) and path in (Path(at), Path(at).parent):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(at))
            return real(at, **more)

        return refuse

    with monkeypatch.context() as patched:
        for name in ("stat", "scandir"):
            patched.setattr(os, name, refusing(getattr(os, name)))
        with pytest.raises(StorageError, match=r"Permission denied.*who may read"):
            index.add(np.ones((1, 3)))
        assert contents(index) == before
        with pytest.warns(RuntimeWarning) as warned:
            index.close()
    assert [str(one.message).split(":")[0] for one in warned] == [
        "Older files of the index were not removed",
        "The index was closed without a checksum",
    ]
    with PredictiveAssociativeIndex.open(path) as index:
        assert contents(index) == before


def test_a_path_that_is_no_unicode(tmp_path):
    """A name on Linux is any bytes; Python shows those that are no UTF-8 as lone surrogates."""
    path = tmp_path / os.fsdecode(b"index-\xff")
    with make(path) as index:
        before = contents(index)
        index.save(tmp_path / os.fsdecode(b"copy-\xfe"))
    with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
        reader.save(tmp_path / os.fsdecode(b"copy-\xfd"))
    for name in (b"index-\xff", b"copy-\xfe", b"copy-\xfd"):
        assert contents(PredictiveAssociativeIndex.load(tmp_path / os.fsdecode(name))) == before


def test_a_folder_that_may_not_be_written_can_be_read(saved, tmp_path, monkeypatch):
    """Root may write to every folder, so the test simulates the refusal of the system."""
    real = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_CREAT and str(saved) in str(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageError, match=r"Permission denied.*read_only=True"):
        PredictiveAssociativeIndex.open(saved)
    before = sorted(path.name for path in saved.iterdir())
    with PredictiveAssociativeIndex.open(saved, read_only=True) as index:
        assert index.recall("m0")
        with pytest.raises(ReadOnlyIndex):
            index.delete("m0")
    assert sorted(path.name for path in saved.iterdir()) == before


def test_a_folder_that_may_not_be_read_is_named(saved, monkeypatch):
    """Root may read every folder, so the test simulates the refusal of the system."""
    real = os.stat

    def refuse(path, **more):
        if Path(path).parent == saved:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **more)

    monkeypatch.setattr(os, "stat", refuse)
    for call in (
        lambda: PredictiveAssociativeIndex.open(saved),
        lambda: PredictiveAssociativeIndex.open(saved, read_only=True),
        lambda: PredictiveAssociativeIndex.load(saved),
        lambda: check(saved),
    ):
        with pytest.raises(StorageError, match=r"Permission denied.*who may read"):
            call()


def test_a_file_of_an_index_that_may_not_be_read_is_not_called_missing(saved, monkeypatch):
    real, file = os.stat, saved / "predictor.safetensors"

    def refuse(path, **more):
        if path == file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **more)

    check_file(saved / MANIFEST, None)
    with pytest.raises(IndexFormatError, match="is missing"):
        check_file(file, None)
    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(StorageError, match=r"Permission denied.*who may read"):
        check_file(file, None)


def test_every_disk_error_names_a_remedy():
    for number, advice in faults.ADVICE.items():
        with pytest.raises(StorageError, match=re.escape(advice)), faults.explained(Path("x")):
            raise OSError(number, os.strerror(number), "x")


# ---- check and repair


def test_a_sound_index_is_sound_open_closed_and_killed(tmp_path, capsys):
    with make(tmp_path / "index"):
        assert check(tmp_path / "index") == []
        shutil.copytree(tmp_path / "index", tmp_path / "killed")
    assert check(tmp_path / "index") == check(tmp_path / "killed") == []
    assert repair(tmp_path / "index") == []
    assert main(["check", str(tmp_path / "index")]) == main(["repair", str(tmp_path / "index")]) == 0
    assert capsys.readouterr().out.count("is sound") == 2
    assert main(["check", str(tmp_path)]) == 2


@pytest.mark.parametrize("follow", [False, True])
def test_a_reader_checks_every_memory_that_a_killed_writer_left(saved, follow):
    """The file has no checksum of its own then."""
    (database,) = saved.glob("memories-*.sqlite")
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "database_sha256": None}))
    PredictiveAssociativeIndex.open(saved, read_only=True, follow=follow).close()
    database.write_bytes(database.read_bytes().replace(b"text m3", b"text mX"))
    with pytest.raises(IndexFormatError, match=r"'m3'.*checksum differs"):
        PredictiveAssociativeIndex.open(saved, read_only=True, follow=follow)


def test_a_damaged_memory_is_named_left_out_and_the_rest_is_kept(saved, capsys):
    (database,) = saved.glob("memories-*.sqlite")
    damaged = database.read_bytes().replace(b"text m3", b"text mX")
    assert damaged != database.read_bytes()
    database.write_bytes(damaged)
    assert main(["check", str(saved)]) == 1
    out = capsys.readouterr().out
    assert "checksum differs" in out
    assert "'m3'" in out
    with pytest.raises(IndexFormatError, match="damaged"):
        PredictiveAssociativeIndex.load(saved)
    lines = repair(saved)
    assert any("lost: memory" in line and "m3" in line for line in lines)
    assert any("computed anew" in line for line in lines)
    assert check(saved) == []
    (kept,) = saved.glob("damaged-*")
    assert kept.read_bytes() == damaged
    with PredictiveAssociativeIndex.open(saved) as index:
        assert sorted(r.id for r in index.find()) == ["m0", "m1", "m2", "m4", "m5", "m6", "m7"]
        assert {hit.id for hit in index.recall("m5", faithful=True)} == {"m4", "m6"}
        assert {hit.id for hit in index.recall("m2", faithful=True)} == {"m1"}  # the position of m3 stays empty


def test_repair_reports_lost_weights(saved):
    next(saved.glob("predictor-*")).unlink()
    assert "missing" in check(saved)[0]
    assert any("call fit() again" in line for line in repair(saved))
    with PredictiveAssociativeIndex.open(saved) as index:
        assert len(index) == 8
        assert not index.is_fitted
        index.fit(window=1, config=SMALL, progress=False)  # the trajectories are still stored
        assert {hit.id for hit in index.recall("m5", faithful=True)} == {"m4", "m6"}


@pytest.mark.parametrize("change", ["", '{"format": "pam-retriever-index", "format_version": 1}'])
def test_a_lost_manifest_is_rebuilt_from_the_database(saved, change):
    before = contents(PredictiveAssociativeIndex.load(saved))
    (saved / "manifest.json").write_text(change)
    assert len(check(saved)) == 1
    repair(saved)
    assert contents(PredictiveAssociativeIndex.load(saved)) == before


def test_association_vectors_that_are_not_f_are_noticed_and_rebuilt(saved):
    with PredictiveAssociativeIndex.open(saved) as index:
        expected = [(hit.id, round(hit.score, 4)) for hit in index.recall("m0")]
        with index._store.database.transaction():
            _, stored = index._store.database.memories.stored(
                np.array([2]), index.dim, index._store.predictor.config.width
            )
            wrong = np.concatenate([np.ones((1, index.dim), np.float32), stored[:, index.dim :]], axis=1)
            index._store.database.memories.set_associations(np.array([2]), wrong)
    assert "1 association vectors are not f" in check(saved)[0]
    repair(saved)
    with PredictiveAssociativeIndex.open(saved) as index:
        assert [(hit.id, round(hit.score, 4)) for hit in index.recall("m0")] == expected


def test_a_page_that_cannot_be_read_costs_its_rows_only(tmp_path):
    with make(tmp_path / "index", memories=400):
        pass
    (database,) = (tmp_path / "index").glob("memories-*.sqlite")
    damaged = bytearray(database.read_bytes())
    at = damaged.index(b"text m200") // 4096 * 4096
    damaged[at : at + 4096] = b"\xff" * 4096
    database.write_bytes(damaged)
    assert check(tmp_path / "index")
    lines = repair(tmp_path / "index")
    assert check(tmp_path / "index") == []
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert 200 < len(index) < 400
        assert "m200" not in index
        assert any("lost" in line for line in lines)
        assert len(index.recall("m0", k=1000)) == len(index) - 1


def test_a_failed_repair_does_not_change_the_folder(saved, tmp_path):
    (database,) = saved.glob("memories-*.sqlite")
    database.write_bytes(b"not a database" * 100)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(IndexFormatError, match="Nothing can be read"):
        repair(saved)
    assert before == {path.name: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(IndexFormatError, match="manifest"):
        check(tmp_path)


def test_a_newer_format_is_refused_by_name_and_not_repaired(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(
        json.dumps({**manifest, "format_version": 99, "library_version": "7.0", "database": "elsewhere"})
    )
    for attempt in (check, repair, PredictiveAssociativeIndex.load, PredictiveAssociativeIndex.open):
        with pytest.raises(IndexFormatError, match=r"99.*'7\.0'.*Upgrade"):
            attempt(saved)


# ---- the format


def test_the_same_contents_give_the_same_bytes(planted, tmp_path):
    for name in ("first", "second"):
        index = PredictiveAssociativeIndex(dim=DIM)
        index.add(planted.vectors[:50], planted.ids[:50], metadatas=[{"n": n} for n in range(50)])
        index.save(tmp_path / name)
    PredictiveAssociativeIndex.load(tmp_path / "first").save(tmp_path / "third")
    index.save(tmp_path / "second", overwrite=True)
    files = [{path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("first", "second", "third")]
    assert files[0] == files[1] == files[2]


def test_a_fitted_index_loaded_and_saved_again_is_the_same_bytes(fitted, tmp_path):
    fitted.save(tmp_path / "first")
    PredictiveAssociativeIndex.load(tmp_path / "first").save(tmp_path / "second")
    with PredictiveAssociativeIndex.open(tmp_path / "second"):
        pass  # opened for writing and closed again
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("first", "second"))
    assert first == second
    assert PredictiveAssociativeIndex.load(tmp_path / "second").recall("m044") == fitted.recall("m044")


@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.iterdir()))
def test_an_index_of_each_format_is_read(version, tmp_path):
    """This version reads an index of every format: tests/golden/<format version>, written once and never changed."""
    expected = json.loads((GOLDEN / version / "answers.json").read_text())
    shutil.copytree(GOLDEN / version / "index", tmp_path / "index")
    assert check(tmp_path / "index") == []
    loaded = PredictiveAssociativeIndex.load(tmp_path / "index")
    opened = PredictiveAssociativeIndex.open(tmp_path / "index")
    for index in (loaded, opened):
        found = [(r.id, r.vector.tolist(), r.text, r.metadata) for r in index.find()]
        assert found == [(r["id"], r["vector"], r["text"], r["metadata"]) for r in expected["records"]]
        assert index._store.database.settings.get("note:embedder") == expected["note"]
        hits = index.recall("m0", k=3, faithful=True, explain=True)
        assert [[h.id, h.evidence[0].offset] for h in hits] == expected["recall"]
        assert [h.score for h in hits] == pytest.approx(expected["scores"], abs=1e-4)
        kept = [[f.id, f.vector.tolist(), f.text, f.used, f.metadata, f.timestamp] for f in index.feedbacks()]
        assert kept == expected.get("feedback", [])  # format 1 has no feedback
        if kept:
            found = index.recall([1.0, 0.1, 0.0], text="words é").ids
            assert sorted(found) == sorted(expected["asked"])  # the order depends on the current priors
            assert found[0] == "m1"  # a stored request is the same, and used this memory
    opened.close()


@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_copy_of_an_index_of_each_format_is_whole(version, tmp_path):
    """The weights of format 1 have other bytes when they are written now, and so another name."""
    shutil.copytree(GOLDEN / version / "index", tmp_path / "index")
    with (
        PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as reader,
        PredictiveAssociativeIndex.open(tmp_path / "index") as writer,
        PredictiveAssociativeIndex.load(tmp_path / "index") as loaded,
    ):
        for name, index in {"reader": reader, "writer": writer, "loaded": loaded}.items():
            index.save(tmp_path / name)
            assert check(tmp_path / name) == []
            assert PredictiveAssociativeIndex.load(tmp_path / name).recall("m0", k=3) == writer.recall("m0", k=3)


def test_the_name_of_the_embedder_is_stored_and_that_of_format_1_is_read(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 3) as index:
        assert index.embedder_name is None
        with index._store.database.transaction():
            index._store.database.settings.set("note:embedder", "MiniLM")  # as in format 1
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.embedder_name == "MiniLM"
        index._store.set_embedder("other")
    with PredictiveAssociativeIndex.load(tmp_path / "index") as index:
        assert index.embedder_name == "other"


@pytest.mark.parametrize("folder", [False, True])
def test_an_interrupt_after_the_commit_leaves_what_was_committed(planted, tmp_path, monkeypatch, folder):
    """If a call is interrupted after its commit, the index has the committed state: for ``fit`` and for changes."""
    index = PredictiveAssociativeIndex.open(tmp_path / "i", DIM) if folder else PredictiveAssociativeIndex(DIM)
    index.add(planted.vectors, planted.ids)

    def interrupted(*_):
        raise KeyboardInterrupt

    for change in (
        lambda: index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False),
        lambda: index.add(-planted.vectors[:1], ["late"]),
        lambda: index.delete("m007"),
        lambda: index.observe(["m001", "late"]),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(type(index._store), "apply_after_commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                change()
    assert index.is_fitted and index._store.window == WINDOW
    assert index.search(-planted.vectors[0], k=1)[0].id == "late"
    assert len(index.search(planted.vectors[7], k=500)) == len(index) == 200
    assert "late" in {hit.id for hit in index.recall("m001", k=300, faithful=True)}
    index.close()


# ---- threads


def test_fit_commits_at_once_and_includes_changes_made_meanwhile(planted, monkeypatch):
    """Changes during the preparation of ``fit`` (additions, replacements, deletions) still hold after it."""
    from pam_retriever.store.sqlite.rebuild import SQLiteRebuild

    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(planted.vectors, planted.ids)
    prepared, go_on = threading.Event(), threading.Event()
    real = SQLiteRebuild.prepare

    def prepare(self, *arguments):
        real(self, *arguments)
        prepared.set()
        assert go_on.wait(30)

    monkeypatch.setattr(SQLiteRebuild, "prepare", prepare)
    fitting = threading.Thread(
        target=lambda: index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False), daemon=True
    )
    fitting.start()
    assert prepared.wait(120)
    index.add(-planted.vectors[:1], ["new"])
    index.add(-planted.vectors[7:8], ["m007"])
    index.delete(["m150"])
    assert not index.is_fitted
    assert len(index.search(planted.vectors[0], k=500)) == 200
    go_on.set()
    fitting.join()
    everything = {hit.id for hit in index.recall("m000", k=500)} | {"m000"}
    assert everything == (set(planted.ids) | {"new"}) - {"m150"}
    for id in ("new", "m007", "m050"):
        own = index._store.database.memories.rows_of([id])[id]
        keys = index._store.associative.keys(np.array([own]))[0]
        f = index._store.view().predict(index.get([id])[0].vector[None])[0, :DIM]
        np.testing.assert_allclose(keys[DIM : 2 * DIM], f, atol=1e-5)
        stored = index._store.database.connection.fetch("SELECT association FROM vectors WHERE row = ?", [own])[0][0]
        np.testing.assert_allclose(np.frombuffer(stored, "<f4"), keys[DIM:], atol=1e-5)
    assert index._store.database.noted == []


def test_readers_are_let_in_together_and_a_writer_alone():
    from pam_retriever.store.readwrite import ReadWriteLock

    lock, inside, seen = ReadWriteLock(), [], []
    both = threading.Barrier(2)

    def read() -> None:
        with lock.shared(), lock.shared():
            both.wait(10)  # passes only if two readers hold the lock at the same time

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()

    def write(number: int) -> None:
        for _ in range(200):
            with lock.exclusive(), lock.exclusive():
                inside.append(number)
                seen.append(len(inside))
                inside.remove(number)

    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert set(seen) == {1}
    with lock.shared(), pytest.raises(InvalidInput, match="only reads"), lock.exclusive():
        pass


def test_a_memory_keeps_one_checksum_whoever_writes_it():
    """A checksum depends only on the contents of a memory, and distinguishes their parts."""
    assert columns.checksum("a", None, "{}", b"\0\0\0\0") == columns.checksum("a", None, "{}", b"\0\0\0\0")
    parts = {columns.checksum(*p) for p in (("a", "b", "{}", b"1"), ("ab", "", "{}", b"1"), ("a", None, "b{}", b"1"))}
    assert len(parts) == 3


def test_a_full_disk_after_the_training_reports_stored_data(tmp_path, monkeypatch):
    """The predictor is stored before the weights of the evidence; an error between the two says so."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=4) as index:
        index.add(np.eye(4), ["a", "b", "c", "d"])
        index.observe(["a", "b"])

        def full(*_: object) -> None:
            raise StorageError("The disk is full.", "room", "Make room.")

        with monkeypatch.context() as patched:
            patched.setattr(index._store, "set_setting", full)
            with pytest.raises(StorageError, match=r"trajectories is stored already.*Make room\. Then call fit again"):
                index.fit(config=QUICK, progress=False)
            assert index.is_fitted
            index.feedback(np.ones(4), ["a"])
            with pytest.raises(StorageError) as raised:
                index.fit(config=QUICK, progress=False)  # there are no trajectories to learn from
            assert "stored already" not in str(raised.value)
        assert index.fit(config=QUICK, progress=False).requests == 1
