"""The metadata keys of names, and the search for names in an index."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.names import NameRules
from pam_retriever.store.base import NO_ROWS, Store


def set_names(store: Store, names: Sequence[str]) -> None:
    """Sets the metadata keys of names. The next query that needs mentions searches for them.

    Raises:
        InvalidInput: these are no keys, or this kind of store has no names.
        ReadOnlyIndex: the index has other keys, and was opened to read.
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
    """Whether the search for names is yet to be done, and this store can do it."""
    mentions = store.database.mentions
    return mentions is not None and mentions.pending


def search(store: Store) -> None:
    """Searches for names and mentions. Nobody may read or write meanwhile."""
    mentions = store.database.mentions
    if mentions is not None and mentions.pending:
        with store.database.transaction():
            mentions.search()
        store.apply_after_commit(NO_ROWS, _nothing)


def close(store: Store) -> None:
    """Does the search for names that this process left, and closes the store. No other thread may use it meanwhile."""
    try:
        mentions = None if store.closed else store.database.mentions
        if mentions is not None and mentions.waits:
            search(store)
    finally:
        store.close()


def _nothing() -> None:
    """Does nothing: no copy in memory holds mentions."""
