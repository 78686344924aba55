"""Five stores and this library behind one interface, for ``peers``. Each package is imported at its first use.

Every store has the best configuration that needs no choice by the user: LanceDB has scalar indexes of the filtered
columns, FAISS gets the positions that match a filter, and LangChain's FAISS fetches all rows as candidates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.performance.peer_data import RangeFilter, Rows

Float32 = npt.NDArray[np.float32]


class PeerStore(Protocol):
    """A store in a folder.

    Attributes:
        durable: whether ``add`` writes its rows to disk, or to the cache of the system, before it returns.
        exact: whether it compares a query with every row that matches the filter.
    """

    durable: bool
    exact: bool

    def open(self, folder: Path, dim: int) -> None:
        """Opens the store, or creates it."""

    def add(self, rows: Rows) -> None:
        """Stores rows."""

    def settle(self) -> None:
        """Runs the maintenance that a user would start after adding rows, for example builds an index."""

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        """Returns the ids of the ``k`` nearest rows that match a filter, and reads texts and metadata."""

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        """Searches for each of (n, dim) queries."""

    def close(self) -> None:
        """Closes the store, so that ``open`` finds everything."""


class Ours:
    """This library with its flat index."""

    durable, exact = True, True
    BACKEND = "faiss:flat"

    def open(self, folder: Path, dim: int) -> None:
        from pam_retriever import PredictiveAssociativeIndex

        self._index = PredictiveAssociativeIndex.open(folder / "index", dim=dim, backend=self.BACKEND)

    def add(self, rows: Rows) -> None:
        self._index.add(rows.vectors, rows.ids, rows.texts, rows.metadatas)

    def settle(self) -> None:
        pass

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        where = None if bounds is None else {bounds.key: {"$gte": bounds.first, "$lt": bounds.end}}
        return [hit.id for hit in self._index.search(query, k=k, where=where)]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        return [[hit.id for hit in hits] for hits in self._index.search_many(queries, k=k)]

    def close(self) -> None:
        self._index.close()


class Faiss:
    """FAISS's flat index: only vectors, in memory. It gets the positions that match a filter."""

    durable, exact = False, True

    def open(self, folder: Path, dim: int) -> None:
        import faiss

        self._file, self._faiss = folder / "flat.faiss", faiss
        self._index: Any = faiss.read_index(str(self._file)) if self._file.exists() else faiss.IndexFlatIP(dim)

    def add(self, rows: Rows) -> None:
        self._index.add(unit(rows.vectors))

    def settle(self) -> None:
        pass

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        options = {}
        if bounds is not None:
            selector = (
                self._faiss.IDSelectorBatch(bounds.positions)
                if bounds.few
                else self._faiss.IDSelectorBitmap(bounds.bits)
            )
            options["params"] = self._faiss.SearchParameters(sel=selector)
        return [f"memory-{at}" for at in self._index.search(unit(query[None]), k, **options)[1][0].tolist()]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        return [[f"memory-{at}" for at in row] for row in self._index.search(unit(queries), k)[1].tolist()]

    def close(self) -> None:
        self._faiss.write_index(self._index, str(self._file))


class Lance:
    """LanceDB: flat, with scalar indexes of the filtered columns."""

    durable, exact = True, True
    COLUMNS = ("id", "text", "group", "part")

    def open(self, folder: Path, dim: int) -> None:
        import lancedb
        import pyarrow as pa

        self._pa, database = pa, lancedb.connect(str(folder / "lance"))
        vector = pa.field("vector", pa.list_(pa.float32(), dim))
        fields = [("id", pa.string()), ("text", pa.string()), ("group", pa.int64()), ("part", pa.int64())]
        self._schema = pa.schema([vector, *(pa.field(*field) for field in fields)])
        self._table: Any = database.create_table("memories", schema=self._schema, exist_ok=True)

    def add(self, rows: Rows) -> None:
        flat = self._pa.array(rows.vectors.reshape(-1))
        columns = {
            "vector": self._pa.FixedSizeListArray.from_arrays(flat, rows.vectors.shape[1]),
            "id": rows.ids,
            "text": rows.texts,
            "group": [metadata["group"] for metadata in rows.metadatas],
            "part": [metadata["part"] for metadata in rows.metadatas],
        }
        self._table.add(self._pa.table(columns, schema=self._schema))

    def settle(self) -> None:
        for column in ("group", "part"):
            self._table.create_scalar_index(column, index_type="BITMAP")
        self._table.optimize()

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        found = self._query(query).limit(k)
        if bounds is not None:
            found = found.where(f"{bounds.key} >= {bounds.first} AND {bounds.key} < {bounds.end}", prefilter=True)
        return [row["id"] for row in found.to_list()]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        found: list[list[str]] = [[] for _ in queries]
        for row in self._query(list(queries)).limit(k).to_list():
            found[row["query_index"]].append(row["id"])
        return found

    def _query(self, queries: Any) -> Any:
        return self._table.search(queries).distance_type("cosine").select([*self.COLUMNS, "_distance"])

    def close(self) -> None:
        pass


