"""Which keys of the metadata are names, and when an index looks for them."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.names import NameRules
from pam_retriever.store.base import NO_ROWS, Store


def set_names(store: Store, names: Sequence[str]) -> None:
    """Has these keys be names from now on; mentions are searched for anew when they are next asked for.

    Raises:
        InvalidInput: they are no keys, or this kind of store has no names.
        ReadOnlyIndex: the index has others, and may not be changed.
    """
    keys = NameRules(names).names  # type: ignore[arg-type]
    mentions = store.database.mentions
    if mentions is None or callable(keys):
        raise InvalidInput(
            f"Got names={names!r} for an index in {store.backend!r}.",
            "keys of the metadata, for an index in SQLite",
            "Pass for example names=('title', 'aliases'), or leave names out.",
        )
    if mentions.keys == keys:
        return
    with store.database.transaction():
        mentions.set_keys(keys)
    store.apply_after_commit(NO_ROWS, _nothing)


def has_to_search(store: Store) -> bool:
    """Whether nobody has looked for names yet, and this store may."""
    mentions = store.database.mentions
    return mentions is not None and mentions.pending


def search(store: Store) -> None:
    """Looks for names and mentions. Nobody may read or write meanwhile."""
    mentions = store.database.mentions
    if mentions is not None and mentions.pending:
        with store.database.transaction():
            mentions.build()
        store.apply_after_commit(NO_ROWS, _nothing)


def _nothing() -> None:
    """The copies in memory have no mentions."""
