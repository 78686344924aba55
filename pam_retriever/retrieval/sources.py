"""The part of each source in a score, and the sources that a caller leaves out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import read_list

ROUNDING = 1e-6  # a part that is no larger, in shares of the largest, is a rounding error


@dataclass(frozen=True)
class Contributions:
    """The part of each source in the scores of n memories.

    Attributes:
        names: the names of S sources.
        values: (n, S).
        log_odds: whether the parts add up to the log odds from which the scores follow, not to the scores.
    """

    names: tuple[str, ...]
    values: Float32
    log_odds: bool = False

    def __getitem__(self, positions: Int64) -> Contributions:
        """Returns the parts for the memories at ``positions``."""
        return replace(self, values=self.values[positions])

    def followed_by(self, others: Contributions) -> Contributions:
        """Appends the parts for other memories, of the same sources."""
        return replace(self, values=np.concatenate([self.values, others.values]))

    def scaled(self, scores: Float32, changed: Float32) -> Contributions:
        """Returns the parts after the scores (n,) were ``changed`` (n,). Parts of log odds stay as they are."""
        if self.log_odds:
            return self
        factor = np.divide(changed, scores, out=np.ones_like(scores), where=scores != 0)
        return replace(self, values=self.values * factor[:, None])

    def of_each(self) -> list[dict[str, float]]:
        """For each memory, returns the parts by name of the source, the largest first; nothing for a part of 0."""
        order = np.argsort(-np.abs(self.values), axis=1, kind="stable")
        sorted_values = np.take_along_axis(self.values, order, axis=1).astype(float)
        return [
            {self.names[at]: part for at, part in zip(columns, row, strict=True) if abs(part) > ROUNDING * abs(row[0])}
            for columns, row in zip(order.tolist(), sorted_values.tolist(), strict=True)
        ]

    @classmethod
    def of(cls, columns: Mapping[str, Float32]) -> Contributions:
        """Builds it from one column (n,) per source."""
        return cls(tuple(columns), np.stack(list(columns.values()), axis=1).astype(np.float32))


def read_without(without: Collection[str]) -> frozenset[str]:
    """Reads the names of the sources to leave out.

    Raises:
        InvalidInput: this is no collection of names.
    """
    names = read_list("without", without)
    if not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"Got without={without!r}.", "a list of names of sources", "Leave it out to use all.")
    return frozenset(names)


def check_without(without: frozenset[str], names: Sequence[str]) -> frozenset[str]:
    """Checks that an answer has these sources, and that at least one is left; returns them.

    Raises:
        InvalidInput: one is unknown, or none is left.
    """
    unknown = sorted(without - set(names))
    if unknown:
        fix = "Leave it out."
        raise InvalidInput(
            f"Got without={unknown}.", f"sources of this answer: {', '.join(names) or 'it has none'}", fix
        )
    if names and not set(names) - without:
        raise InvalidInput("Got without= of every source.", "one source at least that counts", "Leave one of them in.")
    return without
