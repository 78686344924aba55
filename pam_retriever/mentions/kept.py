"""The contract of the mentions in a database."""

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
        """Returns whether any memory has a name."""

    @property
    def pending(self) -> bool:
        """Returns whether a search for names is pending."""

    @property
    def waits(self) -> bool:
        """Returns whether this process added memories in bulk whose search may be pending."""

    # ---- writing, inside a transaction

    def set_naming(self, naming: Naming) -> None:
        """Sets the names and links."""

    def search(self) -> None:
        """Performs the pending search."""

    def follow(self, rows: Int64, metadatas: Sequence[str]) -> None:
        """Adds memories (n,) that were just added or changed, with their metadata as JSON."""

    def forget(self, rows: Int64) -> None:
        """Removes memories that are about to be deleted."""
