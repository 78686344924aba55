"""What a forked child inherits and must leave alone: SQLite's connections, locks of folders, and locks of threads.

SQLite forbids to use a connection of the parent (sqlite.org/howtocorrupt.html, 2.6), and while one is there, another
to the same file takes its locks for held. So nobody is inside SQLite while a process is forked, and the child closes
its copies at once: the parent holds the locks without which that changes no file. A lock of a folder belongs to
whoever holds a descriptor of it, so a child closes that too. A lock of threads may be held by one that the child does
not have, so no lock of an inherited index is waited for.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

from pam_retriever.errors import IndexForked

PATIENCE = 5.0  # seconds to wait for all threads to leave SQLite before a process is forked nevertheless


class Inherited(Protocol):
    """What a child does not share with its parent."""

    def hold_still(self, timeout: float) -> bool:
        """Before a fork: waits until no thread is inside, and keeps others out; whether that came to be in time."""

    def go_on(self) -> None:
        """In the parent, after ``hold_still`` gave True."""

    def in_child(self, still: bool) -> None:
        """In the child: lets go of what the parent has. ``still`` is what ``hold_still`` gave."""


_inherited: weakref.WeakSet[Inherited] = weakref.WeakSet()
_folders: weakref.WeakSet[Inherited] = weakref.WeakSet()
_calls: list[Callable[[], None]] = []
_held = threading.local()  # what this thread holds still


def tell_of_forks(one: Inherited, folder: bool = False) -> None:
    """Has its methods be called at every fork, for as long as anybody has this object.

    Args:
        one: what has them.
        folder: it keeps other writers out, so it goes last: a connection may be the last one, if the parent has ended.
    """
    (_folders if folder else _inherited).add(one)


def call_in_child(function: Callable[[], None]) -> None:
    """Has a function be called in every child."""
    _calls.append(function)


def never_free(thing: object) -> None:
    """Has an object stay as it is until the process ends, whoever lets go of it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def forked_error() -> IndexForked:
    """For whoever asks an index in a child of the process that opened it."""
    return IndexForked(
        "The index was opened before this process was forked.",
        "an index that this process opened",
        "open() or load() it again here; read_only=True, follow=True sees what the parent writes.",
    )


def _before() -> None:
    _held.still = [(one, one.hold_still(PATIENCE)) for one in [*_inherited, *_folders]]


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
