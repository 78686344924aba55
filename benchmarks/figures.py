"""``python -m benchmarks.figures``: draws the pictures of the docs from the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from benchmarks.report import RESULTS

IMAGES = Path(__file__).parent.parent / "docs" / "images"
# Okabe-Ito colours, told apart by the colour-blind, and hatches, told apart in grey
STYLES = [("#0072B2", ""), ("#E69F00", "//"), ("#BBBBBB", "xx"), ("#009E73", "..")]


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    main_table()


def main_table() -> None:
    """The paper's main table as bars: recall, the paper, cosine."""
    result = json.loads((RESULTS / "paper" / "table1-fast-world42.json").read_text())
    series = {
        "this library, default recall": result["columns"]["recall"],
        "the same, cue with noise 0.3": result["columns"]["recall, noise 0.3"],
        "paper's predictor": result["published"]["paper predictor"],
        "similarity (cosine)": result["columns"]["cosine"],
    }
    rows = {
        "AP@1": "first hit was\nexperienced with\nthe cue",
        "AP@5": "first 5 were",
        "R@20": "share of what was\nexperienced in\nthe first 20",
        "CBR@20": "the same, in\nanother room",
        "AUC_cross_room": "told apart from\nnever met, other\nroom (AUC)",
    }
    figure, axes = plt.subplots(figsize=(9, 3.6))
    width = 0.8 / len(series)
    for at, ((name, values), (colour, hatch)) in enumerate(zip(series.items(), STYLES, strict=True)):
        places = np.arange(len(rows)) + (at - (len(series) - 1) / 2) * width
        heights = [values.get(row, 0.0) for row in rows]
        axes.bar(places, heights, width, label=name, color=colour, hatch=hatch, edgecolor="white")
        for place, row, height in zip(places, rows, heights, strict=True):
            label = "n/a" if row not in values else f"{height:.3f}".removeprefix("0")
            axes.text(place, height + 0.015, label, ha="center", fontsize=7)
    axes.set_xticks(np.arange(len(rows)), list(rows.values()), fontsize=8)
    axes.set_ylim(0, 1.18)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=4, loc="upper center", fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(IMAGES / "table1.png", dpi=150)


if __name__ == "__main__":
    main()
