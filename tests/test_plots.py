"""Figures by matplotlib agree with the reports and the index."""

from __future__ import annotations

import sys

import matplotlib
import numpy as np
import pytest
from explore_samples import DIM, HOSTILE, embed, fill

from pam_retriever import InvalidInput, MissingExtra, PredictiveAssociativeIndex, UnknownId, plots
from pam_retriever.evaluation import Interval, ReliabilityBin, Validation, Worth
from pam_retriever.types import FitReport

matplotlib.use("Agg")
BINS = (ReliabilityBin(0.1, 0.2, 30), ReliabilityBin(0.8, 0.7, 30))
WORTHS = (
    Worth("question", "words", 40, Interval(0.5, 0.4, 0.6)),
    Worth("question", "mixture", 40, Interval(0.7, 0.6, 0.75), 0.1, 0.3, BINS),
)
REPORT = FitReport(
    (3.0, 2.0, 1.5), 3, 0.1, "cpu", "float32", 4, 5, 6, 1.0, 7, {}, requests=200, validation=Validation(WORTHS)
)
EMPTY = FitReport((), 0, 0.0, "cpu", "float32", 0, 0, 0, 1.0, 0, {})


@pytest.fixture(scope="module")
def dialogue():
    """Shared: tests must not change it."""
    index = fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed))
    index.update("w" * 300, text=r"costs $\frac{ and $5")  # matplotlib must not read the $ as a formula
    return index


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_the_loss_is_a_line():
    (line,) = plots.loss(REPORT).lines
    assert line.get_ydata().tolist() == [3.0, 2.0, 1.5]
    assert line.get_xdata().tolist() == [1, 2, 3]


def test_validation_is_a_bar_a_source():
    ax = plots.validation(REPORT)
    assert [bar.get_width() for bar in ax.patches] == [0.5, 0.7]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["words", "mixture"]


def test_reliability_has_a_point_a_bin():
    (points,) = plots.reliability(REPORT).collections
    np.testing.assert_allclose(points.get_offsets(), [[0.1, 0.2], [0.8, 0.7]])


def test_a_neighbourhood_draws_every_node_and_saves(dialogue, tmp_path):
    for id in ("2026-03-05/0", HOSTILE):
        ax = plots.neighbourhood(dialogue, id, hops=2)
        assert len(ax.texts) == len(ax.collections) > 3
        assert ax.lines
        ax.figure.savefig(tmp_path / "picture.png")  # fails if the text with $ is read as a formula


def test_the_spread_of_an_imagination(dialogue, tmp_path):
    imagined = dialogue.imagine("2026-03-05/0", k=4)
    ax = plots.spread(imagined)
    assert ax.lines[0].get_xdata()[0] == pytest.approx(imagined.spread)
    far = ax.collections[0].get_offsets()[:, 0]
    assert far[0] == pytest.approx(imagined.distance, abs=1e-3)
    ax.figure.savefig(tmp_path / "picture.png")


def test_given_axes_are_drawn_into():
    _, ax = matplotlib.pyplot.subplots()
    assert plots.loss(REPORT, ax) is ax


def test_what_cannot_be_drawn_is_said(dialogue, monkeypatch):
    with pytest.raises(InvalidInput, match="trained nothing"):
        plots.loss(EMPTY)
    with pytest.raises(InvalidInput, match="held some past requests out"):
        plots.validation(EMPTY)
    with pytest.raises(InvalidInput, match="'question'"):
        plots.reliability(REPORT, "seen cue")
    with pytest.raises(UnknownId):
        plots.neighbourhood(dialogue, "nobody")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match="plots"):
        plots.loss(REPORT)
