"""An array that grows along its first axis."""

from __future__ import annotations

import numpy as np


class Growing:
    """An array that grows along its first axis.

    Args:
        values: the first values, which are copied.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values, self._n = np.array(values), len(values)

    def __len__(self) -> int:
        return self._n

    @property
    def view(self) -> np.ndarray:
        """Returns all values."""
        return self._values[: self._n]

    def extend(self, more: np.ndarray) -> None:
        """Appends values."""
        end = self._n + len(more)
        if end > len(self._values):
            grown = np.empty((max(16, 2 * end) if self._n else end, *self._values.shape[1:]), self._values.dtype)
            grown[: self._n] = self.view
            self._values = grown
        self._values[self._n : end] = more
        self._n = end
