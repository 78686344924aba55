"""Makes forks safe: a forked child inherits connections of SQLite, locks of folders, and locks of threads.

A child must not use a connection of its parent (sqlite.org/howtocorrupt.html, 2.6). While the child has a copy of it,
SQLite in the child acts as if the child held the locks of the parent. So a fork waits until no thread is inside SQLite,
and the child closes its copies at once. That changes no file, because the parent holds the locks. The child also closes
its copy of the descriptor of a folder lock, which would keep the lock. A thread that does not exist in the child may
hold a lock of threads, so the child never waits for a lock of an inherited index.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from pam_retriever.errors import IndexForked

PATIENCE = 5.0  # seconds that a fork waits for all threads to leave SQLite; then the process is forked nevertheless


class ForkAware(Protocol):
    """An object that a child must not share with its parent."""

    def hold_still(self, timeout: float) -> bool:
        """Before a fork: waits until no thread uses the object, and locks it. Returns False after the timeout."""

    def go_on(self) -> None:
        """In the parent, after ``hold_still`` returned True: lets threads in again."""

    def in_child(self, still: bool) -> None:
        """In the child: releases what belongs to the parent. ``still`` is the result of ``hold_still``."""


# by ``id``; not sets: while one thread forks, others may register objects, and no set is iterated over meanwhile
_inherited: weakref.WeakValueDictionary[int, ForkAware] = weakref.WeakValueDictionary()
_folders: weakref.WeakValueDictionary[int, ForkAware] = weakref.WeakValueDictionary()
_calls: list[Callable[[], None]] = []
_held = threading.local()  # the objects that this thread holds still


def tell_of_forks(one: ForkAware, folder: bool = False) -> None:
    """Registers an object, whose methods are called at every fork while it exists.

    Args:
        one: the object.
        folder: whether it is the lock of a folder. Such locks are released last, because connections need them if the
            parent has ended.
    """
    (_folders if folder else _inherited)[id(one)] = one


def call_in_child(function: Callable[[], None]) -> None:
    """Registers a function that is called in every child."""
    _calls.append(function)


def never_free(thing: object) -> None:
    """Keeps a reference to an object until the process ends, so that it is never freed."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def forked_error() -> IndexForked:
    """Returns the error for a call on an index in a child of the process that opened it."""
    return IndexForked(
        "The index was opened before this process was forked.",
        "an index that this process opened",
        "open() or load() it again here; read_only=True, follow=True sees what the parent writes.",
    )


def _before() -> None:
    registered = (reference() for reference in [*_inherited.valuerefs(), *_folders.valuerefs()])
    # after an interrupt the process is forked nevertheless: the child releases all, the parent lets go what was held
    _held.still = held = [(one, False) for one in registered if one is not None]
    for at, (one, _) in enumerate(held):
        held[at] = one, one.hold_still(PATIENCE)


def _in_parent() -> None:
    for one, still in _held.__dict__.pop("still", []):
        if still:
            one.go_on()


def _in_child() -> None:
    for function in _calls:
        function()
    for one, still in _held.__dict__.pop("still", []):
        one.in_child(still)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
