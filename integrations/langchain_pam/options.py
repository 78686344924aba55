"""The keyword arguments of LangChain's methods, read strictly.

LangChain hands any keyword on. One that is swallowed may be a filter that is then not applied, or
turn ``delete(where=...)`` into "delete everything", so every one that is not known is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.documents import Document

from pam_retriever import InvalidInput

Filter = Mapping[str, Any] | Callable[[Document], bool]


def refuse(options: Mapping[str, Any], allowed: str) -> None:
    """Raises InvalidInput if there are options left."""
    if options:
        raise InvalidInput(f"Got the unknown options {sorted(options)}.", allowed, "Remove them.")


def pop_filter(filter: Filter | None, options: dict[str, Any]) -> Filter | None:
    """The filter of a search, which is called ``filter`` in LangChain and ``where`` in the core.

    Raises:
        InvalidInput: both were given.
    """
    where: Filter | None = options.pop("where", None)
    if filter is not None and where is not None:
        raise InvalidInput("Got both filter and where.", "one of them", "They mean the same; join them with '$and'.")
    return where if filter is None else filter


def read_filter(filter: Filter | None, options: dict[str, Any]) -> Filter | None:
    """The filter of a similarity search, and nothing else among its options.

    Raises:
        InvalidInput: both names were used, or there are other options.
    """
    # FAISS's option to fetch more before it filters: harmless here, where the filter comes first
    options.pop("fetch_k", None)
    where = pop_filter(filter, options)
    refuse(options, "k, filter or where")
    return where
