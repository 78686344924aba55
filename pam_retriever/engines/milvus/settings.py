"""Settings and weights in Milvus, in parts that fit into one string."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from pymilvus import DataType

from pam_retriever.engines.milvus.client import Connection, Row, quoted, text
from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import from_json

OF_GENERATION = ("model", "forgotten")
PART = 45_000  # characters, of at most 4 bytes each
PARTS = {"name": text(), "part": (DataType.INT64, {}), "parts": (DataType.INT64, {}), "value": text()}
POINT = {"dim": 2, "metric": "IP", "index": "FLAT", "params": {}}  # every collection in Milvus needs a vector


class MilvusSettings:
    """Settings of the index; see ``store.database.Settings``.

    Args:
        connection: the connection to Milvus.
        generation: returns the generation of the call. Each generation has its own setting "model" and weights.
    """

    def __init__(self, connection: Connection, generation: Callable[[], int]) -> None:
        self._milvus, self._generation = connection, generation
        self._name = f"{connection.prefix}_settings"
        connection.create(self._name, "key", PARTS, {"point": POINT})

    def get(self, key: str) -> object:
        found = self.read(self._own(key))
        return None if found is None else from_json(found, f"The setting {key!r}")

    def set(self, key: str, value: object) -> None:
        self.write(self._own(key), to_json(value))

    def all(self, prefix: str = "") -> dict[str, object]:
        """Returns every setting of the current generation whose key begins with ``prefix``."""
        found = self._milvus.query(self._name, "key >= 0", ["name"])
        names = {row["name"] for row in found if not row["name"].startswith(("$", "model@", "forgotten@"))}
        values = {key: self.get(key) for key in sorted({*names, *OF_GENERATION}) if key.startswith(prefix)}
        return {key: value for key, value in values.items() if value is not None}

    def weights(self, name: str) -> bytes | None:
        found = self.read(f"$weights:{name}@{self._generation()}")
        return None if found is None else base64.b64decode(found)

    def remove_generation(self, number: int) -> None:
        """Removes the settings and the weights of a generation."""
        for name in OF_GENERATION:
            self._remove(f"{name}@{number}")
        self._milvus.delete(self._name, f'name like "$weights:%@{number}"')

    def set_weights(self, name: str, safetensors: bytes) -> None:
        """Stores weights; those of other generations stay."""
        self.write(f"$weights:{name}@{self._generation()}", base64.b64encode(safetensors).decode())

    def _own(self, key: str) -> str:
        return f"{key}@{self._generation()}" if key in OF_GENERATION else key

    def read(self, name: str) -> str | None:
        """Returns the string of this name; None if there is none, or only a part."""
        fields = ["part", "parts", "value"]
        rows = self._milvus.get(self._name, [_key(name, 0)], fields)
        if not rows:
            return None
        rows += self._milvus.get(self._name, [_key(name, part) for part in range(1, rows[0]["parts"])], fields)
        return "".join(row["value"] for row in sorted(rows, key=lambda row: int(row["part"])))

    def write(self, name: str, value: str) -> None:
        """Stores a string; a string of up to 45,000 characters is replaced atomically."""
        self._milvus.upsert(self._name, in_parts(name, value))

    def remove(self, key: str) -> None:
        """Removes a setting, and the weights of the current generation under its name."""
        self._remove(self._own(key))
        self._remove(f"$weights:{key}@{self._generation()}")

    def _remove(self, name: str) -> None:
        self._milvus.delete(self._name, f"name == {quoted(name)}")


def in_parts(name: str, value: str) -> list[Row]:
    """Returns the entities of a string, at least one."""
    size = PART if value.isascii() else PART // 4
    parts = [value[at : at + size] for at in range(0, len(value), size)] or [""]
    return [
        {"key": _key(name, at), "name": name, "part": at, "parts": len(parts), "value": part, "point": [1, 0]}
        for at, part in enumerate(parts)
    ]


def _key(name: str, part: int) -> int:
    digest = hashlib.blake2b(f"{part}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
