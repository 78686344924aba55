"""Which memories existed when a request arrived: what feedback stores of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.errors import IndexFormatError
from pam_retriever.types import Int64

EXISTED = "existed"  # the setting
SPACING = 1.02  # the factor between the numbers of two entries, so that a million requests have some 500


@dataclass(frozen=True)
class Existed:
    """The highest row of a memory at some requests. Rows are never reused, so later memories have higher rows.

    Attributes:
        numbers: (m,) the numbers of these requests, rising.
        last_rows: (m,) the highest row that a memory had when the request arrived, rising.
    """

    numbers: Int64
    last_rows: Int64

    @classmethod
    def read(cls, stored: Any) -> Existed:
        """Reads the setting.

        Raises:
            IndexFormatError: it is damaged.
        """
        try:
            pairs = np.array([] if stored is None else stored, np.int64).reshape(-1, 2)
            if not (np.diff(pairs, axis=0) > 0).all():
                raise ValueError("numbers that do not rise")
        except (TypeError, ValueError, OverflowError) as error:
            raise IndexFormatError(
                f"What is stored about the memories that existed at past requests cannot be read ({error}).",
                "pairs of whole numbers that rise",
                "Run pam-retriever repair on the folder: it then counts all memories as if they had existed.",
            ) from error
        return cls(pairs[:, 0], pairs[:, 1])

    def to_json(self) -> list[list[int]]:
        """Returns the setting."""
        return [[int(number), int(row)] for number, row in zip(self.numbers, self.last_rows, strict=True)]

    def with_request(self, number: int, last_row: int) -> Existed | None:
        """Returns the same with a request that arrives now; None if it need not be stored.

        A request soon after the last stored one is not stored: until the next one, memories that were added between
        these count as not yet there.
        """
        if len(self.numbers) and (number < self.numbers[-1] * SPACING or last_row <= self.last_rows[-1]):
            return None
        return Existed(np.append(self.numbers, number), np.append(self.last_rows, last_row))

    def at(self, numbers: Int64) -> Int64:
        """Returns the highest row (n,) when the requests with these numbers (n,) arrived.

        Requests before the first stored one count like that one: an earlier version of the library stored nothing.
        """
        if not len(self.numbers):
            return np.full(len(numbers), np.iinfo(np.int64).max)
        found: Int64 = self.last_rows[np.maximum(np.searchsorted(self.numbers, numbers, "right") - 1, 0)]
        return found
