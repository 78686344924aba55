"""Makes torch calculate in one thread in a forked child.

A child has no copies of the threads of OpenMP that its parent started. GNU's waits for them for ever, unless the child
asks for one thread.
"""

from __future__ import annotations

import os
from functools import cache


@cache
def one_thread_in_children() -> None:
    """Makes torch calculate in one thread in every child that is forked from now on. Imports torch."""
    import torch

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
