"""New memories: given as vectors, as texts for the embedder, or as observations for the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pam_retriever.bank import Bank
from pam_retriever.embedding import Embedder, embed_texts
from pam_retriever.jepa.store import is_observed, no_encoder
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.types import Metadata
from pam_retriever.validation import check_ids, check_metadatas, check_texts, check_vectors

Ids = Sequence[str] | None
Texts = Sequence[str | None] | None
Metadatas = Sequence[Metadata | None] | None


def add(
    bank: Bank, lock: ReadWriteLock, embedder: Embedder | None, given: Any, ids: Ids, texts: Texts, metadatas: Metadatas
) -> list[str]:
    """Checks and stores memories; see ``PredictiveAssociativeIndex.add``."""
    if is_observed(given):
        return _add_observed(bank, lock, given, ids, texts, metadatas)
    embedded = given is None
    if embedded:
        with lock.shared():
            used_before = bank.note("embedder")
        given = embed_texts(embedder, texts, bank.dim, used_before)
    vectors = check_vectors(given, bank.dim, "add")
    names = check_ids(ids, len(vectors))
    contents = check_texts(texts, len(vectors)), check_metadatas(metadatas, len(vectors))
    with lock:
        bank.add(names, *contents, vectors)
        if embedded and embedder is not None and bank.note("embedder") != embedder.name:
            bank.set_note("embedder", embedder.name)
        bank.keep_within_capacity()
    return names


def _add_observed(
    bank: Bank, lock: ReadWriteLock, given: Any, ids: Ids, texts: Texts, metadatas: Metadatas
) -> list[str]:
    space = bank.space
    if space is None:
        raise no_encoder("add")
    observed = space.read(given, "add")
    names = check_ids(ids, len(observed))
    contents = check_texts(texts, len(observed)), check_metadatas(metadatas, len(observed))
    vectors = space.encoder.encode(observed)
    with lock:
        if bank.space is not space and bank.space is not None:  # it moved meanwhile
            vectors = bank.space.encoder.encode(observed)
        bank.add(names, *contents, check_vectors(vectors, bank.dim, "the encoder's states"), observed.pack())
        bank.keep_within_capacity()
    return names
