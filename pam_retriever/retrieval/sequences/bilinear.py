"""A bilinear model of transitions: which vectors are likely to follow a vector.

The score of y after x is x A y with A = (Cxx + r I)^-1 Cxy (C + r I)^-1. Cxx is the mean of x x' over distinct
transitions, Cxy that of x y', C that of the memories, and r is the mean eigenvalue. It is a ridge regression of the
next vector (Hoerl and Kennard 1970), of reduced rank (Izenman 1975), compared in whitened coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import safetensors
import safetensors.numpy

from pam_retriever.ann import AnnIndex
from pam_retriever.errors import IndexFormatError
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.store.experience_fit import REMEDY, read_matrices
from pam_retriever.types import Float32, Float64, Int64

RANK = 64
NEWEST = 20_000  # transitions that are read; more change little
CHUNK = 4_096  # rows whose vectors are in memory at once


@dataclass(frozen=True)
class Bilinear:
    """A = ``left`` (d, r) @ ``right`` (r, d)."""

    left: Float32
    right: Float32

    def after(self, vectors: Float32) -> Float32:
        """Returns unit vectors (Q, d): their cosine with a memory grows with its score after each vector (Q, d)."""
        return unit((vectors @ self.left @ self.right).astype(np.float32))

    @classmethod
    def of(cls, graph: CooccurrenceGraph, similar: AnnIndex) -> Bilinear | None:
        """Fits the model on the newest transitions of a graph; None if there are none.

        Each transition counts once, however often it was experienced: otherwise popular memories follow everything.
        """
        step, after = _transitions(graph)
        if not len(step):
            return None
        rows = np.unique(np.concatenate([step, after]))
        of_steps, with_next, of_rows = (
            _moment(similar, step, step),
            _moment(similar, step, after),
            _moment(similar, rows, rows),
        )
        ridge = np.eye(len(of_rows)) / len(of_rows)
        whole = np.linalg.solve(of_steps + ridge, with_next)
        whole = np.linalg.solve(of_rows + ridge, whole.T).T
        left, strength, right = np.linalg.svd(whole)
        return cls((left[:, :RANK] * strength[:RANK]).astype(np.float32), right[:RANK].astype(np.float32))

    def pack(self) -> bytes:
        """Returns the contents of a safetensors file."""
        return safetensors.numpy.save({"left": self.left, "right": self.right})

    @classmethod
    def unpack(cls, packed: bytes, dim: int) -> Bilinear:
        """Reads the output of ``pack``.

        Raises:
            IndexFormatError: the contents are damaged, or of another dimension.
        """
        left, right = read_matrices(packed)
        if len(left) != dim:
            raise IndexFormatError(
                f"The weights of recall_next are for dimension {len(left)}.", f"matrices for dimension {dim}", REMEDY
            )
        return cls(left, right)


def _transitions(graph: CooccurrenceGraph) -> tuple[Int64, Int64]:
    """Returns the newest distinct pairs (n,) of a step and the next one, without repeats of a step."""
    rows, trajectory, _, _ = graph.steps()
    there = (trajectory[1:] == trajectory[:-1]) & (rows[1:] != rows[:-1])
    pairs = np.stack([rows[:-1][there], rows[1:][there]])[:, -NEWEST:]
    step, after = np.unique(pairs, axis=1)
    return step, after


def _moment(similar: AnnIndex, rows: Int64, others: Int64) -> Float64:
    """Returns the mean (d, d) of the outer products of the vectors of ``rows`` (n,) and ``others`` (n,)."""
    width = similar.keys(rows[:1]).shape[1]
    total: Float64 = np.zeros((width, width))
    for start in range(0, len(rows), CHUNK):
        chunk = slice(start, start + CHUNK)
        keys = similar.keys(rows[chunk])
        total += keys.T @ (keys if rows is others else similar.keys(others[chunk]))
    return total / len(rows)
