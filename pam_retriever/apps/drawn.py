"""``pam-retriever inspect`` on a terminal: the sizes and the sessions of an index as bars."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.util import find_spec
from typing import NamedTuple

from pam_retriever.apps.terminal import safe
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import TrajectoryRecord

SHOWN = 10  # number of sessions with a bar
MEASURED = 10_000  # number of sessions whose lengths are counted
NAME, NUMBER, NOTE = 28, 12, 36  # characters of columns
DATES, LATEST = 1e8, 6e10  # seconds since 1970; other numbers are in the user's own unit, such as milliseconds


class Bar(NamedTuple):
    """A line: a name, a number, the total, and a note."""

    name: str
    value: int
    whole: int
    note: str = ""


def draw(index: PredictiveAssociativeIndex) -> None:
    """Prints bars to standard output: with colours if rich is installed, else as plain characters."""
    records = index.trajectories(limit=MEASURED)
    groups = [("sizes", sizes(index)), ("the first sessions", sessions(records[:SHOWN]))]
    of = "sessions" if len(records) < MEASURED else f"the first {MEASURED:,} sessions"
    groups.append((f"how long {of} are", lengths(records)))
    drawn = [(title, bars) for title, bars in groups if bars]
    if find_spec("rich") is None:
        print("\n".join(plain(drawn, shutil.get_terminal_size().columns)))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for title, bars in drawn:
        table = Table(
            box=None, show_header=False, padding=(0, 1), title=title, title_justify="left", title_style="bold"
        )
        table.add_column(max_width=NAME, no_wrap=True)
        table.add_column(justify="right")
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(style="dim", no_wrap=True, max_width=NOTE)
        width = max(10, console.width - NAME - NUMBER - NOTE - 8)
        for bar in bars:
            table.add_row(Text(bar.name), f"{bar.value:,}", Text("█" * _filled(bar, width)), Text(bar.note))
        console.print(table)


def plain(groups: Sequence[tuple[str, Sequence[Bar]]], wide: int) -> Iterator[str]:
    """Returns groups of bars as lines in ASCII."""
    width = max(10, wide - NAME - NUMBER - NOTE - 6)
    for title, bars in groups:
        yield f"{title}:"
        for name, value, whole, note in bars:
            short = name if len(name) <= NAME else f"{name[: NAME - 3]}..."
            filled = "#" * _filled(Bar(name, value, whole), width)
            yield f"  {short:{NAME}}{value:>{NUMBER},}  {filled:{width}}  {note}".rstrip()


def sizes(index: PredictiveAssociativeIndex) -> list[Bar]:
    """Returns bars of the sizes of the index, and of the learnt parts."""
    overview = index.overview()
    last_fit = index.last_fit()
    new = max(0, overview.requests - (0 if last_fit is None else last_fit.requests))
    return [
        Bar("memories", overview.memories, overview.memories, f"{overview.dim} numbers each"),
        Bar("of them experienced", overview.experienced, overview.memories),
        Bar("sessions", overview.trajectories, overview.trajectories),
        Bar("of them not learnt yet", overview.new_trajectories, overview.trajectories),
        Bar("past requests", overview.requests, overview.requests),
        Bar("of them not learnt yet", new, overview.requests),
    ]


def sessions(records: Sequence[TrajectoryRecord]) -> list[Bar]:
    """Returns a bar per session, by number of steps, with its first and last time."""
    longest = max((one.length for one in records), default=0)
    return [Bar(safe(one.id), one.length, longest, _span(one)) for one in records]


def lengths(records: Sequence[TrajectoryRecord]) -> list[Bar]:
    """Returns bars of the numbers of sessions by length, in groups that double in length; none for few sessions."""
    if len(records) <= SHOWN:
        return []
    counted: dict[int, int] = {}
    for one in records:
        power = max(one.length, 1).bit_length() - 1
        counted[power] = counted.get(power, 0) + 1
    return [
        Bar(
            "1 step" if power == 0 else f"{2**power} to {2 ** (power + 1) - 1} steps",
            counted.get(power, 0),
            len(records),
        )
        for power in range(min(counted), max(counted) + 1)
    ]


def _span(one: TrajectoryRecord) -> str:
    known = [time for time in one.timestamps or () if time is not None]
    return f"{_as_date(known[0])} to {_as_date(known[-1])}" if known else ""


def _as_date(time: float) -> str:
    if not DATES <= abs(time) < LATEST:
        return f"{time:.15g}"
    return datetime.fromtimestamp(time, timezone.utc).isoformat(sep=" ", timespec="minutes")[:16]


def _filled(bar: Bar, width: int) -> int:
    """Returns the number of filled characters of a bar: at least one for a positive number."""
    return min(width, max(round(width * bar.value / max(bar.whole, 1)), int(bar.value > 0)))
