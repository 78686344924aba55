"""What an engine is to an index."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Engine(Protocol):
    """A database server, or a file of one, that holds a whole index.

    Attributes:
        name: of the engine.
    """

    name: str

    def connect(self, dim: int | None) -> tuple[Any, int]:
        """Opens the index, and makes it if it is not there.

        Args:
            dim: of the index; None for that of one that is there.

        Returns:
            The contract of ``storage.Documents`` and look-ups over it, and the dimension.
        """
