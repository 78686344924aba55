"""``python -m benchmarks.real.figures``: draws the figures of the docs from the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.report import RESULTS, no_arguments

IMAGES = Path(__file__).parent.parent / "notes" / "images"
# Okabe-Ito colours for colour-blind readers, and hatches for grey print
STYLES = [("#0072B2", ""), ("#E69F00", "//"), ("#BBBBBB", "xx"), ("#009E73", "..")]


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    locomo()
    if (RESULTS / "real" / "wikispeedia.json").exists():
        wikispeedia()


def locomo() -> None:
    """Draws recall@10 on the reported conversations with intervals; this library's rows are in a separate group."""
    result = json.loads((RESULTS / "real" / "locomo.json").read_text())
    names = [name for name in result["reported"] if not name.endswith("+ association")]
    names.sort(key=lambda name: result["reported"][name]["R@10"])
    figure, axes = plt.subplots(figsize=(9, 0.28 * len(names) + 0.8))
    for position, name in enumerate(names):
        value = result["reported"][name]["R@10"]
        low, high = (ends[1] for ends in result["reported_intervals"][name])
        colour, hatch = STYLES[0] if "default" in name else STYLES[2]
        axes.barh(position, value, color=colour, hatch=hatch, edgecolor="white")
        axes.plot([low, high], [position, position], color="black", linewidth=1)
        axes.text(high + 0.008, position, f"{value:.3f}".removeprefix("0"), va="center", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlabel("share of the evidence turns among the first 10, with 95 % interval", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / "locomo.png", dpi=150)


def wikispeedia() -> None:
    """Draws recall@20 in the three columns."""
    result = json.loads((RESULTS / "real" / "wikispeedia.json").read_text())
    columns = ["known", "unseen cue", "unseen target"]
    names = list(result["R@20"])
    figure, every = plt.subplots(1, 3, figsize=(9, 0.25 * len(names) + 0.8), sharey=True)
    for axes, column in zip(every, columns, strict=True):
        for position, name in enumerate(reversed(names)):
            value = result["R@20"][name][column]
            colour, hatch = STYLES[0] if "library" in name else STYLES[2]
            axes.barh(position, value, color=colour, hatch=hatch, edgecolor="white")
            axes.text(value + 0.005, position, f"{value:.3f}".removeprefix("0"), va="center", fontsize=7)
        axes.set_title(column, fontsize=9)
        axes.set_yticks(range(len(names)), names[::-1], fontsize=8)
        axes.set_xlim(0, 0.55)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / "wikispeedia.png", dpi=150)


if __name__ == "__main__":
    no_arguments(__doc__)
    main()
