"""The fuzz targets of atheris: the filter language, the manifest and the JSONL reader. Run by ``fuzz.py``.

    python -m benchmarks.reliability.fuzz_targets filter CORPUS -max_total_time=60

Every input must be accepted, or rejected with an error of the library; anything else is a crash.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(
    include=["pam_retriever.filters", "pam_retriever.experience.json_lines", "pam_retriever.validation"]
):
    from pam_retriever import (
        filters,
        validation,  # noqa: F401
    )
    from pam_retriever.experience import json_lines as events
with atheris.instrument_imports(include=["pam_retriever.store.folder.manifest", "json.decoder"]):
    from pam_retriever.store.folder import manifest as manifests

from pam_retriever import InvalidInput, PAMError, PredictiveAssociativeIndex
from pam_retriever.apps.events import EventWriter
from pam_retriever.errors import IndexFormatError
from pam_retriever.limits import MAX_DIM

KEYS = ["a", "tags", "year", "", "'", '"', "$.a", "a.b", "é", "\U0001f600"]
OPERATORS = [*filters.OPERATORS, *filters.COMBINERS, "$near"]
METADATA = [
    {},
    {"a": 1, "tags": ["x", "y"], "year": 2020},
    {"a": None, "'": "quote", '"': True, "$": 0},
    {"a": "text", "tags": "x y", "year": 2020.5, "é": {"b": [1, 2]}},
    {"a": [1, [2, "x"]], "": -(2**63), "\U0001f600": 2**70},
]


def make_filter_target() -> Any:
    """Tests that a filter selects some rows, and its negation exactly the other rows."""
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]] * len(METADATA), metadatas=METADATA)
    everything = {record.id for record in index.find()}

    def target(data: bytes) -> None:
        try:  # from JSON, or from Python objects that JSON cannot express
            as_json = data[:1] == b"\x00"
            where = json.loads(data[1:].decode()) if as_json else _value(atheris.FuzzedDataProvider(data), 0)
        except (ValueError, RecursionError):
            return
        try:
            chosen = {record.id for record in index.find(where)} if isinstance(where, dict) else set()
            others = {record.id for record in index.find({"$not": where})}
        except InvalidInput:
            return
        if isinstance(where, dict):
            assert chosen | others == everything and not chosen & others, where

    return target


def _value(provider: Any, depth: int) -> Any:
    """Returns a value for a filter, valid or not."""
    kind = provider.ConsumeIntInRange(0, 9)
    if kind >= 6 and depth < 20:
        return {_key(provider): _value(provider, depth + 1) for _ in range(provider.ConsumeIntInRange(0, 3))}
    if kind == 5 and depth < 20:
        return [_value(provider, depth + 1) for _ in range(provider.ConsumeIntInRange(0, 4))]
    if kind == 4:
        return provider.ConsumeUnicode(20)
    if kind == 3:
        return provider.ConsumeFloat()
    if kind == 2:
        return provider.ConsumeInt(9)
    return [None, True][kind % 2]


def _key(provider: Any) -> str:
    names = KEYS if provider.ConsumeBool() else OPERATORS
    at = provider.ConsumeIntInRange(0, len(names))
    return names[at] if at < len(names) else provider.ConsumeUnicode(20)


def manifest_target(data: bytes) -> None:
    """Tests that a manifest is rejected, or names a database in the folder and a dimension within the limits."""
    folder = Path("/an/index")
    try:
        found = manifests.parse_manifest(data, folder / "manifest.json")
    except IndexFormatError:
        return
    database = folder / found["database"]
    assert database.parent == folder and ".." not in found["database"], found
    assert {"backend", "database_sha256"} <= set(found), found
    assert 1 <= found["dim"] <= MAX_DIM and 1 <= found["format_version"] <= manifests.FORMAT_VERSION, found


def make_jsonl_target() -> Any:
    """Tests that the command line rejects a file of events, or stores every one of them."""
    path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / "events.jsonl"

    def target(data: bytes) -> None:
        path.write_bytes(data)
        try:
            with events.EventLog(path, events.Fields()) as log:
                contents = log.check()
                if contents.dim is None:
                    return  # only texts: there is no embedder here
                index = PredictiveAssociativeIndex(dim=contents.dim, backend="exact")
                EventWriter(index, log, contents, events.Fields().time).run()
        except PAMError:
            return
        assert len(index) == contents.events == sum(1 for _ in index.find({"session": {"$exists": True}}))

    return target


if __name__ == "__main__":
    targets = {"filter": make_filter_target, "manifest": lambda: manifest_target, "jsonl": make_jsonl_target}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=sorted(targets))
    chosen, for_atheris = parser.parse_known_args()
    atheris.Setup([sys.argv[0], *for_atheris], targets[chosen.target]())
    atheris.Fuzz()
