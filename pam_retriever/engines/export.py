"""A copy of an index in an engine, as the database of a folder."""

from __future__ import annotations

from typing import Any

from pam_retriever.backends import Backend
from pam_retriever.filters import to_json
from pam_retriever.storage.columns import checksum, to_blobs
from pam_retriever.storage.documents import Documents


def copy_of(store: Any, dim: int, associative: Backend | None) -> Documents:
    """All that an engine holds, in a database in memory; rows and numbers stay as they are.

    Args:
        store: what ``Engine.connect`` returned.
        dim: length of the vectors.
        associative: over the keys [p ; f(p) ; e(p)], None before ``fit``.
    """
    documents = Documents()
    with documents.closed_on_error(), documents.transaction():
        run_many = documents.database.run_many
        rows, vectors = store.memories.all_vectors(dim)
        blobs, listed, contents = to_blobs(vectors), rows.tolist(), store.memories.contents(rows)
        run_many(
            "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?)",
            ((row, *contents[row], _checksum(contents[row], blob)) for row, blob in zip(listed, blobs, strict=True)),
        )
        predicted = [None] * len(rows) if associative is None else to_blobs(associative.keys(rows)[:, dim:])
        run_many("INSERT INTO vectors VALUES (?, ?, ?)", zip(listed, blobs, predicted, strict=True))
        run_many("INSERT INTO trajectories (trajectory, id) VALUES (?, ?)", store.trajectories.named())
        run_many(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            store.trajectories.steps(),
        )
        run_many(
            "INSERT INTO settings VALUES (?, ?)", ((key, to_json(value)) for key, value in store.settings.all().items())
        )
    return documents


def _checksum(contents: tuple[str, str | None, str], vector: bytes) -> int:
    id, text, metadata = contents
    return checksum(id, text, metadata, vector)
