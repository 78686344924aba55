"""Pictures for notebooks and reports, by matplotlib: ``from pam_retriever import plots``.

Each function draws into given axes, or into new axes, and returns the axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.evaluation import Worth
from pam_retriever.explore import pictures
from pam_retriever.types import FitReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    import pam_retriever as pam

BLUE, ORANGE, FAINT = "#2f5fd0", "#d97a1e", "#8a94a6"


def loss(report: FitReport, ax: Axes | None = None) -> Axes:
    """Plots the mean loss of each pass of a fit.

    Raises:
        InvalidInput: nothing was trained.
        MissingExtra: matplotlib is not installed.
    """
    if not report.losses:
        raise InvalidInput("Got the report of a fit that trained nothing.", "one with losses", "See report.stopped_by.")
    ax = _axes(ax)
    ax.plot(np.arange(1, len(report.losses) + 1), report.losses, color=BLUE)
    ax.set(xlabel="pass", ylabel="mean loss")
    return ax


def validation(report: FitReport, kind: str = "question", ax: Axes | None = None) -> Axes:
    """Plots R@10 of each source and of the mixture on held-out requests, with 95 % intervals.

    Args:
        report: the report of a fit.
        kind: kind of question: "question", "seen cue" or "unseen cue".
        ax: the axes to draw into; None for new ones.

    Raises:
        InvalidInput: the report has nothing of this kind.
        MissingExtra: matplotlib is not installed.
    """
    rows = sorted(_of_kind(report, kind), key=lambda worth: worth.recall.mean)
    ax = _axes(ax)
    means = np.array([worth.recall.mean for worth in rows])
    spans = np.abs(np.array([[worth.recall.low, worth.recall.high] for worth in rows]).T - means)
    colours = [ORANGE if worth.source == "mixture" else BLUE for worth in rows]
    ax.barh(np.arange(len(rows)), means, xerr=spans, color=colours, error_kw={"elinewidth": 1})
    ax.set_yticks(np.arange(len(rows)), [worth.source for worth in rows])
    ax.set(xlabel=f"R@10, {rows[0].questions:,} held out", xlim=(0, 1))
    return ax


def reliability(report: FitReport, kind: str = "question", ax: Axes | None = None) -> Axes:
    """Plots confidence against the share of hits that were used. On the diagonal, confidence is calibrated.

    Args:
        report: the report of a fit.
        kind: see ``validation``.
        ax: the axes to draw into; None for new ones.

    Raises:
        InvalidInput: the report has nothing of this kind.
        MissingExtra: matplotlib is not installed.
    """
    bins = next(worth for worth in _of_kind(report, kind) if worth.source == "mixture").reliability
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
    sizes = np.array([one.count for one in bins])
    ax.scatter(
        [one.confidence for one in bins],
        [one.frequency for one in bins],
        s=20 + 60 * sizes / sizes.max(initial=1),
        color=BLUE,
    )
    ax.set(xlabel="confidence", ylabel="share that was used", xlim=(0, 1), ylim=(0, 1))
    return ax


def neighbourhood(index: pam.PredictiveAssociativeIndex, id: str, hops: int = 1, ax: Axes | None = None) -> Axes:
    """Plots a memory and its associates. Similar memories are near each other; lines join co-occurring memories.

    Args:
        index: the index to query.
        id: the id of the memory.
        hops: 1 to 3.
        ax: the axes to draw into; None for new ones.

    Raises:
        InvalidInput, UnknownId: an argument is invalid.
        MissingExtra: matplotlib is not installed.
    """
    found = pictures.neighbourhood(index, {"id": id, "hops": hops})
    ax = _axes(ax)
    positions = {node["id"]: node["at"] for node in found["nodes"]}
    for edge in found["edges"]:
        if edge["from"] in positions and edge["to"] in positions:
            (x, y), (to_x, to_y) = positions[edge["from"]], positions[edge["to"]]
            colour, style = (BLUE, "-") if edge["exact"] else (FAINT, "--")
            ax.plot([x, to_x], [y, to_y], color=colour, linestyle=style, linewidth=1, zorder=1)
    for node in found["nodes"]:
        x, y = positions[node["id"]]
        ax.scatter([x], [y], s=60 if node["hop"] == 0 else 30, color=ORANGE if node["hop"] == 0 else BLUE, zorder=2)
        ax.annotate(
            node["name"][:28], (x, y), (0, 6), textcoords="offset points", ha="center", size=8, parse_math=False
        )
    ax.margins(0.15)
    ax.set_axis_off()
    return ax


def spread(imagination: pam.Imagination, ax: Axes | None = None) -> Axes:
    """Plots the expected distance of associates from an imagined point, and the distances of the nearest memories.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    ax = _axes(ax)
    far = [float(np.sqrt(max(0.0, 2 - 2 * hit.score))) for hit in imagination.nearest]
    ax.axvline(imagination.spread, color=ORANGE, label="where associates should lie")
    ax.scatter(far, np.arange(len(far)), color=BLUE, label="nearest memories")
    ax.set_yticks(np.arange(len(far)))
    ax.set_yticklabels([(hit.text or hit.id)[:28] for hit in imagination.nearest], parse_math=False)
    ax.invert_yaxis()
    ax.set(xlabel="distance from the imagined point", xlim=(0, None))
    ax.legend()
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots", "pam_retriever.plots") from error
    return pyplot.subplots(layout="constrained")[1]


def _of_kind(report: FitReport, kind: str) -> list[Worth]:
    rows = [worth for worth in report.validation.worths if worth.kind == kind]
    if not rows:
        known = sorted({worth.kind for worth in report.validation.worths})
        raise InvalidInput(
            f"Got kind={kind!r}.",
            f"one of {known}" if known else "a fit that held some past requests out",
            "Give more feedback, at least 20 requests to hold out, and fit again.",
        )
    return rows