class Chroma:
    """Chroma: its HNSW index with default settings."""

    durable, exact = True, False
    MOST = 5_000  # rows per call

    def open(self, folder: Path, dim: int) -> None:  # noqa: ARG002 - it takes the length of the first vector
        import chromadb

        settings = chromadb.Settings(anonymized_telemetry=False)
        self._client: Any = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
        self._collection = self._client.get_or_create_collection("memories", metadata={"hnsw:space": "cosine"})

    def add(self, rows: Rows) -> None:
        for at in range(0, len(rows.ids), self.MOST):
            some = slice(at, at + self.MOST)
            self._collection.add(
                ids=rows.ids[some],
                embeddings=rows.vectors[some],
                documents=rows.texts[some],
                metadatas=rows.metadatas[some],
            )

    def settle(self) -> None:
        pass

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        where = None
        if bounds is not None:
            where = {"$and": [{bounds.key: {"$gte": bounds.first}}, {bounds.key: {"$lt": bounds.end}}]}
        ids: list[str] = self._collection.query(query_embeddings=query[None], n_results=k, where=where)["ids"][0]
        return ids

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        found: list[list[str]] = self._collection.query(query_embeddings=queries, n_results=k)["ids"]
        return found

    def close(self) -> None:
        self._client.close()


class Qdrant:
    """Qdrant without a server: its local mode in Python, which compares a query with every row."""

    durable, exact = True, True

    def open(self, folder: Path, dim: int) -> None:
        import warnings

        import qdrant_client

        warnings.filterwarnings("ignore", message="Local mode is not recommended")
        self._models, self._next = qdrant_client.models, 0
        self._client: Any = qdrant_client.QdrantClient(path=str(folder / "qdrant"))
        if not self._client.collection_exists("memories"):
            space = self._models.VectorParams(size=dim, distance=self._models.Distance.COSINE)
            self._client.create_collection("memories", vectors_config=space)

    def add(self, rows: Rows) -> None:
        contents = zip(rows.ids, rows.texts, rows.metadatas, strict=True)
        payloads = [{"id": id, "text": text, **metadata} for id, text, metadata in contents]
        numbers = list(range(self._next, self._next + len(payloads)))
        self._next += len(payloads)
        batch = self._models.Batch(ids=numbers, vectors=rows.vectors.tolist(), payloads=payloads)
        self._client.upsert("memories", batch, wait=True)

    def settle(self) -> None:
        pass

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        where = None
        if bounds is not None:
            span = self._models.Range(gte=bounds.first, lt=bounds.end)
            where = self._models.Filter(must=[self._models.FieldCondition(key=bounds.key, range=span)])
        found = self._client.query_points("memories", query=query, limit=k, query_filter=where, with_payload=True)
        return [point.payload["id"] for point in found.points]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        requests = [self._models.QueryRequest(query=query.tolist(), limit=k, with_payload=True) for query in queries]
        found = self._client.query_batch_points("memories", requests)
        return [[point.payload["id"] for point in one.points] for one in found]

    def close(self) -> None:
        self._client.close()


class LangChainFaiss:
    """FAISS through LangChain: it fetches a given number of candidates, and filters them in Python."""

    durable, exact = False, True

    def open(self, folder: Path, dim: int) -> None:
        import faiss
        from langchain_community.docstore.in_memory import InMemoryDocstore
        from langchain_community.vectorstores import FAISS
        from langchain_community.vectorstores.utils import DistanceStrategy

        self._folder = folder / "langchain"
        options: dict[str, Any] = {
            "distance_strategy": DistanceStrategy.MAX_INNER_PRODUCT,
            "normalize_L2": False,
        }
        if self._folder.exists():
            self._store: Any = FAISS.load_local(
                str(self._folder), _no_texts, allow_dangerous_deserialization=True, **options
            )
        else:
            self._store = FAISS(_no_texts, faiss.IndexFlatIP(dim), InMemoryDocstore(), {}, **options)

    def add(self, rows: Rows) -> None:
        pairs = zip(rows.texts, unit(rows.vectors).tolist(), strict=True)
        self._store.add_embeddings(pairs, metadatas=rows.metadatas, ids=rows.ids)

    def settle(self) -> None:
        pass

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        where = None if bounds is None else {bounds.key: {"$gte": bounds.first, "$lt": bounds.end}}
        most = self._store.index.ntotal
        found = self._store.similarity_search_by_vector(unit(query[None])[0].tolist(), k=k, filter=where, fetch_k=most)
        return [document.id for document in found]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        return [self.search(query, k, None) for query in queries]

    def close(self) -> None:
        self._store.save_local(str(self._folder))


def unit(vectors: Float32) -> Float32:
    """Returns the vectors at unit length."""
    scaled: Float32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def _no_texts(_: str) -> list[float]:
    raise AssertionError("vectors are given")


STORES: dict[str, type[PeerStore]] = {
    "this library": Ours,
    "FAISS": Faiss,
    "LanceDB": Lance,
    "Chroma": Chroma,
    "Qdrant, local": Qdrant,
    "FAISS through LangChain": LangChainFaiss,
}
