"""``python -m benchmarks.jepa.figures``: figures and tables of benchmarks/notes/jepa.md from the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.report import RESULTS, no_arguments

IMAGES = Path(__file__).parent.parent / "notes" / "images"
COLOURS = ["#0072B2", "#E69F00", "#BBBBBB", "#009E73", "#D55E00"]  # Okabe-Ito, safe for colour-blind readers
MARKS = ["-", "--", ":", "-.", (0, (5, 1))]


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    curves = read("collapse")["curves"]
    for (name, curve), colour, mark in zip(curves.items(), COLOURS, MARKS, strict=True):
        left.plot(
            range(1, len(curve["effective_rank"]) + 1),
            curve["effective_rank"],
            linestyle=mark,
            color=colour,
            label=name,
        )
    left.set_xlabel("passes")
    left.set_ylabel("effective rank of 128")
    left.legend(fontsize=7, frameon=False)
    columns = read("association")["columns"]
    names = list(columns)[::-1]
    right.barh(names, [columns[name]["R@20"] for name in names], color=COLOURS[0])
    for at, name in enumerate(names):
        right.text(columns[name]["R@20"] + 0.01, at, f"{columns[name]['R@20']:.3f}", va="center", fontsize=8)
    right.set_xlim(0, 1.12)
    right.set_xlabel("R@20 from a fresh view")
    right.tick_params(axis="y", labelsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / "jepa.png", dpi=150)
    for file in sorted((RESULTS / "jepa").glob("*.json")):
        result = read(file.stem)
        nested = isinstance(next(iter(next(iter(result["columns"].values())).values())), dict)
        for title, table in result["columns"].items() if nested else [("", result["columns"])]:
            print(f"\n{file.stem} {title}\n\n{markdown(result['rows'], table)}")


def read(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / "jepa" / f"{name}.json").read_text())
    return result


def markdown(rows: list[str], columns: dict[str, dict[str, float]]) -> str:
    """Returns a table with one line per way and one column per measure."""
    lines = ["| | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for name, values in columns.items():
        cells = ["" if row not in values else f"{values[row]:.3f}".rstrip("0").rstrip(".") for row in rows]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    no_arguments(__doc__)
    main()
