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
    locomo()
    if (RESULTS / "real" / "wikispeedia.json").exists():
        wikispeedia()


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


def locomo() -> None:
    """Recall@10 on the reported conversations with intervals, ours apart from what learns nothing."""
    result = json.loads((RESULTS / "real" / "locomo.json").read_text())
    names = [name for name in result["reported"] if not name.endswith("+ association")]
    names.sort(key=lambda name: result["reported"][name]["R@10"])
    figure, axes = plt.subplots(figsize=(9, 0.28 * len(names) + 0.8))
    for place, name in enumerate(names):
        value = result["reported"][name]["R@10"]
        low, high = (ends[1] for ends in result["reported_intervals"][name])
        colour, hatch = STYLES[0] if "default" in name else STYLES[2]
        axes.barh(place, value, color=colour, hatch=hatch, edgecolor="white")
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        axes.text(high + 0.008, place, f"{value:.3f}".removeprefix("0"), va="center", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlabel("share of the evidence turns among the first 10, with 95 % interval", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / "locomo.png", dpi=150)


def wikispeedia() -> None:
    """Recall@20 in the three columns."""
    result = json.loads((RESULTS / "real" / "wikispeedia.json").read_text())
    columns = ["known", "unseen cue", "unseen target"]
    names = list(result["R@20"])
    figure, every = plt.subplots(1, 3, figsize=(9, 0.25 * len(names) + 0.8), sharey=True)
    for axes, column in zip(every, columns, strict=True):
        for place, name in enumerate(reversed(names)):
            value = result["R@20"][name][column]
            colour, hatch = STYLES[0] if "library" in name else STYLES[2]
            axes.barh(place, value, color=colour, hatch=hatch, edgecolor="white")
            axes.text(value + 0.005, place, f"{value:.3f}".removeprefix("0"), va="center", fontsize=7)
        axes.set_title(column, fontsize=9)
        axes.set_yticks(range(len(names)), names[::-1], fontsize=8)
        axes.set_xlim(0, 0.55)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / "wikispeedia.png", dpi=150)


if __name__ == "__main__":
    main()
