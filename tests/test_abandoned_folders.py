"""The next call removes the hidden folder of a killed ``open`` or ``save``; an index can be on a mount."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder import lock
from pam_retriever.store.folder.lock import WriterLock
from pam_retriever.store.folder.unfinished import remove_abandoned

# kills a call after it has written the database, and before the manifest
BEFORE_THE_MANIFEST = """
import os, signal, sys
from pathlib import Path
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.folder import snapshot
call, folder = sys.argv[1], Path(sys.argv[2])
index = PredictiveAssociativeIndex(dim=2)
write_manifest = snapshot.write_manifest
def interrupted(*arguments):
    if call.startswith("live"):
        print("writing", flush=True)
        sys.stdin.readline()
        return write_manifest(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
snapshot.write_manifest = interrupted
if call.endswith("open"):
    PredictiveAssociativeIndex.open(folder, dim=2).close()
else:
    index.save(folder)
"""


def run(call: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BEFORE_THE_MANIFEST, call, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def kill(call: str, folder: Path) -> None:
    with run(call, folder) as process:
        assert process.wait() == -9


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("call", ["open", "save"])
def test_a_killed_call_leaves_nothing_after_the_next(tmp_path, call):
    folder = tmp_path / "index"
    kill(call, folder)
    kill(call, folder)
    assert len(names(tmp_path)) == 1  # the hidden folder of the second call, which removed the first
    with PredictiveAssociativeIndex.open(folder, dim=2):
        assert names(tmp_path) == ["index"]


# kills a ``save`` over another index before or after it has written the manifest
OVERWRITE = """
import os, signal, sys
import numpy as np
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.folder import snapshot
index = PredictiveAssociativeIndex(dim=2)
index.add(np.eye(2), ["a", "c"], ["a secret", "after"])
write_manifest = snapshot.write_manifest
def interrupted(*arguments):
    if sys.argv[1] == "after":
        write_manifest(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
snapshot.write_manifest = interrupted
index.save(sys.argv[2], overwrite=True)
"""


def test_a_save_over_an_index_removes_the_files_that_a_killed_one_did_not_finish(tmp_path):
    folder = tmp_path / "index"
    index = PredictiveAssociativeIndex(dim=2)
    index.save(folder)
    (database,) = folder.glob("memories-*.sqlite")
    for left in (f"{database.name}.new", f"{database.name}.new-wal", "manifest.json.new"):
        (folder / left).write_bytes(b"a secret")
    index.save(folder, overwrite=True)
    assert names(folder) == ["manifest.json", database.name]


@pytest.mark.parametrize(("when", "others"), [("before", ["a", "b"]), ("after", ["a", "c"])])
@pytest.mark.parametrize("does", ["closes", "erases"])
def test_a_killed_save_over_an_index_leaves_no_copy_of_deleted_data(tmp_path, when, others, does):
    """The database that the manifest does not name holds the same memories; the next writer removes it."""
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, dim=2) as index:
        index.add(np.eye(2), ["a", "b"], ["a secret", "before"])
    assert subprocess.run([sys.executable, "-c", OVERWRITE, when, str(folder)], check=False).returncode == -9
    assert len(list(folder.glob("memories-*.sqlite"))) == 2
    with PredictiveAssociativeIndex.open(folder) as index:
        assert [record.id for record in index.find()] == others
        if does == "erases":
            assert len(index.erase(["a"]).overwritten) == 1
        else:
            index.delete("a")
    assert names(folder)[0] == "manifest.json"
    assert len(names(folder)) == 2
    assert not any(b"a secret" in path.read_bytes() for path in folder.iterdir())


def test_a_database_that_cannot_be_removed_is_named_by_erase(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add(np.eye(2), ["a", "b"])
        left = tmp_path / "index" / "memories-0123456789ab.sqlite"
        left.mkdir()  # what ``unlink`` refuses, whoever calls it
        assert index.erase(["a"]).remaining == (left.name,)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == 1


@pytest.mark.parametrize("call", ["open", "save"])
def test_what_a_live_call_writes_stays(tmp_path, call):
    folder = tmp_path / "index"
    with run(f"live {call}", folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        for other in ("index", "indexes"):
            PredictiveAssociativeIndex(dim=2).save(tmp_path / other, overwrite=True)
        hidden = [name for name in names(tmp_path) if name.startswith(".index-")]
        assert len(hidden) == 1
        process.communicate("go on\n")
    assert names(tmp_path) == ["index", "indexes"]
    PredictiveAssociativeIndex.load(folder)


@pytest.mark.parametrize("removed", [False, True], ids=["locked", "removed"])
def test_a_hidden_folder_that_another_process_takes_for_abandoned_is_made_again(tmp_path, monkeypatch, removed):
    """A new hidden folder looks abandoned until its file is locked; if another process takes it, it is made again."""
    lock_file, locks = lock._lock, []

    def taken_first(file: FileIO) -> None:
        monkeypatch.setattr(lock, "_lock", lock_file)
        (made,) = tmp_path.glob(".index-*")
        if removed:
            remove_abandoned(tmp_path / "index")
            assert not made.exists()
        else:
            locks.append(WriterLock(made))
        lock_file(file)

    monkeypatch.setattr(lock, "_lock", taken_first)
    PredictiveAssociativeIndex.open(tmp_path / "index", dim=2).close()
    for one in locks:
        one.release()
    assert names(tmp_path) == ["index"]


def test_a_file_system_without_locks_is_an_error_that_says_so(tmp_path, monkeypatch):
    def refuse(file: FileIO) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_lock", refuse)
    with pytest.raises(StorageError, match="No locks available"):
        PredictiveAssociativeIndex.open(tmp_path / "index", dim=2)
    assert names(tmp_path) == []


def test_what_only_has_such_a_name_stays(tmp_path):
    """A folder with the name of an abandoned folder, but with other contents, is not removed."""
    PredictiveAssociativeIndex(dim=2).save(tmp_path / ".index-of_notes")
    (tmp_path / ".index-of_notes" / "writer.lock").touch()
    (tmp_path / ".index-12345678").mkdir()
    (tmp_path / ".index-12345678" / "writer.lock").touch()
    (tmp_path / ".index-12345678" / "mine.txt").touch()
    for other in (".index-of.notes", "notes"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "writer.lock").touch()
    (tmp_path / ".index-abcdefgh").symlink_to(tmp_path / "notes")
    before = set(tmp_path.rglob("*"))
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2):
        assert {path for path in tmp_path.rglob("*") if tmp_path / "index" not in (path, path.parent)} == before


@pytest.mark.parametrize("call", ["open", "save"])
def test_the_folders_around_a_new_index_are_made(tmp_path, call):
    folder = tmp_path / "data" / "of" / "index"
    if call == "open":
        PredictiveAssociativeIndex.open(folder, dim=2).close()
    else:
        PredictiveAssociativeIndex(dim=2).save(folder)
    assert len(PredictiveAssociativeIndex.load(folder)) == 0


@pytest.fixture
def mounted(tmp_path) -> Iterator[Path]:
    """Mounts a separate file system, as a container does."""
    folder, libc = tmp_path / "index", ctypes.CDLL(None)
    folder.mkdir()
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=4m"):
        pytest.skip("mounting takes a right that is not there")
    (folder / "lost+found").mkdir()
    yield folder
    assert libc.umount(str(folder).encode()) == 0


@pytest.mark.parametrize("call", ["open", "save"])
def test_a_mount_becomes_the_home_of_an_index(mounted, call):
    kill(call, mounted)
    assert "manifest.json" not in names(mounted)
    with PredictiveAssociativeIndex.open(mounted, dim=2) as index:
        index.add(np.eye(2), ["a", "b"])
    with PredictiveAssociativeIndex.open(mounted) as index:
        assert len(index) == 2
    assert [name for name in names(mounted) if name.startswith((".", "lost"))] == ["lost+found"]


def test_a_mount_in_which_a_call_failed_is_empty_again(mounted, monkeypatch):
    replace = Path.replace

    def fail(path: Path, to: Path) -> Path:
        if to == mounted / "manifest.json":
            assert list(mounted.glob("memories-*.sqlite"))  # a kill between the two leaves no manifest without one
            raise OSError(errno.ENOSPC, "no space")
        return replace(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(StorageError):
            PredictiveAssociativeIndex.open(mounted, dim=2)
    assert names(mounted) == ["lost+found"]
    PredictiveAssociativeIndex.open(mounted, dim=2).close()


def test_a_mount_with_something_else_is_refused(mounted):
    (mounted / "notes.txt").touch()
    with pytest.raises(InvalidInput, match="not empty"):
        PredictiveAssociativeIndex(dim=2).save(mounted)
