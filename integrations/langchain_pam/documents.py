"""LangChain documents to memories of the index, and back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document

from pam_retriever import Hit, InvalidInput, Record

MetadataDict = dict[str, Any]
Scored = list[tuple[Document, float]]


def to_document(memory: Hit | Record) -> Document:
    """A memory as a document; one that was stored without text has an empty page."""
    return Document(id=memory.id, page_content=memory.text or "", metadata=memory.metadata)


def to_scored(hits: Sequence[Hit]) -> Scored:
    """Hits as documents with their scores, larger is closer."""
    return [(to_document(hit), hit.score) for hit in hits]


def pages(scored: Scored) -> list[Document]:
    """The documents without their scores."""
    return [document for document, _ in scored]


def from_texts(
    texts: Iterable[str], metadatas: Sequence[MetadataDict | None] | None, ids: Sequence[str | None] | None
) -> list[Document]:
    """One document a text. Without ``ids`` or with None in it, a document has no id yet.

    Raises:
        InvalidInput: there are not as many metadatas or ids as texts.
    """
    if isinstance(texts, str):
        raise InvalidInput("Got one string as texts.", "a list of strings", "Wrap it in [ ].")
    contents = list(texts)  # it may be a generator
    _check_length("metadatas", metadatas, len(contents))
    _check_length("ids", ids, len(contents))
    return [
        Document(id=id, page_content=text, metadata=metadata or {})
        for text, metadata, id in zip(
            contents, metadatas or [None] * len(contents), ids or [None] * len(contents), strict=True
        )
    ]


def name_documents(documents: Sequence[Document], ids: Sequence[str | None] | None) -> list[str]:
    """The id of each document: the given one, else its own, else a new uuid4.

    Raises:
        InvalidInput: there are not as many ids as documents.
    """
    _check_length("ids", ids, len(documents))
    given = ids or [None] * len(documents)
    names = (document.id if id is None else id for document, id in zip(documents, given, strict=True))
    return [str(uuid.uuid4()) if name is None else name for name in names]


def last_of_each(names: Sequence[str], documents: Sequence[Document]) -> dict[str, Document]:
    """What one call stores: of documents with the same id the last, as if they had come one by one."""
    return dict(zip(names, documents, strict=True))


def _check_length(name: str, given: Sequence[Any] | None, expected: int) -> None:
    if given and len(given) != expected:
        raise InvalidInput(f"Got {len(given)} {name} for {expected} texts.", "as many", "Give one each.")
