"""Makes FAISS and torch calculate in one thread in a forked child.

A child has no copies of the threads of OpenMP that its parent started. GNU's waits for them for ever, unless the child
asks for one thread.
"""

from __future__ import annotations

import os
import sys

_setters: dict[str, str] = {}  # library -> its function that sets the number of threads


def one_thread_in_children(library: str, setter: str) -> None:
    """Makes a library calculate in one thread in every child that is forked from now on.

    Args:
        library: name of its module. It need not be imported yet.
        setter: name of its function that sets the number of threads.
    """
    _setters[library] = setter


def _in_child() -> None:
    for library, setter in _setters.items():
        call = getattr(sys.modules.get(library), setter, None)
        if call is not None:
            call(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
