"""Tables of this library's results next to the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Columns = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Table:
    """One table of an experiment.

    Attributes:
        title: describes the contents.
        rows: names of the rows, in order; rows without any figure are left out.
        columns: figures by column and row.
        published: the paper's figures, in columns at the right.
        digits: number of digits after the decimal point.
    """

    title: str
    rows: Sequence[str]
    columns: Columns
    published: Columns = field(default_factory=dict)
    digits: int = 3

    def text(self) -> str:
        """Returns the table for a terminal; a line per method, as in the docs."""
        rows, cells = self._cells()
        lines = [["", *rows], *cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(rows) + 1)]
        padded = [[cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
        named = [" ".join([line[0].ljust(widths[0]), *cells[1:]]) for line, cells in zip(lines, padded, strict=True)]
        return "\n".join([self.title, *named])

    def markdown(self) -> str:
        """Returns the table for the docs."""
        rows, cells = self._cells()
        lines = [["", *rows], ["---"] * (len(rows) + 1), *cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        everything = {**self.columns, **self.published}
        rows = [row for row in self.rows if any(row in column for column in everything.values())]
        return rows, [[name, *(self._cell(column.get(row)) for row in rows)] for name, column in everything.items()]

    def _cell(self, value: Any) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        return f"{value:,}" if isinstance(value, int) else f"{value:.{self.digits}f}"


def mean_of(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {row: statistics.fmean(run[row] for run in runs) for row in runs[0]}


def deviation_of(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {row: statistics.stdev(run[row] for run in runs) for row in runs[0]}
