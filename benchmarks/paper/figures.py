"""The paper's six figures, and three more, from the raw results.

Okabe-Ito colours for colour-blind readers; hatches, markers and dashes for grey print.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.paper import chains, compared, coverage, held_out, main_table, noise, selection, shuffle
from benchmarks.paper.fits import JOINT
from benchmarks.paper.setting import NotRun, Setting
from benchmarks.paper.tables import Columns

IMAGES = Path(__file__).parent.parent / "notes" / "images"
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]
HATCHES = ["", "//", "..", "xx", "\\\\", "oo", "--", "++"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
DASHES = ["-", "--", "-.", ":"]
WIDTH, HEIGHT = 9.5, 3.6
LEGEND: dict[str, Any] = {"fontsize": 6.5, "frameon": False, "loc": "center left", "bbox_to_anchor": (1.01, 0.5)}


def draw(setting: Setting, folder: Path = IMAGES) -> list[str]:
    """Draws the existing results; returns the missing results, with reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for name, picture in PICTURES.items():
        figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
        try:
            picture(axes, replace(setting, read_only=True))
            axes.spines[["top", "right"]].set_visible(False)
            figure.tight_layout()
            figure.savefig(folder / f"{name}.png", dpi=150)
        except NotRun as reason:
            missing.append(f"{name}: {reason}")
        finally:
            plt.close(figure)
    return missing


def bars(axes: Axes, series: Columns, rows: dict[str, str], label: str) -> None:
    """Draws one group of bars per row, one bar per series; leaves out missing values."""
    width = 0.8 / len(series)
    for at, (name, values) in enumerate(series.items()):
        positions = np.arange(len(rows)) + (at - (len(series) - 1) / 2) * width
        style = {"color": COLOURS[at % len(COLOURS)], "hatch": HATCHES[at % len(HATCHES)], "edgecolor": "white"}
        axes.bar(positions, [values.get(row) or 0.0 for row in rows], width, label=name, **style)
        for position, row in zip(positions, rows, strict=True):
            value = values.get(row)
            text = "n/a" if value is None else f"{value:.2f}".removeprefix("0")
            axes.text(position, (value or 0.0) + 0.015, text, ha="center", fontsize=6.5)
    axes.set_xticks(np.arange(len(rows)), list(rows.values()), fontsize=8)
    axes.set_ylim(0, 1.1)
    axes.set_ylabel(label, fontsize=8)
    axes.legend(**LEGEND)


