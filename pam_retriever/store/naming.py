"""The metadata keys of names, and the search for names in an index."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.errors import ReadOnlyIndex
from pam_retriever.mentions.names import MissingFunction, NameFunction, Naming, check_unchanged
from pam_retriever.store.base import Store

Names = Sequence[str] | NameFunction | Naming


def set_names(store: Store, names: Names) -> None:
    """Sets the names and links of an index. The next query that needs mentions searches for them.

    A function names all memories at once: it may fail, and whoever asks later may not have it. Without the function,
    memories keep the names that they have.

    Raises:
        InvalidInput: ``names`` is invalid, or a function fails for a stored memory; then nothing is changed.
        MissingExtra: a pattern needs the extra ``mentions``.
        ReadOnlyIndex: the index has other names, and was opened to read.
    """
    naming, mentions = Naming.of(names), store.database.mentions
    mentions.give(naming)
    missing = isinstance(naming.keys, MissingFunction)
    late = callable(naming.keys) and mentions.pending  # after a repair, which had no function
    if (mentions.has(naming) and not late) or (missing and len(store.database.memories) > 0):
        return

    def change() -> None:
        with store.database.transaction():
            mentions.set_naming(naming)
            if callable(naming.keys):
                mentions.search()

    try:
        store.again(change)
    except ReadOnlyIndex as error:
        raise ReadOnlyIndex(
            "Got names= for an index that has other names and was opened to read.",
            "the names of the index",
            "Leave names= out, or open the index for writing once: it then gets these names.",
        ) from error
    store.apply_after_commit()


def check_outside(store: Store) -> None:
    """Refuses to save or close an index in its own function of names.

    Raises:
        InvalidInput: the function runs in this thread.
    """
    check_unchanged(store.lock.held)


def has_to_search(store: Store) -> bool:
    """Whether the search for names is pending, and this store can perform it."""
    return store.database.mentions.pending


def search(store: Store) -> None:
    """Searches for names and mentions. Nobody may read or write meanwhile."""
    mentions = store.database.mentions

    def find() -> None:
        with store.database.transaction():
            mentions.search()

    if mentions.pending:
        store.again(find)
        store.apply_after_commit()


def close(store: Store) -> None:
    """Performs this process's pending search for names, and closes the store. No other thread may use the store."""
    try:
        if not store.closed and store.database.mentions.waits:
            search(store)
    finally:
        store.close()
