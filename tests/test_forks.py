"""A forked child uses its own index or gets an error; the parent's index is never damaged."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import IndexForked, PredictiveAssociativeIndex
from pam_retriever.store.folder import forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
DIM = 8
PATIENCE = 60  # seconds; a child that hangs is killed


def filled(path: Path | None) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM) if path is None else PredictiveAssociativeIndex.open(path, DIM)
    index.add(np.random.default_rng(1).normal(size=(20, DIM)), [f"m{at}" for at in range(20)], ["a word"] * 20)
    return index


def in_child(does: Callable[[], object], leave: Callable[[int], object] = os._exit) -> None:
    """Runs a function in a forked child; fails if it raises, or hangs."""
    child = os.fork()
    if not child:
        code = 1
        try:
            does()
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            leave(code)
    assert ended(child) == 0


def ended(child: int) -> int:
    for _ in range(PATIENCE * 100):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def is_unharmed(index: PredictiveAssociativeIndex, path: Path | None) -> None:
    """Checks that the index can be written, closed and opened again."""
    index.add(np.ones((1, DIM)), ["later"])
    index.delete("m3")
    assert (len(index), index.search(np.ones(DIM), 1)[0].id) == (20, "later")
    if path is not None:
        with pytest.raises(OSError, match="open for writing"):
            PredictiveAssociativeIndex.open(path)
        files = {one.name for one in path.iterdir()}
        assert any(name.endswith("-wal") for name in files)
        index.close()
        with PredictiveAssociativeIndex.open(path) as again:
            assert (len(again), "later" in again, "m3" in again) == (20, True, False)


def every_call(index: PredictiveAssociativeIndex) -> None:
    calls = [
        lambda: index.search(np.ones(DIM)),
        lambda: index.recall(np.ones(DIM), text="a word"),
        lambda: index.add(np.ones((1, DIM)), ["child"]),
        lambda: index.append("s", vector=np.ones(DIM)),
        lambda: index.delete("m1"),
        lambda: index.fit(progress=False),
        lambda: index.feedback(np.ones(DIM), ["m1"]),
        lambda: len(index),
        lambda: "m1" in index,
        lambda: index.find(),
        lambda: index.tenants(),
        lambda: index.save("/nowhere"),
        lambda: index.observe_many([]),
        lambda: index.recall_next_many([]),
        lambda: index.explore(browser=False, wait=False).close(),
    ]
    for call in calls:
        with pytest.raises(IndexForked, match="forked"):
            call()


@pytest.mark.parametrize("kept", [True, False])
def test_a_forked_child_gets_index_forked_and_changes_nothing(tmp_path, kept):
    path = tmp_path / "i" if kept else None
    index = filled(path)
    in_child(lambda: every_call(index))
    is_unharmed(index, path)


def test_a_child_that_leaves_the_with_closes_nothing(tmp_path):
    """A forked child that leaves the ``with`` block of an index does not close the index of its parent."""

    def does() -> None:
        with index:
            pass
        index.close()

    index = filled(tmp_path / "i")
    in_child(does)
    is_unharmed(index, tmp_path / "i")


EXITS = """
import os, sys
from pathlib import Path
import test_forks

path = Path(sys.argv[1])
index = test_forks.filled(path)
child = os.fork()
if not child:
    with index:
        pass
    sys.exit()  # runs the exit handlers, unlike os._exit
assert test_forks.ended(child) == 0
test_forks.is_unharmed(index, path)
"""


def test_a_child_that_runs_its_exit_handlers_closes_nothing(tmp_path):
    """A child may run its exit handlers. A new process forks it, because the handler of Milvus Lite would crash."""
    found = subprocess.run(
        [sys.executable, "-c", EXITS, str(tmp_path / "i")],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def test_a_child_that_collects_the_index_releases_nothing(tmp_path):
    box = [filled(tmp_path / "i")]

    def does() -> None:
        box.clear()
        gc.collect()

    in_child(does)
    is_unharmed(box[0], tmp_path / "i")


def test_a_child_opens_an_index_of_its_own(tmp_path):
    index = filled(tmp_path / "i")
    read, write = os.pipe()

    def does() -> None:
        with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=True) as reader:
            assert len(reader) >= 20
            assert os.read(read, 1) == b"."
            assert reader.search(np.ones(DIM), 1)[0].id == "later"

    child = os.fork()
    if not child:
        code = 1
        try:
            does()
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        os._exit(code)
    index.add(np.ones((1, DIM)), ["later"])
    os.write(write, b".")
    assert ended(child) == 0
    index.delete("later")
    is_unharmed(index, tmp_path / "i")


def test_a_child_that_sleeps_keeps_no_lock_of_a_dead_writer(tmp_path):
    """If a process forks and ends, the child that still runs does not hold the lock of the index."""
    read, write = os.pipe()
    parent = os.fork()
    if not parent:
        index = filled(tmp_path / "i")
        child = os.fork()
        if not child:
            time.sleep(2 * PATIENCE)
            os._exit(0)
        os.write(write, str(child).encode())
        assert len(index) == 20
        os._exit(0)
    assert ended(parent) == 0
    try:  # a child that has run has released its copy of the lock
        with PredictiveAssociativeIndex.open(tmp_path / "i", lock_timeout=PATIENCE) as index:
            assert len(index) == 20
    finally:
        os.kill(int(os.read(read, 20)), signal.SIGKILL)


def test_forks_beside_threads_that_read_and_write(tmp_path):
    index = filled(tmp_path / "i")
    done = threading.Event()
    wrong: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for at in range(10**6):
                if done.is_set():
                    return
                index.add(np.ones((2, DIM)), [f"t{me}-{at}", f"u{me}-{at}"])
                index.search(np.ones(DIM), 3)
                index.delete([f"t{me}-{at}", f"u{me}-{at}"])
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()

    def does() -> None:
        with pytest.raises(IndexForked):
            index.search(np.ones(DIM))
        index.close()
        with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True) as reader:
            assert len(reader) >= 20

    try:
        for _ in range(10):
            in_child(does)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong
    is_unharmed(index, tmp_path / "i")


def count(path: str) -> int:
    with PredictiveAssociativeIndex.open(path, read_only=True, follow=True) as reader:
        return len(reader)


def test_a_pool_of_forked_workers(tmp_path):
    index = filled(tmp_path / "i")
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(count, [str(tmp_path / "i")] * 6) == [20] * 6
        index.add(np.ones((1, DIM)), ["more"])
        assert pool.map(count, [str(tmp_path / "i")] * 6) == [21] * 6
    index.delete("more")
    is_unharmed(index, tmp_path / "i")


SEARCHES = """
import sys
import numpy as np
import test_forks
from pam_retriever import PredictiveAssociativeIndex

