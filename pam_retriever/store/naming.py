"""The metadata keys of names, and the search for names in an index."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.names import Naming
from pam_retriever.store.base import NO_ROWS, Store

Names = Sequence[str] | Naming


def set_names(store: Store, names: Names) -> None:
    """Sets the names and links of an index. The next query that needs mentions searches for them.

    Raises:
        InvalidInput: ``names`` is invalid, or this kind of store has no names.
        MissingExtra: a pattern needs the extra ``mentions``.
        ReadOnlyIndex: the index has other names, and was opened to read.
    """
    naming, mentions = Naming.of(names), store.database.mentions
    if mentions is None:
        raise InvalidInput(
            f"Got names={names!r} for an index in {store.backend!r}.", "an index in SQLite", "Leave names out."
        )
    if mentions.naming == naming:
        return
    with store.database.transaction():
        mentions.set_naming(naming)
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
