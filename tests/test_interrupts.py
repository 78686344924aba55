"""After Ctrl-C an index agrees with its database and holds no lock; no thread starves."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import numpy as np
import pytest

from benchmarks.reliability.signals import CALLS, Campaign
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.errors import StorageError
from pam_retriever.experience import graph
from pam_retriever.locks import Mutex
from pam_retriever.store import key_indexes
from pam_retriever.store.folder.lock import WriterLock
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.sqlite import copies
from pam_retriever.store.sqlite.connection import Connection

PATIENCE = 60  # seconds; the test fails if a lock is not free within this time


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_reader_that_waited_goes_before_the_next_writer():
    lock, order = ReadWriteLock(), []

    def read() -> None:
        with lock.shared():
            order.append("reader")

    def write() -> None:
        with lock.exclusive():
            order.append("writer")

    for _ in range(20):
        order.clear()
        threads = [threading.Thread(target=write), threading.Thread(target=read)]
        with lock.exclusive():
            threads[0].start()
            until(lambda: len(lock._waiting) == 1)
            threads[1].start()
            until(lambda: len(lock._blocked) == 1)
        for thread in threads:
            thread.join(PATIENCE)
        assert order == ["reader", "writer"]


def test_a_writer_that_waited_goes_before_readers_that_come_later():
    lock, order = ReadWriteLock(), []

    def read() -> None:
        with lock.shared():
            order.append("reader")

    def write() -> None:
        with lock.exclusive():
            order.append("writer")

    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    with lock.shared():
        threads[0].start()
        until(lambda: len(lock._waiting) == 1)
        threads[1].start()
        until(lambda: len(lock._blocked) == 1)
        assert order == []
    for thread in threads:
        thread.join(PATIENCE)
    assert order == ["writer", "reader"]


def interrupted_at_any_call(
    function: Callable[[], object], after: Callable[[], object], files: Sequence[str] = ()
) -> int:
    """Runs ``function`` again and again, interrupted at each possible place in turn; returns the number of places.

    ``after`` is called after each interrupt. The places are those where Python handles signals: when a function begins,
    and when a built-in function has returned; with ``files``, only those in these files.
    """
    at, before = 0, 1

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        nonlocal before
        # in Python 3.10 an error here ends a generator that goes on without its ``finally``; a signal does not
        if sys.version_info < (3, 11) and event == "call" and frame.f_lasti >= 0:
            return
        if event in ("call", "c_return") and (not files or frame.f_code.co_filename in files):
            before -= 1
            if not before:
                raise KeyboardInterrupt

    while True:
        sys.setprofile(interrupt)
        try:
            function()
            return at
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        after()
        at += 1
        before = at + 1


@pytest.mark.parametrize("alone", [True, False])
def test_an_interrupt_at_any_call_of_the_lock_leaves_it_free(alone):
    lock, other = ReadWriteLock(), ThreadPoolExecutor(1)

    def enter() -> None:
        with lock.exclusive() if alone else lock.shared():
            pass

    def is_free() -> bool:
        with lock.exclusive(), lock.shared():
            return True

    assert interrupted_at_any_call(enter, lambda: other.submit(is_free).result(PATIENCE)) > 10
    other.shutdown()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that interrupts")
def test_an_interrupt_of_a_loop_leaves_a_mutex_free_while_its_traceback_lives():
    """From Python 3.14 on, ``with threading.RLock()`` alone leaves it locked; interactive sessions keep tracebacks."""
    other, random, kept = ThreadPoolExecutor(1), np.random.default_rng(4), list[BaseException]()

    def loop(mutex: Mutex) -> None:
        while True:
            with mutex, mutex:
                pass

    def take(mutex: Mutex) -> bool:
        return mutex.acquire(timeout=1) and mutex.release() is None

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(100):
            mutex = Mutex()
            try:
                signal.setitimer(signal.ITIMER_REAL, float(random.uniform(2e-5, 3e-4)))
                loop(mutex)
            except KeyboardInterrupt as error:
                kept.append(error)
            assert other.submit(take, mutex).result()
    finally:
        signal.signal(signal.SIGALRM, before)
    other.shutdown()


def test_an_interrupt_while_a_thread_waits_for_a_mutex_leaves_it_to_its_holder():
    mutex, inside, leave = Mutex(), threading.Event(), threading.Event()

    def hold() -> None:
        with mutex:
            inside.set()
            leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(PATIENCE)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt), mutex:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert mutex.elsewhere
    assert not mutex.acquire(blocking=False)
    leave.set()
    holder.join(PATIENCE)
    assert not mutex.elsewhere
    with mutex:
        assert not mutex.elsewhere


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Exception ignored (in|while):pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["tenant", "recall"])
def test_an_interrupt_at_any_call_of_a_query_locks_out_no_thread(tmp_path, kind):
    """Of locks that the library takes by ``with``, not only of the lock of readers and writers."""
    index, other = PredictiveAssociativeIndex.open(tmp_path / "i", 3), ThreadPoolExecutor(1)
    index.add(np.eye(3), ["a", "b", "c"], ["wet stairs", "a wrist", "dry paint"])
    index.feedback([1, 0, 0.1], ["b"], text="What about the stairs?")
    index.tenant("ann").add(np.eye(3), ["a", "b", "c"])
    calls = {
        "tenant": lambda: index.tenant("ann").get(["a"]),
        "recall": lambda: index.recall([1, 0.1, 0], text="Which stairs?", k=2),
    }
    assert interrupted_at_any_call(calls[kind], lambda: other.submit(calls[kind]).result(PATIENCE)) > 30
    other.shutdown()
    index.close()


def test_an_interrupt_at_any_call_of_the_lock_of_a_folder_leaves_it_free(tmp_path):
    taken: list[WriterLock] = []

    def take_and_release() -> None:
        taken.append(WriterLock(tmp_path))
        taken[-1].release()

    def is_free() -> None:
        if taken:
            taken.pop().release()  # a second ``close`` of the index has the same effect
        WriterLock(tmp_path).release()

    assert interrupted_at_any_call(take_and_release, is_free) > 10


@pytest.mark.slow
@pytest.mark.filterwarnings(  # by Python, and what 3.14 says of the same
    "ignore:Exception ignored (in|while closing generator):pytest.PytestUnraisableExceptionWarning"
)
def test_an_interrupt_at_any_call_of_drop_tenant_leaves_the_tenant_or_nothing(tmp_path):
    index, opened = PredictiveAssociativeIndex.open(tmp_path / "i", 3), []

    def create() -> None:
        opened[:] = [index.tenant("ann")]
        opened[0].add(np.eye(3), ["a", "b", "c"], ["secret text"] * 3)

    def drop() -> None:
        try:
            index.drop_tenant("ann")
        except StorageError as error:  # shutil.rmtree closes a descriptor twice if it is interrupted there
            raise KeyboardInterrupt from error

    def after() -> None:
        if "ann" in index.tenants():
            assert sorted(index.tenant("ann").search("a").ids) == ["b", "c"]
        index.drop_tenant("ann")
        assert index.tenants() == []
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"secret text" in path.read_bytes()]
        create()

    create()
    assert interrupted_at_any_call(drop, after) > 100
    index.close()


@pytest.mark.parametrize("follow", [False, True])
def test_an_interrupt_at_any_call_of_a_refresh_leaves_no_part_of_a_change(tmp_path, follow):
    """A second attempt to apply a change does not find what the first one had applied."""
    ids = [f"m{number}" for number in range(60)]
    writer = PredictiveAssociativeIndex.open(tmp_path / "i", 3)
    writer.add(np.random.default_rng(5).standard_normal((60, 3)), ids)
    writer.observe_many([ids[at : at + 3] for at in range(0, 60, 3)])
    reader = PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True, follow=follow)

    def change() -> None:
        writer.add([[1, 2, 3]], ["m1"])
        writer.delete("m4")
        writer.add([[3, 2, 1]], ["m4"])
        writer.observe(["m1", "m4", "m7"])

    def after() -> None:
        reader.refresh()
        links, stored = reader._store.links.steps(), reader._store.database.trajectories.experienced()
        np.testing.assert_array_equal(np.stack(links), np.stack(stored))
        assert reader.search([3, 2, 1], k=1).ids == ["m4"]
        change()

    change()
    files = [copies.__file__, key_indexes.__file__, graph.__file__]
    assert interrupted_at_any_call(reader.refresh, after, files) > 30
    reader.close()
    writer.close()


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "PRAGMA user_version", "COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("where", ["folder", "memory"])
def test_an_interrupt_after_a_statement_keeps_no_transaction_open(tmp_path, monkeypatch, statement, where):
    index = PredictiveAssociativeIndex.open(tmp_path / "i", 3) if where == "folder" else PredictiveAssociativeIndex(3)
    index.add(np.eye(3), ["a", "b", "c"])
    fetch = Connection.fetch

    def interrupted(self: Connection, sql: str, parameters: object = ()) -> object:
        found = fetch(self, sql, parameters)  # type: ignore[arg-type]
        if sql.startswith(statement):
            raise KeyboardInterrupt
        if sql.startswith("SELECT id, row FROM memories") and statement == "ROLLBACK":
            raise ValueError("to be rolled back")
        return found

    monkeypatch.setattr(Connection, "fetch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index.add([[1, 1, 0]], ["d"])
    monkeypatch.undo()
    assert len(index) == len(index.search("a")) + 1 == (4 if statement == "COMMIT" else 3)
    index.add([[1, 1, 1]], ["e"])
    index.delete("e")
    index.save(tmp_path / "copy")
    assert ("d" in PredictiveAssociativeIndex.load(tmp_path / "copy")) == (statement == "COMMIT")


def test_close_that_was_interrupted_can_be_called_again(tmp_path, monkeypatch):
    index = PredictiveAssociativeIndex.open(tmp_path / "i", 3)
    index.add(np.eye(3), ["a", "b", "c"])

    def interrupted(self: Connection) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        index.close()
    monkeypatch.undo()
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "i") as again:
        assert len(again) == 3


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that interrupts")
# Python drops an interrupt in a finalizer, here that of tqdm, which is not part of this library
@pytest.mark.filterwarnings(r"ignore:Exception ignored in. <function tqdm:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", CALLS)
def test_every_call_may_be_interrupted(tmp_path, call):
    assert Campaign(call, tmp_path / "i", seed=2).run(10)["failures"] == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_an_interrupted_commit_version_and_settings_are_those_of_the_database(monkeypatch, when):
    index = PredictiveAssociativeIndex(dim=2)
    database = index._store.database
    connection, fetch = database.connection, Connection.fetch
    with database.transaction():
        database.settings.set("colour", "red")
    assert database.settings.get("colour") == "red"
    known = connection.version

    def interrupted(self: Connection, sql: str, parameters: tuple[object, ...] = ()) -> list[object]:
        if sql == "COMMIT":
            if when == "after":
                fetch(self, sql)
            raise KeyboardInterrupt
        return fetch(self, sql, parameters)

    def change() -> None:
        with database.transaction():
            database.settings.set("colour", "blue")
            assert database.settings.get("colour") == "blue"

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            change()
    assert connection.version == known + (when == "after")
    assert database.settings.get("colour") == ("blue" if when == "after" else "red")
