"""Adding and changing memories, given as vectors, as texts for the embedder, or as observations for the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from pam_retriever.embedding import Embedder, embed_texts
from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.filters.metadata import check_metadatas
from pam_retriever.filters.stored import to_json
from pam_retriever.store.appending import NewStep
from pam_retriever.store.base import Store
from pam_retriever.store.space import is_observed, no_encoder
from pam_retriever.store.sqlite.times import NewTimes
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Metadata, Time
from pam_retriever.validation import check_ids, check_texts, check_vector, check_vectors

Ids = Sequence[str] | None
Texts = Sequence[str | None] | None
Metadatas = Sequence[Metadata | None] | None
Timestamps = Sequence[Time | None] | None


class NotGiven:
    """The default of an argument that was not given, where None is a valid value."""

    def __repr__(self) -> str:
        return "<as it is>"


NOT_GIVEN: Final = NotGiven()


def add(
    store: Store,
    embedder: Embedder | None,
    given: object,
    ids: Ids,
    texts: Texts,
    metadatas: Metadatas,
    timestamps: Timestamps = None,
) -> list[str]:
    """Checks and stores memories; see ``PredictiveAssociativeIndex.add``."""
    if is_observed(given):
        return _add_observed(store, given, ids, texts, metadatas, timestamps)
    if given is None:
        vectors = embed_texts(embedder, texts, store.dim, "add(texts=...)", lambda: _embedder_of(store))
    else:
        vectors = check_vectors(cast("npt.ArrayLike", given), store.dim, "add")
    new = read_memories(vectors, ids, texts, metadatas, timestamps, None if given is not None else embedder)
    with store.lock.exclusive():
        store.add(new)
        store.keep_within_capacity()
    return list(new.ids)


def read_memories(
    vectors: Float32, ids: Ids, texts: Texts, metadatas: Metadatas, timestamps: Timestamps, made_by: Embedder | None
) -> NewMemories:
    """Checks memories with checked vectors (n, dim); ``made_by`` is the embedder that made these of texts."""
    names = check_ids(ids, len(vectors))
    contents = check_texts(texts, len(vectors)), check_metadatas(metadatas, len(vectors))
    return NewMemories(names, vectors, *contents, times=NewTimes.of(timestamps, len(vectors)), embedder=made_by)


def _add_observed(
    store: Store, given: object, ids: Ids, texts: Texts, metadatas: Metadatas, timestamps: Timestamps
) -> list[str]:
    space = store.space
    if space is None:
        raise no_encoder("add")
    observed = space.encoder.read(given, "add")
    names = check_ids(ids, len(observed))
    contents = check_texts(texts, len(observed)), check_metadatas(metadatas, len(observed))
    times = NewTimes.of(timestamps, len(observed))
    vectors = space.encoder.encode(observed)
    with store.lock.exclusive():
        if store.space is not space and store.space is not None:  # ``reencode`` replaced the encoder meanwhile
            vectors = store.space.encoder.encode(observed)
        vectors = check_vectors(vectors, store.dim, "the encoder's states")
        store.add(NewMemories(names, vectors, *contents, observed.pack(), times))
        store.keep_within_capacity()
    return names


def append(
    store: Store,
    embedder: Embedder | None,
    given: object,
    text: str | None,
    metadata: Metadata | None,
    step: NewStep,
) -> int:
    """Checks and stores one step of a trajectory, with its memory if one is given; returns the position of the step.

    See ``PredictiveAssociativeIndex.append``.
    """
    if given is None and text is None:
        if metadata is not None:
            raise InvalidInput(
                f"Got metadata with neither a vector nor a text for {step.id!r}.",
                "a memory to store, or the id of a stored one alone",
                "Pass vector=... or text=..., or call update().",
            )
        with store.lock.exclusive():
            return store.append(step)
    metadatas, texts = check_metadatas([metadata], 1), check_texts([text], 1)

    def store_step(vectors: Float32, observed: Sequence[bytes] | None = None, made_by: Embedder | None = None) -> int:
        new = NewMemories([step.id], vectors, texts, metadatas, observed, step.times, made_by)
        at = store.append(replace(step, memory=new))
        store.keep_within_capacity()
        return at

    if is_observed([given]):
        space = store.space
        if space is None:
            raise no_encoder("append")
        observed = space.encoder.read([given], "append")
        with store.lock.exclusive():
            states = (store.space or space).encoder.encode(observed)
            return store_step(check_vectors(states, store.dim, "append"), observed.pack())
    if given is not None:
        vectors = check_vector(given, store.dim, "append")
        with store.lock.exclusive():
            return store_step(vectors)
    vectors = embed_texts(embedder, texts, store.dim, "append(text=...)", lambda: _embedder_of(store))
    with store.lock.exclusive():
        return store_step(vectors, made_by=embedder)


def update(
    store: Store,
    embedder: Embedder | None,
    id: str,
    text: str | NotGiven | None,
    metadata: Metadata | NotGiven | None,
    vector: object,
    timestamp: Time | NotGiven | None,
) -> None:
    """Changes parts of a stored memory; see ``PredictiveAssociativeIndex.update``."""
    if text is NOT_GIVEN and metadata is NOT_GIVEN and vector is None and timestamp is NOT_GIVEN:
        raise InvalidInput(f"Got no change for {id!r}.", "text, metadata, vector or timestamp", "Pass one of them.")
    times = None if isinstance(timestamp, NotGiven) else NewTimes.of([timestamp], 1)
    new_text = NOT_GIVEN if isinstance(text, NotGiven) else check_texts([text], 1)[0]
    new_metadata = None if isinstance(metadata, NotGiven) else check_metadatas([metadata], 1)[0]
    vectors = None if vector is None else check_vector(vector, store.dim, "update")
    embedded = (
        vectors is None and isinstance(new_text, str) and (embedder is not None or _embedder_of(store) is not None)
    )
    if embedded:
        vectors = embed_texts(
            embedder, [cast("str", new_text)], store.dim, "update(text=...)", lambda: _embedder_of(store)
        )
    with store.lock.exclusive():
        record = store.database.memories.records([id]).get(id)
        if record is None:
            raise UnknownId(f"Got the unknown id {id!r}.", "the id of a stored memory", "add() it first.")
        row = store.database.memories.rows_of([id])[id]
        seen = None if store.observed is None else store.observed.observations(np.array([row])).get(row)
        if seen is not None and vectors is not None:
            raise InvalidInput(
                f"Got another vector for {id!r}, which an encoder made of an observation.",
                "text or metadata of it",
                "add() the new observation under the same id.",
            )
        new = NewMemories(
            [id],
            record.vector[None] if vectors is None else vectors,
            [record.text if isinstance(new_text, NotGiven) else new_text],
            [to_json(record.metadata) if new_metadata is None else new_metadata],
            None if seen is None else [seen],
            times,
            embedder if embedded else None,
        )
        store.add(new)


def _embedder_of(store: Store) -> str | None:
    with store.lock.shared():
        return store.embedder
