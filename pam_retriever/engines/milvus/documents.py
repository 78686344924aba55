"""Documents in Milvus, in parts that fit into one string: see ``engines.local_copy.Documents``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pymilvus import DataType

from pam_retriever.engines.local_copy import Document
from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.client import AT_ONCE, listed
from pam_retriever.engines.milvus.settings import PARTS, POINT, in_parts


class MilvusDocuments:
    """Documents in their own collection, which is created if it does not exist.

    Args:
        calls: the calls to Milvus.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls, self._milvus = calls, calls.connection
        self._name = f"{self._milvus.prefix}_kept"
        fields = {**PARTS, "version": (DataType.INT64, {})}
        self._milvus.create(self._name, "key", fields, {"point": POINT})

    def since(self, version: int) -> list[Document]:
        there = f"version > {version}" + (' and value != ""' if version < 0 else "")
        parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in self._milvus.query(self._name, there, ["name", "part", "parts", "value", "version"]):
            parts[one["name"]].append(one)
        return [document for name, found in parts.items() for document in _whole(name, found)]

    def put(self, documents: Sequence[Document]) -> None:
        version = self._calls.state.version
        names = [f"{kind}:{key}" for kind, key, _ in documents]
        self._milvus.upsert(
            self._name,
            [
                {**part, "version": version}
                for name, (_, _, data) in zip(names, documents, strict=True)
                for part in in_parts(name, data or "")
            ],
        )
        for start in range(0, len(names), AT_ONCE):  # remaining parts of longer documents
            some = listed(names[start : start + AT_ONCE])
            self._milvus.delete(self._name, f"part > 0 and version < {version} and name in {some}")


def _whole(name: str, found: list[dict[str, Any]]) -> list[Document]:
    """Returns a list with the document of a name; an empty list if a failed call has left only a part of it."""
    newest = max(one["version"] for one in found)
    parts = sorted((one for one in found if one["version"] == newest), key=lambda one: int(one["part"]))
    if len(parts) < parts[0]["parts"]:
        return []
    kind, _, key = name.partition(":")
    return [(kind, int(key), "".join(part["value"] for part in parts) or None)]
