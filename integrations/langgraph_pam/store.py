"""PAMStore: LangGraph's BaseStore over a PredictiveAssociativeIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import numpy as np
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result, SearchOp, TTLConfig
from typing_extensions import Self

from langgraph_pam.answers import Reader
from langgraph_pam.items import FILE, Items
from langgraph_pam.memories import FOLDER, Memories, first_memory
from langgraph_pam.reading import (
    Embedding,
    Namespace,
    PAMIndexConfig,
    check_minutes,
    check_op,
    check_query,
    from_json,
    read_value,
    storable,
)
from langgraph_pam.rows import Put, from_path, to_path
from langgraph_pam.sweeper import Sweeper
from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.locks import Mutex
from pam_retriever.store.folder.files import read_path
from pam_retriever.types import Float32
from pam_retriever.validation import read_list

SWEEP_MINUTES = 5.0
NOTHING: Float32 = np.empty((0, 0), np.float32)
TTL_SETTINGS = {"refresh_on_read", "omit_expired", "default_ttl", "sweep_interval_minutes"}


@dataclass(frozen=True)
class Texts:
    """The texts to embed for the operations of a batch.

    Attributes:
        puts: the last put of each item, in the order of the batch.
        values: JSON of the value of each put, None for a deletion.
        fields: the texts to embed, for each put.
        stored: all these texts, without duplicates.
        questions: questions, without duplicates.
    """

    puts: list[PutOp]
    values: list[str | None]
    fields: list[list[str]]
    stored: list[str]
    questions: list[str]


class PAMStore(BaseStore):
    """A durable store for LangGraph, whose search also finds items that happened together.

    Use it like any other store: ``graph.compile(store=PAMStore("folder", index={...}))``. The first element of a
    namespace is the tenant: tenants do not affect each other's searches. The items of one namespace are linked in the
    order of their puts; ``observe`` links items in the given order. A search with a query is the default recall of the
    library: vectors, words, neighbours, and items that served similar questions (``feedback``).

    Each call is one transaction, also a batch over several tenants. Its writes are on disk when the call returns. Any
    thread may call any method. With ``index``, only one process at a time can have a folder open.

    Args:
        path: folder of a durable store, opened or created; None keeps it in memory.
        index: as for LangGraph's own stores: ``{"dims": 384, "embed": embeddings, "fields": ["text"]}``. ``embed``
            is LangChain ``Embeddings`` or a function of a list of texts, which may be async; ``fields`` are paths, the
            whole value by default. Without ``index`` a query is ignored. ``"mode": "similarity"`` ranks by cosine
            alone, as ``InMemoryStore`` does.
        ttl: ``{"default_ttl": minutes, "refresh_on_read": True, "omit_expired": False,
            "sweep_interval_minutes": minutes}``, each optional. ``sweep_ttl``, or the thread of
            ``start_ttl_sweeper``, deletes expired items; with ``omit_expired`` they are hidden until then.

    Raises:
        InvalidInput: an argument is invalid, or the folder has other contents.
        IndexLocked: another process has the folder open.
        IndexFormatError: the folder is damaged, or of a newer version.
        StorageError: the folder cannot be written to.

    Example:
        >>> store = PAMStore("memories", index={"dims": 384, "embed": embeddings})  # doctest: +SKIP
        >>> store.put(("ann", "notes"), "stairs", {"text": "The stairs were wet."})  # doctest: +SKIP
        >>> store.put(("ann", "notes"), "wrist", {"text": "Her wrist is in plaster."})  # doctest: +SKIP
        >>> store.search(("ann",), query="What came of the wet stairs?")  # doctest: +SKIP
    """

    supports_ttl = True

    def __init__(
        self, path: str | Path | None = None, *, index: PAMIndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> None:
        folder = None if path is None else read_path("path", path)
        self.ttl_config = _read_ttl(ttl)
        self._embedding = None if index is None else Embedding(index)
        if folder is not None:
            _make_folder(folder)
        self._items = Items(folder)
        self._memories = self._open_memories(folder)
        self._writing, self._applied, self._closed = Mutex(), 0, False
        self._sweeper = Sweeper(self.sweep_ttl)
        try:
            self._take_over()
        except BaseException:
            self.close()
            raise

    def _open_memories(self, folder: Path | None) -> Memories | None:
        try:
            if folder is not None and self._embedding is not None:
                self._items.check_index(folder / FOLDER)
            return None if self._embedding is None else Memories(folder, self._embedding)
        except BaseException:
            self._items.close()
            raise

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses ``pickle`` and ``copy``: two objects would share one database.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            "A PAMStore was to be pickled or copied.",
            "one object for its folder, which any thread may call",
            "Pass the same object on. In another process, open PAMStore(path) after this one is closed.",
        )

    # ---- the two abstract methods of LangGraph

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Executes operations: first all reads, then all writes as one transaction; see ``BaseStore``.

        Raises:
            InvalidInput, InvalidNamespaceError: an operation is invalid. Nothing was read or stored.
        """
        given = list(ops)
        texts = self._read(given)
        stored = question_vectors = NOTHING
        if self._embedding is not None and (texts.stored or texts.questions):
            model = self._embedding.model
            stored = self._vectors(model.embed_documents(texts.stored) if texts.stored else [], texts.stored)
            question_vectors = self._vectors([model.embed_query(text) for text in texts.questions], texts.questions)
        return self._run(given, texts, stored, question_vectors)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like ``batch``, with the async methods of the embedder; does not block the event loop."""
        given = list(ops)
        texts = self._read(given)
        stored = question_vectors = NOTHING
        if self._embedding is not None and (texts.stored or texts.questions):
            model = self._embedding.model
            made = await model.aembed_documents(texts.stored) if texts.stored else []
            stored = self._vectors(made, texts.stored)
            question_vectors = self._vectors(
                await asyncio.gather(*(model.aembed_query(text) for text in texts.questions)), texts.questions
            )
        return await asyncio.to_thread(self._run, given, texts, stored, question_vectors)

    # ---- experience

    def observe(self, namespace: Namespace, keys: Sequence[str]) -> None:
        """Records that items of a namespace were experienced together, in this order.

        Args:
            namespace: namespace of the items.
            keys: keys of at least two items that have vectors.

        Raises:
            InvalidInput: the store has no ``index``, or an item has no vector.
            UnknownId: a key is not stored.
        """
        tenant, ids = self._memories_of(namespace, read_list("keys", keys))
        tenant.observe(Trajectory(ids=ids))

    def feedback(
        self, namespace: Namespace, query: str, used: Sequence[str] | Mapping[str, float], unused: Sequence[str] = ()
    ) -> str:
        """Stores the items that served a question; similar questions find them from then on.

        Args:
            namespace: namespace of the items.
            query: the question.
            used: keys of items that served it, or {key: weight} with weights above 0.
            unused: keys of items that were shown and did not help.

        Returns:
            The id of the feedback in the index of the tenant.

        Raises:
            InvalidInput: the store has no ``index``, or an item has no vector.
            UnknownId: a key is not stored.
        """
        check_query(query)
        helped = list(used) if isinstance(used, Mapping) else read_list("used", used)
        tenant, ids = self._memories_of(namespace, [*helped, *read_list("unused", unused)])
        served = ids[: len(helped)]
        weights = dict(zip(served, used.values(), strict=True)) if isinstance(used, Mapping) else served
        assert self._embedding is not None
        (vector,) = self._vectors([self._embedding.model.embed_query(query)], [query])
        return tenant.feedback(vector, weights, unused=ids[len(helped) :], text=storable(query))

    def tenant(self, name: str) -> PredictiveAssociativeIndex:
        """Returns the index of a tenant, for ``fit`` or queries: its name is the first element of a namespace.

        The store manages its memories: put and delete items, but do not add or delete memories.

        Raises:
            InvalidInput: the store has no ``index``.
            InvalidNamespaceError: no namespace can begin with this name.
        """
        check_op(SearchOp((name,)))
        if self._memories is None:
            raise InvalidInput("This store has no index.", "PAMStore(..., index={...})", "Pass index=.")
        return self._memories.tenant(name)

    def drop_tenant(self, name: str) -> int:
        """Deletes a tenant for good: every item below the first element ``name``, and everything learnt from them.

        When it returns, no file of the store holds a byte of it.

        Returns:
            The number of deleted items.

        Raises:
            InvalidNamespaceError: no namespace can begin with this name. Nothing was deleted.
        """
        check_op(SearchOp((name,)))  # the file joins labels by dots: there "" means everything
        with self._writing:
            rows = self._items.under((name,), None)
            self._write([Put(from_path(row.path), row.key, None, None, [], NOTHING) for row in rows])
            if self._memories is not None:
                self._memories.drop(name)
            self._items.scrub((name,), self._applied)
        return len(rows)

    # ---- time to live

    def sweep_ttl(self) -> int:
        """Deletes the expired items; returns how many."""
        with self._writing:
            swept = self._items.sweep(self._items.clock(), self._applied)
            self._take_over()
        return swept

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Starts to sweep in the background, by default every ``sweep_interval_minutes`` of ``ttl``, or 5 minutes.

        Returns:
            A future; cancel it to stop the sweeps. For a store without ``ttl`` it is finished from the start.

        Raises:
            InvalidInput: the interval is invalid.
        """
        if self.ttl_config is None:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        if sweep_interval_minutes is not None:
            check_minutes("sweep_interval_minutes", sweep_interval_minutes)
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or SWEEP_MINUTES
        return self._sweeper.start(minutes * 60)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stops the sweeps; returns whether they ended within ``timeout`` seconds (None waits)."""
        return self._sweeper.stop(timeout)

    def close(self) -> None:
        """Stops the sweeps and closes the folder. A second call does nothing."""
        self._sweeper.stop()
        with self._writing:
            if self._closed:
                return
            self._closed = True
            try:
                if self._memories is not None:
                    self._memories.close()
                    self._items.settle(self._applied)  # may fail: the changes are safe to apply twice
            finally:
                self._items.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- reading

    def _read(self, ops: Sequence[Op]) -> Texts:
        """Checks the operations of a batch, and collects the texts to embed."""
        last: dict[tuple[Namespace, str], PutOp] = {}
        questions: dict[str, None] = {}
        for op in ops:
            check_op(op)
            if isinstance(op, PutOp):
                last[tuple(op.namespace), op.key] = op
            elif isinstance(op, SearchOp) and op.query and self._embedding is not None:
                questions[op.query] = None
        puts = list(last.values())
        values = [None if put.value is None else read_value(put.value) for put in puts]
        fields: list[list[str]] = [[] for _ in puts]
        if self._embedding is not None:
            fields = [
                [] if value is None else self._embedding.texts(from_json(value), put.index)
                for put, value in zip(puts, values, strict=True)
            ]
        stored = dict.fromkeys(text for some in fields for text in some)
        return Texts(puts, values, fields, list(stored), list(questions))

    def _vectors(self, found: Sequence[Sequence[float]], texts: Sequence[str]) -> Float32:
        assert self._embedding is not None
        return self._embedding.vectors(found, len(texts))

    def _run(self, ops: Sequence[Op], texts: Texts, stored: Float32, question_vectors: Float32) -> list[Result]:
        questions = dict(zip(texts.questions, question_vectors, strict=self._embedding is not None))
        at = self._items.clock() if self.ttl_config is not None and self.ttl_config.get("omit_expired", False) else None
        reader = Reader(self._items, self._memories, None if self._embedding is None else self._embedding.mode, at)
        results: list[Result] = [reader.read(op, questions) for op in ops]
        if texts.puts:
            vectors = dict(zip(texts.stored, stored, strict=self._embedding is not None))
            self._write(
                [
                    _to_put(put, value, some, vectors)
                    for put, value, some in zip(texts.puts, texts.values, texts.fields, strict=True)
                ]
            )
        return results

    def _memories_of(self, namespace: Namespace, keys: Sequence[str]) -> tuple[PredictiveAssociativeIndex, list[str]]:
        """Returns the index of a namespace, and the ids of the memories of items with these keys."""
        for key in keys:
            check_op(GetOp(namespace, key))
        tenant = self.tenant(namespace[0] if namespace else "")
        rows = {key: self._items.get(namespace, key, None) for key in keys}
        if unknown := [key for key, row in rows.items() if row is None]:
            raise UnknownId(f"Got unknown keys: {unknown[:5]}.", f"keys in {to_path(namespace)}", "Put them first.")
        bare = [key for key, row in rows.items() if row is not None and not row.vectors]
        if bare:
            raise InvalidInput(
                f"The items {bare[:5]} have no vector.", "items that are indexed", "Put them without index=False."
            )
        return tenant, [first_memory(row.id) for key in keys if (row := rows[key]) is not None]

    # ---- writing

    def _write(self, puts: Sequence[Put]) -> None:
        with self._writing:
            self._take_over()  # changes that an earlier call could not apply
            if self._memories is not None and any(put.texts for put in puts):
                self._memories.name_embedder()
            self._items.write(puts, self._applied)
            self._take_over()

    def _take_over(self) -> None:
        """Applies pending changes to the indexes."""
        if self._memories is None:
            return
        changes = [change for change in self._items.pending() if change.id > self._applied]
        if changes:
            self._memories.apply(changes)
            self._applied = changes[-1].id


def _to_put(put: PutOp, value: str | None, texts: Sequence[str], vectors: Mapping[str, Float32]) -> Put:
    """Returns an item with its vectors, without texts whose vector is all zeros."""
    used = [text for text in texts if vectors[text].any()]
    matrix = np.stack([vectors[text] for text in used]) if used else NOTHING
    return Put(put.namespace, put.key, value, put.ttl, [storable(text) for text in used], matrix)


def _read_ttl(ttl: TTLConfig | None) -> TTLConfig | None:
    """Checks the settings of time to live.

    Raises:
        InvalidInput: a setting is unknown, or has an invalid value.
    """
    if ttl is None:
        return None
    if unknown := sorted(ttl.keys() - TTL_SETTINGS):
        raise InvalidInput(f"Got the unknown ttl settings {unknown}.", f"{sorted(TTL_SETTINGS)}", "Remove them.")
    for name, minutes in (("default_ttl", ttl.get("default_ttl")), ("sweep", ttl.get("sweep_interval_minutes"))):
        if minutes is not None:
            check_minutes(f"{name} in ttl", minutes)
    return ttl.copy()


def _make_folder(folder: Path) -> None:
    """Creates the folder of a store, unless it exists.

    Raises:
        InvalidInput: the folder has other contents.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / FILE).is_file()):
        raise InvalidInput(
            f"{folder} is neither empty nor the folder of a store.",
            "the folder of a store, or an empty one",
            "Choose another.",
        )
    folder.mkdir(parents=True, exist_ok=True)