path, vectors = sys.argv[1], np.random.default_rng(0).standard_normal((3_000, 16))
index = PredictiveAssociativeIndex.open(path, 16, sys.argv[2])
index.add(vectors, [f"m{at}" for at in range(3_000)])
index.search_many(vectors, k=3)

def reads():
    with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
        assert [hits[0].id for hits in reader.search_many(vectors, k=3)] == [f"m{at}" for at in range(3_000)]

def writes():
    with PredictiveAssociativeIndex.open(path) as writer:
        writer.add(-vectors[:200], [f"n{at}" for at in range(200)])
        assert writer.search(-vectors[7], k=1)[0].id == "n7"

test_forks.in_child(reads)
index.close()
test_forks.in_child(reads)
test_forks.in_child(writes)
"""


FITS = """
import sys
import numpy as np
import test_forks
from pam_retriever import FitConfig, PredictiveAssociativeIndex

def fits():
    with PredictiveAssociativeIndex.open(sys.argv[1], 64, sys.argv[2]) as index:
        ids = [f"m{at}" for at in range(60)]
        index.add(np.random.default_rng(0).standard_normal((60, 64)), ids)
        for at in range(20):
            index.feedback(np.ones(64), [ids[at], ids[3 * at]], text=f"which {at % 7}?")
        index.fit([ids[at : at + 6] for at in range(0, 60, 6)], config=FitConfig(passes=1), progress=False)

fits()
test_forks.in_child(fits)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "backend"),
    [(SEARCHES, "faiss:ivf,sq8"), (SEARCHES, "faiss:ivf,pq"), (SEARCHES, "faiss:hnsw"), (FITS, "faiss")],
)
def test_a_child_of_a_process_with_threads_of_openmp_searches_and_fits(tmp_path, does, backend):
    """The threads of OpenMP do not exist in a child, and GNU's would be awaited for ever."""
    found = subprocess.run(
        [sys.executable, "-c", does, str(tmp_path / "i"), backend],
        cwd=Path(__file__).parent,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert found.returncode == 0, found.stderr


class Held:
    """Records whether a fork holds it still; ``error`` is raised instead."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error, self.held, self.released = error, False, False

    def hold_still(self, timeout: float) -> bool:
        if self.error is not None:
            raise self.error
        self.held = True
        return True

    def go_on(self) -> None:
        self.held = False

    def in_child(self, still: bool) -> None:
        assert still == self.held
        self.released = True


@pytest.fixture
def nothing_open(monkeypatch):
    """No index is registered: these tests leave objects that raise an error, until Python collects them."""
    for name in ("_inherited", "_folders"):
        monkeypatch.setattr(forking, name, weakref.WeakValueDictionary())
    monkeypatch.setattr(forking, "_calls", [])


@pytest.mark.usefixtures("nothing_open")
def test_an_interrupt_before_a_fork_leaves_no_index_locked():
    held, interrupted = Held(), Held(KeyboardInterrupt())
    forking.tell_of_forks(held)
    forking.tell_of_forks(interrupted, folder=True)  # folders come last
    with pytest.raises(KeyboardInterrupt):
        forking._before()
    assert held.held
    forking._in_parent()
    assert not held.held


@pytest.mark.usefixtures("nothing_open")
def test_a_child_of_an_interrupted_fork_shares_no_index():
    """Python prints what is raised before a fork, and forks nevertheless."""
    all_of_them = [Held(), Held(KeyboardInterrupt()), Held(), Held()]
    for one in all_of_them:
        forking.tell_of_forks(one, folder=one is all_of_them[-1])
    with pytest.raises(KeyboardInterrupt):
        forking._before()
    forking._in_child()  # as in a child
    assert all(one.released for one in all_of_them)


def test_a_fork_holds_all_still_while_another_thread_opens_an_index():
    done, kept = threading.Event(), [Held() for _ in range(100)]
    for one in kept:
        forking.tell_of_forks(one)

    def open_many() -> None:
        while not done.is_set():
            for one in (opened := [Held() for _ in range(1000)]):
                forking.tell_of_forks(one)
            del opened

    thread, before = threading.Thread(target=open_many), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(100):
            forking._before()
            assert all(one.held for one in kept)
            forking._in_parent()
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()
