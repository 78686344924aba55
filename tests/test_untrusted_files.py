"""Hostile files and values: rejected within limits; nothing is executed, nothing outside the folder is read."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from pam_retriever import FitConfig, IndexFormatError, InvalidInput, PAMError, PredictiveAssociativeIndex, limits
from pam_retriever.apps.cli import main
from pam_retriever.experience.json_lines import EventLog, Fields
from pam_retriever.filters import read_filter
from pam_retriever.store.folder.files import checksum_of
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite import words


@pytest.fixture
def folder(tmp_path) -> Path:
    index = PredictiveAssociativeIndex(dim=3)
    ids = [f"m{n}" for n in range(8)]
    index.add(np.random.default_rng(3).standard_normal((8, 3)), ids, ids, [{"n": n} for n in range(8)])
    index.fit([ids], window=1, config=FitConfig(hidden=8, passes=1), progress=False)
    index.save(tmp_path / "index")
    return tmp_path / "index"


def database(folder: Path) -> Path:
    return next(folder.glob("memories-*.sqlite"))


def tamper(folder: Path, *statements: str) -> None:
    """Changes the database and updates its checksum, as an attacker could."""
    connection = sqlite3.connect(database(folder))
    connection.execute("PRAGMA writable_schema = ON")
    words.set_up(connection)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    set_manifest(folder, database_sha256=checksum_of(database(folder)))


def set_manifest(folder: Path, **changes: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def set_model(folder: Path, change) -> None:
    connection = sqlite3.connect(database(folder))
    (value,) = connection.execute("SELECT value FROM settings WHERE key = 'model'").fetchone()
    model = json.loads(value)
    change(model)
    connection.execute("UPDATE settings SET value = ? WHERE key = 'model'", [json.dumps(model)])
    connection.commit()
    connection.close()
    set_manifest(folder, database_sha256=checksum_of(database(folder)))


def refused(folder: Path, message: str) -> None:
    for attempt in (
        PredictiveAssociativeIndex.load,
        lambda path: PredictiveAssociativeIndex.open(path, read_only=True),
        PredictiveAssociativeIndex.open,
    ):
        with pytest.raises(IndexFormatError, match=message):
            attempt(folder)


DATABASES = {
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON memories BEGIN DELETE FROM memories; END", "other tables"),
    "a view": ("CREATE VIEW v AS SELECT load_extension('evil') AS x", "other tables"),
    "another table": ("CREATE TABLE t (x)", "other tables"),
    "no table": ("DROP TABLE steps", "other tables"),
    "text that is a blob": ("UPDATE memories SET text = x'ff' WHERE id = 'm3'", "wrong type"),
    "an id that is a blob": ("UPDATE memories SET id = x'ff' WHERE id = 'm3'", "wrong type"),
    "a vector that is text": ("UPDATE vectors SET vector = 'abc' WHERE row = 3", "wrong type"),
    "a short vector": ("UPDATE vectors SET vector = x'00000000' WHERE row = 3", "another length"),
    "a vector of NaN": ("UPDATE vectors SET vector = x'0000c07f0000c07f0000c07f' WHERE row = 3", "NaN"),
    "a vector of zeros": ("UPDATE vectors SET vector = zeroblob(12) WHERE row = 3", "zeros"),
    "a position that is text": ("UPDATE steps SET position = 'x' WHERE position = 3", "wrong type"),
    "half an association": ("UPDATE vectors SET association = NULL WHERE row = 3", "another length"),
    "no associations": ("UPDATE vectors SET association = NULL", "no association"),
    "a model that is no JSON": ("UPDATE settings SET value = '{' WHERE key = 'model'", "JSON"),
    "a model that is a list": ("UPDATE settings SET value = '[]' WHERE key = 'model'", "predictor"),
    "a vector of no memory": ("UPDATE vectors SET row = 99 WHERE row = 3", "other half"),
    "a negative row": ("UPDATE vectors SET row = -1 WHERE row = 3", "other half"),
}


@pytest.mark.parametrize("case", DATABASES)
def test_a_database_that_this_library_never_wrote(folder, case):
    statement, message = DATABASES[case]
    tamper(folder, statement)
    refused(folder, message)
    assert check(folder)


def test_rows_that_are_far_apart_take_no_memory(folder):
    """Huge row numbers do not make the index allocate memory for the rows between them."""
    far = 2**61
    tamper(folder, f"UPDATE memories SET row = {far} WHERE row = 3", f"UPDATE vectors SET row = {far} WHERE row = 3")
    with PredictiveAssociativeIndex.load(folder) as index:
        assert {hit.id for hit in index.search("m2", k=9)} == {f"m{n}" for n in range(8)} - {"m2"}
        index.add([[1, 2, 3]], ["m2"])
        index.add([[1, 2, 3]], ["next"])
        index.delete(["m0"])
        assert index.search([1, 2, 3], k=2)[0].score == pytest.approx(1)
        assert len(index.search([1, 2, 3], k=99)) == 8


def test_metadata_that_are_no_json_fail_the_call_that_needs_them(folder):
    changed = "UPDATE memories SET metadata = '{' WHERE id = 'm3'"
    # the trigger ``words_changed`` would refuse invalid JSON, so it is dropped first
    tamper(folder, "DROP TRIGGER words_changed", changed, words.SCHEMA[3])
    with PredictiveAssociativeIndex.load(folder) as index:
        for call in (lambda: index.find({"n": 1}), lambda: index.get(["m3"]), lambda: index.search("m0", k=9)):
            with pytest.raises(IndexFormatError, match="damaged"):
                call()
        assert index.get(["m2"])[0].metadata == {"n": 2}
    assert check(folder)


MODELS = {
    "a path": lambda model: model.update(file="../../../etc/passwd"),
    "an absolute path": lambda model: model.update(file="/etc/passwd"),
    "the manifest": lambda model: model.update(file="manifest.json"),
    "no name": lambda model: model.update(file=None),
    "another dimension": lambda model: model["predictor"].update(dim=7),
    "a width of a billion": lambda model: model["predictor"].update(hidden=10**9),
    "a width below one": lambda model: model["predictor"].update(hidden=-1),
    "a width in words": lambda model: model["predictor"].update(hidden="8"),
    "a million layers": lambda model: model["predictor"].update(residual_layers=10**6),
    "an unknown option": lambda model: model["predictor"].update(code="import os"),
    "a window of a billion": lambda model: model.update(window=10**9),
    "nothing": lambda model: model.clear(),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_description_of_weights_that_cannot_be_right(folder, case):
    set_model(folder, MODELS[case])
    refused(folder, "predictor")


def header(size: int, text: bytes = b"") -> bytes:
    return struct.pack("<Q", size) + text


def other_weights() -> dict[str, np.ndarray]:
    return {"inward.weight": np.full((8, 3), np.nan, np.float32)}


WEIGHTS = {
    "nothing": b"",
    "a header of 2^63 bytes": header(2**63),
    "a header that is cut": header(1000, b"{"),
    "a header that is no JSON": header(2, b"xx"),
    "a header without end": header(100_000, b"[" * 100_000),
    "offsets outside": header(73, b'{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}  '),
    "other layers": safetensors.numpy.save(other_weights()),
    "too many bytes": bytes(2_000_000),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_cannot_be_right(folder, case):
    (path,) = folder.glob("predictor-*")
    path.write_bytes(WEIGHTS[case])
    set_model(folder, lambda model: model.update(sha256=checksum_of(path)))
    refused(folder, path.name)


def test_weights_with_nan_are_refused(folder):
    (path,) = folder.glob("predictor-*")
    weights = safetensors.numpy.load(path.read_bytes())
    weights["inward.weight"][0, 0] = np.nan
    path.write_bytes(safetensors.numpy.save(weights))
    set_model(folder, lambda model: model.update(sha256=checksum_of(path)))
    refused(folder, "NaN")


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_does_not_lead_out_of_the_folder(folder, tmp_path):
    for path in (database(folder), next(folder.glob("predictor-*"))):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
        refused(folder, "is a link")
        path.unlink()
        (tmp_path / path.name).rename(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_manifest_that_is_a_pipe_or_a_device_does_not_hang(folder):
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")
    refused(folder, r"no manifest\.json")
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to("/dev/zero")
    refused(folder, r"no manifest\.json")


def test_a_manifest_of_a_gigabyte_is_not_read(folder):
    with (folder / "manifest.json").open("wb") as file:
        file.truncate(2**30)  # sparse
    refused(folder, "more than 1,000,000 bytes")


ENTRIES = {
    "dim": (0, -1, 3.0, True, "3", None, limits.MAX_DIM + 1),
    "format": ("another", None),
    "format_version": (0, 99, 4.0, True, "4", None),
    "backend": (3, None, "of nobody"),
    "database": ("memories-0123.sqlite", "../memories-0123456789ab.sqlite", "/dev/zero", 3, None),
    "database_sha256": ("0", "A" * 64, 3, True),
}


@pytest.mark.parametrize(("entry", "value"), [(entry, value) for entry in ENTRIES for value in ENTRIES[entry]])
def test_a_manifest_with_a_value_that_cannot_be_right(folder, entry, value):
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), entry: value}))
    refused(folder, "manifest|format version|backend")


def test_an_index_of_dimension_1_is_opened_again(tmp_path):
    PredictiveAssociativeIndex.open(tmp_path / "index", 1).close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.dim == 1


# ---- hostile arguments

LIMITS = {
    "an id": lambda: index_of(ids=["x" * (limits.MAX_ID_BYTES + 1)]),
    "an id in bytes": lambda: index_of(ids=["\U0001d54c" * (limits.MAX_ID_BYTES // 4 + 1)]),
    "a text": lambda: index_of(texts=["x" * (limits.MAX_TEXT_BYTES + 1)]),
    "metadata": lambda: index_of(metadatas=[{"a": "x" * limits.MAX_METADATA_BYTES}]),
    "a dimension": lambda: PredictiveAssociativeIndex(dim=limits.MAX_DIM + 1),
    "a window": lambda: index_of().fit([["a", "b"]], window=10**30),
    "hops": lambda: index_of(ids=["a"]).recall("a", mode="similarity", hops=10**9),
}


def index_of(**options) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]], **options)
    return index


@pytest.mark.parametrize("case", LIMITS)
def test_beyond_a_limit_the_message_names_it(case):
    with pytest.raises(InvalidInput, match=r"at most [0-9,]+"):
        LIMITS[case]()


def test_up_to_the_limit_everything_is_kept():
    id, text = "\U0001d54c" * (limits.MAX_ID_BYTES // 4), "é" * (limits.MAX_TEXT_BYTES // 2)
    index = index_of(ids=[id], texts=[text])
    record = index.get([id])[0]
    assert record.text == text
    assert index.search([1.0])[0].id == id


def test_metadata_are_nested_so_deep_and_no_deeper():
    def nested(levels: int) -> dict:
        value: object = 1
        for _ in range(levels - 1):
            value = [value]
        return {"a": value}

    index = index_of(ids=["deep"], metadatas=[nested(limits.MAX_METADATA_DEPTH)])
    assert index.find({"a": {"$exists": True}})[0].id == "deep"
    with pytest.raises(InvalidInput, match="levels deep"):
        index_of(metadatas=[nested(limits.MAX_METADATA_DEPTH + 1)])
    brackets = {"a": '[{"' * 1000}  # brackets in a string do not nest
    assert index_of(metadatas=[brackets]).find()[0].metadata == brackets


def test_a_filter_that_is_small_and_grows_is_refused():
    """A filter that is small in memory, but has too many parts when it is read, is refused."""
    many: list = [{}] * 10_000
    for where in ({"$or": [{"$or": many}] * 10_000}, {"$and": [{"a": 1}] * 40_000}):
        with pytest.raises(InvalidInput, match="30,000"):
            read_filter(where)
    endless: list = []
    endless.append(endless)
    for operand in (endless, [float("nan")], ["\ud800"], [object()]):
        with pytest.raises(InvalidInput, match="filter holds"):
            read_filter({"a": operand})


LINES = {
    "not UTF-8": (b'{"vector": [1], "session": 1}\n\xff\xfe', "is not UTF-8"),
    "a vector that is a dict": (b'{"vector": {}, "session": 1}', "vector"),
    "a vector that is a word": (b'{"vector": "abc", "session": 1}', "vector"),
    "a ragged vector": (b'{"vector": [[1], [1, 2]], "session": 1}', "vector"),
    "an empty vector": (b'{"vector": [], "session": 1}', "vector"),
    "a number of a thousand digits": (b'{"vector": [1' + b"0" * 5000 + b'], "session": 1}', "no event"),
    "NUL in an id": (b'{"vector": [1], "session": 1, "id": "\\u0000"}', "NUL"),
    "a lone surrogate": (b'{"vector": [1], "session": 1, "text": "\\ud800"}', "surrogate"),
}


@pytest.mark.parametrize("case", LINES)
def test_events_from_an_untrusted_file(tmp_path, case, capsys):
    contents, message = LINES[case]
    path = tmp_path / "events.jsonl"
    path.write_bytes(contents)
    assert main(["fit", str(path), str(tmp_path / "index")]) == 2
    assert message in capsys.readouterr().err


def test_events_are_held_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("pam_retriever.experience.json_lines.MAX_BATCH", 1000)
    path = tmp_path / "events.jsonl"
    path.write_text((json.dumps({"vector": [1], "session": 1, "text": "x" * 300}) + "\n") * 20)
    with EventLog(path, Fields()) as log:
        sizes = [len(batch) for batch in log.batches()]
    assert sum(sizes) == 20
    assert max(sizes) <= 3


def test_any_sequence_of_bytes_as_events_is_refused_or_read(tmp_path):
    path = tmp_path / "events.jsonl"
    for seed in range(200):
        random = np.random.default_rng(seed)
        contents = bytearray(b'{"vector": [1, 2], "session": "a", "id": "b"}\n' * 3)
        for at in random.integers(len(contents), size=4):
            contents[at] = random.integers(256)
        path.write_bytes(contents)
        with EventLog(path, Fields()) as log, suppress(PAMError):
            log.check()
            for batch in log.batches():
                batch.checked_vectors()
