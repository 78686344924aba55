"""The contract of the mentions that a database keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pam_retriever.mentions.names import Naming
from pam_retriever.mentions.store import MentionStore
from pam_retriever.types import Int64


class KeptMentions(Protocol):
    """The mentions between texts and names, updated with the memories."""

    @property
    def store(self) -> MentionStore:
        """The tables."""

    @property
    def naming(self) -> Naming:
        """The names and links of the index."""

    @property
    def known(self) -> bool:
        """Whether any name is known."""

    @property
    def pending(self) -> bool:
        """Whether a search for names is yet to be done."""

    @property
    def waits(self) -> bool:
        """Whether this process added memories in bulk whose search may be yet to be done."""

    # ---- writing, inside a transaction

    def set_naming(self, naming: Naming) -> None:
        """Sets the names and links."""

    def search(self) -> None:
        """Does the search that is yet to be done."""

    def follow(self, rows: Int64, metadatas: Sequence[str]) -> None:
        """Adds memories (n,) that were just added or changed, with their metadata as JSON."""

    def forget(self, rows: Int64) -> None:
        """Removes memories that are about to be deleted."""
