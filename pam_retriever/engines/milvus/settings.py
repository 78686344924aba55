"""Settings and weights in Milvus, in parts of what one string may hold."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from pymilvus import DataType

from pam_retriever.engines.milvus.client import Connection, quoted, text
from pam_retriever.filters import to_json
from pam_retriever.storage.columns import from_json

PART = 45_000  # characters, at most 4 bytes each where they are not ASCII
POINT = {"dim": 2, "metric": "IP", "index": "FLAT", "params": {}}  # Milvus wants a vector in every collection


class MilvusSettings:
    """What is kept beside memories and trajectories.

    Args:
        connection: to where it is.
        generation: that of the call; the setting "model" and the weights are a generation's own.
    """

    def __init__(self, connection: Connection, generation: Any) -> None:
        self._connection, self._generation = connection, generation
        self._name = f"{connection.prefix}_settings"
        fields = {"name": text(), "part": (DataType.INT64, {}), "parts": (DataType.INT64, {}), "value": text()}
        connection.create(self._name, "key", fields, {"point": POINT})

    def get(self, key: str) -> Any:
        """What ``set`` kept, or None."""
        found = self.read(self._own(key))
        return None if found is None else from_json(found, f"The setting {key!r}")

    def set(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can hold."""
        self.write(self._own(key), to_json(value))

    def all(self) -> dict[str, Any]:
        """Every setting of the current generation."""
        found = self._connection.query(self._name, "key >= 0", ["name"])
        names = sorted({row["name"] for row in found if not row["name"].startswith(("state", "weights:"))})
        keys = {name.partition("@")[0] for name in names}
        return {key: self.get(key) for key in sorted(keys) if self.get(key) is not None}

    def weights(self, name: str) -> bytes | None:
        """What ``set_weights`` kept, or None."""
        found = self.read(f"weights:{name}@{self._generation()}")
        return None if found is None else base64.b64decode(found)

    def set_weights(self, name: str, safetensors: bytes) -> None:
        """Keeps weights; those of other generations stay."""
        self.write(f"weights:{name}@{self._generation()}", base64.b64encode(safetensors).decode())

    def _own(self, key: str) -> str:
        return f"{key}@{self._generation()}" if key in ("model", "forgotten") else key

    def read(self, name: str) -> str | None:
        """The string of that name, None if it is not there in full."""
        rows = self._connection.query_few(self._name, f"name == {quoted(name)}", ["part", "parts", "value"])
        rows.sort(key=lambda row: row["part"])
        return "".join(row["value"] for row in rows[: rows[0]["parts"]]) if rows else None

    def write(self, name: str, value: str) -> None:
        """Keeps a string; one of up to 45,000 characters is replaced at once."""
        size = PART if value.isascii() else PART // 4
        parts = [value[at : at + size] for at in range(0, len(value), size)] or [""]
        self._connection.upsert(
            self._name,
            [
                {"key": _key(name, at), "name": name, "part": at, "parts": len(parts), "value": part, "point": [1, 0]}
                for at, part in enumerate(parts)
            ],
        )

    def remove(self, name: str) -> None:
        """Forgets a string."""
        self._connection.delete(self._name, f"name == {quoted(name)}")


def _key(name: str, part: int) -> int:
    digest = hashlib.blake2b(f"{part}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
