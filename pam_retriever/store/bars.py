"""Progress bars: shown on a terminal and in a notebook, unless the caller says otherwise."""

from __future__ import annotations

import sys


def hidden(show: bool | None) -> bool | None:
    """What tqdm calls ``disable``: None hides a bar that is written to no terminal.

    Args:
        show: what the caller asked for; None for a bar where a person sees it.
    """
    if show is not None:
        return not show
    return False if in_notebook() else None


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, where no terminal is."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