def lines(axes: Axes, series: dict[str, tuple[list[float], list[float]]], x: str, y: str) -> None:
    """Draws one line per series, with its own colour, marker and dash."""
    for at, (name, (positions, values)) in enumerate(series.items()):
        style = {
            "color": COLOURS[at % len(COLOURS)],
            # colours repeat with other markers and dashes
            "marker": MARKERS[(at + 3 * (at // len(COLOURS))) % len(MARKERS)],
            "linestyle": DASHES[(at + at // len(COLOURS)) % len(DASHES)],
        }
        axes.plot(positions, values, label=name, markersize=4, linewidth=1.2, **style)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.set_ylim(-0.03, 1.05)
    axes.legend(**LEGEND)


def _main(setting: Setting) -> Columns:
    table = main_table.run(setting)[0]
    ours = {name: table.columns[name] for name in ("default recall", JOINT, "forward", "cosine", "bilinear")}
    return ours | {name: table.published[name] for name in ("paper: predictor",) if name in table.published}


def overview(axes: Axes, setting: Setting) -> None:
    """Draws the figure of the README: exact and noisy cues, the paper, similarity."""
    figures, noisy = _main(setting), noise.run(setting)
    rows = {"AP@1": "first hit was\nexperienced with\nthe cue", "R@20": "share of what was\nin the first 20"}
    rows["CBR@20"] = "the same, in\nanother room"
    series = {
        "this library, default recall": figures["default recall"],
        "the same, cue with noise 0.3": {
            row: table.columns["default recall"]["0.3"] for row, table in zip(rows, noisy, strict=False)
        },
        "paper's predictor": figures.get("paper: predictor", {}),
        "similarity (cosine)": figures["cosine"],
    }
    bars(axes, series, rows, "")


def precision(axes: Axes, setting: Setting) -> None:
    rows = {f"AP@{k}": f"first {k}" for k in (1, 5, 10, 20)}
    bars(axes, _main(setting), rows, "share that was experienced with the cue")


def discrimination(axes: Axes, setting: Setting) -> None:
    columns = {name: column for name, column in _main(setting).items() if name != "default recall"}
    bars(axes, columns, {"AUC": "all associates", "AUC_cross_room": "in another room"}, "AUC")
    axes.axhline(0.5, color="black", linestyle=":", linewidth=1)


def temporal_shuffle(axes: Axes, setting: Setting) -> None:
    bars(axes, shuffle.run(setting)[0].columns, {"CBR@20": "cross-boundary recall@20", "AP@20": "precision@20"}, "")


def held_out_states(axes: Axes, setting: Setting) -> None:
    columns = held_out.run(setting)[0].columns
    channels = ["forward", "reverse", "mutual", JOINT]
    series = {
        which: {channel: columns[f"{which}: {channel} (trained on joint)"]["CBR@20"] for channel in channels}
        for which in (held_out.TRAINED, held_out.HELD_OUT)
    }
    bars(axes, series, {channel: channel for channel in channels}, "cross-boundary recall@20")


def transitive(axes: Axes, setting: Setting) -> None:
    some = ("forward", JOINT, "exact graph", "cosine")
    every = chains.run(setting)[0].columns
    columns = {name: column for name, column in every.items() if name.startswith(some) and "not snapped" not in name}
    rows = {"trained": "1 to 5 steps away\n(trained)", "two windows": "6 to 10", "three windows": "11 to 15"}
    bars(axes, columns, rows, "cross-room recall@20")


def model_selection(axes: Axes, setting: Setting) -> None:
    table = selection.run(setting)[0]
    series = {
        "this library's loop": {name: column["CBR@20"] for name, column in table.columns.items()},
        "paper": {name.removeprefix("paper: "): column["CBR@20"] for name, column in table.published.items()},
    }
    bars(axes, series, {name: name.replace(" ", "\n", 1) for name in table.columns}, "cross-boundary recall@20")


def precision_by_depth(axes: Axes, setting: Setting) -> None:
    columns = compared.run(setting)[0].columns
    depths = [1, 5, 10, 20]
    lines(
        axes,
        {name: (depths, [column[f"AP@{k}"] for k in depths]) for name, column in columns.items()},
        "depth",
        "share that was experienced with the cue",
    )
    axes.set_xticks(depths)


def recall_by_coverage(axes: Axes, setting: Setting) -> None:
    columns = coverage.run(setting)[0].columns
    shares = [float(name.split("%")[0]) for name in columns]
    measures = {"CBR@20": "cross-boundary recall@20", "R@20": "recall@20", "AP@20": "precision@20"}
    series = {text: (shares, [column[row] for column in columns.values()]) for row, text in measures.items()}
    series["knowing every trained pair: CBR@20"] = (shares, [one["perfect CBR@20"] for one in columns.values()])
    lines(axes, series, "trained share of the directed associations, %", "")


def recall_by_noise(axes: Axes, setting: Setting) -> None:
    ours, theirs = noise.run(setting)[1].columns, compared.run(setting)[2].columns
    some = ("cosine, bare cue", "exact temporal graph", "personalised PageRank", "plain MLP, bare cue")
    columns = ours | {name: theirs[name] for name in some}
    levels = [str(level) for level in noise.QUERY_NOISE]
    series = {name: ([float(at) for at in levels], [column[at] for at in levels]) for name, column in columns.items()}
    lines(axes, series, "noise on the cue, a dimension (the states' own is 0.3)", "recall@20")


PICTURES: dict[str, Callable[[Axes, Setting], None]] = {
    "table1": overview,
    "paper-1-precision": precision,
    "paper-2-discrimination": discrimination,
    "paper-3-shuffle": temporal_shuffle,
    "paper-4-held-out": held_out_states,
    "paper-5-chains": transitive,
    "paper-6-selection": model_selection,
    "paper-7-depth": precision_by_depth,
    "paper-8-coverage": recall_by_coverage,
    "paper-9-noise": recall_by_noise,
}
