"""Hits as a table on a terminal, if rich is installed: score, text, and reasons."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pam_retriever.apps.terminal import safe
from pam_retriever.errors import counted
from pam_retriever.types import Hit

if TYPE_CHECKING:
    from rich.text import Text

LONGEST = 400  # characters of a text
BAR = 12  # characters of the bar of the sources
COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red", "bright_blue", "bright_yellow", "bright_green")


def can_print() -> bool:
    """Returns whether standard output is a terminal and rich is installed; otherwise plain lines are printed."""
    return sys.stdout.isatty() and find_spec("rich") is not None


def print_table(hits: Sequence[Hit]) -> None:
    """Prints hits to standard output, with control characters of texts removed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    names = list(dict.fromkeys(name for hit in hits for name in hit.sources or {}))
    table = Table(box=None, padding=(0, 2, 1, 0), show_edge=False)
    table.add_column("score", justify="right", style="bold")
    table.add_column("memory", ratio=3)
    table.add_column("why", ratio=2)
    for hit in hits:
        memory = Text(safe((hit.text or "")[:LONGEST]))
        memory.append(f"\n{safe(hit.id)}", style="dim")
        table.add_row(f"{hit.score:.3f}", memory, Text("\n").join([_bar(hit, names), Text(_why(hit))]))
    console = Console(highlight=False)
    console.print(table)
    if names:
        console.print(Text("  ").join(Text(f"■ {name}", style=_colour(names, name)) for name in names))


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS[names.index(name) % len(COLOURS)]


def _bar(hit: Hit, names: Sequence[str]) -> Text:
    from rich.text import Text

    shares = {name: max(value, 0.0) for name, value in (hit.sources or {}).items()}
    total = sum(shares.values()) or 1.0
    parts = ((name, "■" * round(BAR * value / total)) for name, value in shares.items())
    return Text("").join(Text(part, style=_colour(names, name)) for name, part in parts)


def _why(hit: Hit) -> str:
    lines = []
    if hit.confidence is not None:
        lines.append(f"{hit.confidence:.0%} sure")
    if hit.evidence:
        first, more = hit.evidence[0], len(hit.evidence) + hit.more_evidence - 1
        lines.append(
            safe(f"{counted(first.offset, 'step', '+')} in {first.trajectory}")
            + (f", {counted(more, 'time')} more" if more else "")
        )
    elif hit.evidence is not None:
        lines.append("never experienced with it")
    lines += [safe(str(reason)) for reason in (*(hit.times or ()), *(hit.mentions or ()))]
    return "\n".join(lines)
