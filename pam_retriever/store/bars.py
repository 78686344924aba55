"""Progress bars: shown on a terminal and in a notebook, unless the caller says otherwise."""

from __future__ import annotations

import sys


def hidden(show: bool | None) -> bool | None:
    """Returns the argument ``disable`` of tqdm. None hides a bar that is not written to a terminal.

    Args:
        show: the caller's choice; None shows a bar on a terminal and in a notebook.
    """
    if show is not None:
        return not show
    return False if in_notebook() else None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which has no terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
