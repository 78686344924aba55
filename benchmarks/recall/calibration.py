"""Calibration of ``Hit.confidence``: reliability diagram, expected calibration error and log loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.retrieval.mixture.calibration import log_loss
from pam_retriever.types import Hit, Int64

BINS = 10


def reliability(queries: Int64, answers: list[list[Hit]], relevant: list[Int64]) -> dict[str, Any]:
    """Compares the confidence of hits with how often they were experienced with their cue.

    Args:
        queries: (Q,) the cues.
        answers: hits of each cue.
        relevant: for every state, the states that were experienced with it.

    Returns:
        For each of ten bins of confidence, the number of hits, their mean confidence, and the share that was
        experienced with the cue. The expected calibration error (Naeini et al. 2015), which is the mean difference of
        confidence and share. The log loss of the confidence. The log loss of the base rate, which is the share at the
        rank of each hit.
    """
    pairs = [(hit, q) for q, hits in zip(queries.tolist(), answers, strict=True) for hit in hits]
    confidence = np.array([hit.confidence for hit, _ in pairs])
    truth = np.array([int(hit.id) in found for hit, q in pairs for found in (set(relevant[q].tolist()),)], float)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    filled = np.maximum(count, 1)
    rank = np.concatenate([np.arange(len(hits)) for hits in answers])
    base = (np.bincount(rank, truth) / np.bincount(rank))[rank]
    said = np.bincount(bins, confidence, BINS) / filled
    was = np.bincount(bins, truth, BINS) / filled
    return {
        "hits": count.tolist(),
        "confidence": said.tolist(),
        "experienced": was.tolist(),
        "ECE": float((count * np.abs(said - was)).sum() / max(count.sum(), 1)),
        "log loss": log_loss(confidence, truth > 0),
        "log loss of the base rate": log_loss(base, truth > 0),
    }


def draw(found: dict[str, dict[str, Any]], path: Path) -> None:
    """Draws the diagram: one line per regime, from the bins with at least 20 hits."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 5))
    axes.plot([0, 1], [0, 1], color="0.8", label="as said")
    for name, of in found.items():
        enough = np.array(of["hits"]) >= 20
        said, was = np.array(of["confidence"])[enough], np.array(of["experienced"])[enough]
        axes.plot(said, was, marker="o", label=f"{name} (ECE {of['ECE']:.3f})")
    axes.set(xlabel="confidence", ylabel="share that was experienced with the cue", xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
