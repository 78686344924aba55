"""``check`` reads requests and what ``fit`` learnt from them; ``repair`` keeps what is sound, and says what is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_learnt_requests import DIM, weights_of
from test_learnt_requests import fitted as fitted

from pam_retriever import FitConfig, IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite import words

Change = Callable[[sqlite3.Connection], object]


@pytest.fixture
def folder(fitted, tmp_path) -> Path:
    """A copy of a fitted index, as a killed writer leaves it: the file has no checksum."""
    return without_checksum(Path(shutil.copytree(fitted[1], tmp_path / "index")))


def without_checksum(folder: Path) -> Path:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "database_sha256": None}))
    return folder


def damage(folder: Path, *changes: Change) -> None:
    database = sqlite3.connect(next(folder.glob("memories-*.sqlite")))
    words.set_up(database)
    for change in changes:
        change(database)
    database.commit()
    database.close()


def run(sql: str, *values: object) -> Change:
    return lambda database: database.execute(sql, values)


def setting(key: str, change: Callable[[str], str]) -> Change:
    def write(database: sqlite3.Connection) -> None:
        (value,) = database.execute("SELECT value FROM settings WHERE key = ?", [key]).fetchone()
        database.execute("UPDATE settings SET value = ? WHERE key = ?", [change(value), key])

    return write


def inside(*path: str | int, value: object) -> Callable[[str], str]:
    """Returns a function that puts a value into stored JSON."""

    def change(stored: str) -> str:
        whole = part = json.loads(stored)
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return json.dumps(whole)

    return change


def kept(folder: Path) -> dict[str, tuple[object, ...]]:
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        return {
            one.id: (one.vector.tobytes(), one.text, one.used, one.metadata, one.timestamp) for one in index.feedbacks()
        }


def test_repair_keeps_requests(folder):
    before = kept(folder)
    damage(folder, run("UPDATE memories SET text = 'x' WHERE id = 't39'"))  # nothing used it
    assert any("500 requests" in line for line in repair(folder))
    assert kept(folder) == before
    with PredictiveAssociativeIndex.open(folder) as index:
        assert weights_of(index) is not None
        assert index.recall(np.ones(DIM), k=3, text="please")


def test_repair_removes_requests_that_only_lost_memories_served(folder):
    """As a deletion of the memory does: also from the others, and from the regression that learnt it."""
    before = kept(folder)
    with PredictiveAssociativeIndex.open(folder) as index:
        index.feedback(np.ones(DIM), ["t1"], text="of this alone", unused=["t2"], id="alone")
    damage(folder, run("UPDATE memories SET text = 'x' WHERE id = 't1'"))
    lines = repair(folder)
    assert any("1 request: only lost memories served it" in line for line in lines)
    after = kept(folder)
    assert after.keys() == before.keys()
    assert all("t1" not in used for _, _, used, *_ in after.values())
    with PredictiveAssociativeIndex.open(folder) as index:
        assert weights_of(index) is None
        assert index.recall(np.ones(DIM), k=3, text="please")


@pytest.mark.parametrize(
    "change",
    [
        run("UPDATE feedback SET text = 'other' WHERE id = 'r3'"),
        run("UPDATE feedback SET metadata = '{' WHERE id = 'r3'"),
        run("UPDATE feedback SET metadata = '[1]' WHERE id = 'r3'"),
        run("UPDATE feedback SET vector = x'00' WHERE id = 'r3'"),
        run("UPDATE feedback SET vector = ? WHERE id = 'r3'", np.full(DIM, np.nan, np.float32).tobytes()),
        run("UPDATE feedback SET vector = ? WHERE id = 'r3'", np.ones(DIM, np.float32).tobytes()),
    ],
    ids=["a text", "no JSON", "no dict", "a short vector", "no number", "another vector"],
)
def test_a_damaged_request_is_found_and_only_it_is_lost(folder, change):
    before = kept(folder)
    damage(folder, change)
    assert "request 'r3'" in " ".join(check(folder))
    with pytest.raises(IndexFormatError, match=r"request 'r3'.*repair"):  # no checksum of the file stands for it
        PredictiveAssociativeIndex.open(folder)
    assert any("lost: request 'r3'" in line for line in repair(folder))
    assert check(folder) == []
    before.pop("r3")
    assert kept(folder) == before
    with PredictiveAssociativeIndex.open(folder) as index:
        assert weights_of(index) is None  # it has weights of the lost request
        assert index.recall(np.ones(DIM), k=3, text="please")
        assert index.feedback(np.ones(DIM), ["t1"], id="r3") == "r3"


def test_the_next_fit_learns_from_the_requests_that_are_not_lost(folder):
    damage(folder, run("UPDATE feedback SET text = 'other' WHERE id = 'r3'"))
    repair(folder)
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.fit(progress=False).requests == 499
        assert weights_of(index) is not None


def test_a_weight_of_a_use_that_is_no_weight_is_found(folder):
    damage(folder, run("UPDATE uses SET weight = 1e999 WHERE feedback = 4"))
    assert check(folder)
    with pytest.raises(IndexFormatError):
        PredictiveAssociativeIndex.open(folder)
    assert any("use" in line for line in repair(folder))
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as index:
        assert np.isfinite(index.recall(np.ones(DIM), k=3, text="please").scores).all()


MIXTURES = {
    "cut": lambda stored: stored[:50],
    "a list": lambda _: "[1, 2]",
    "empty": lambda _: "{}",
    "no number": inside("weights", "question", 3, value=float("nan")),
    "infinite": inside("weights", "question", 3, value=1e300),
    "null": inside("weights", "question", 3, value=None),
    "words": inside("weights", "question", 3, value="a"),
    "few weights": inside("weights", "question", value=[1.0]),
    "other features": inside("features", value=["a"]),
    "no features": inside("features", value=None),
    "a short calibration": inside("calibration", "question", value=[1.0]),
    "a calibration of words": inside("calibration", "question", value=["a", "b", "c"]),
    "no calibration": inside("calibration", value=None),
    "few uninfluenced": inside("uninfluenced", value=[1.0]),
    "no uninfluenced": inside("uninfluenced", value="abc"),
    "no reach": inside("reach", value="abc"),
}


def same(change: Callable[[str], str]) -> Callable[[str], str]:
    return change


def of_regression(change: Callable[[str], str]) -> Callable[[str], str]:
    """Returns a function that changes the mixture in the setting of the regression."""

    def changed(stored: str) -> str:
        about = json.loads(stored)
        return json.dumps({**about, "mixture": json.loads(change(json.dumps(about["mixture"])))})

    return changed


QUICK_MIXTURES = {"cut", "infinite", "other features", "no calibration"}  # the others are slow tests
DAMAGED = [
    *(
        pytest.param(
            key,
            setting(key, kind(change)),
            id=f"{label}: {name}",
            marks=[] if name in QUICK_MIXTURES else [pytest.mark.slow],
        )
        for key, label, kind in (("mixture", "mixture", same), ("learnt_requests", "regression", of_regression))
        for name, change in MIXTURES.items()
        if (label, name) != ("regression", "cut")  # this cuts the whole setting, below
    ),
    pytest.param("learnt_requests", setting("learnt_requests", lambda stored: stored[:50]), id="regression: cut"),
    *(
        pytest.param("learnt_requests", setting("learnt_requests", inside(key, value=value)), id=f"{key}: {value}")
        for key, value in (("last", "x"), ("requests", None), ("memories", {}), ("memories", [2**70]), ("last", 2**70))
    ),
    pytest.param("learnt_requests", run("DELETE FROM weights"), id="weights: none"),
    pytest.param("learnt_requests", run("UPDATE weights SET safetensors = x'00'"), id="weights: cut"),
    pytest.param(
        "learnt_requests",
        run("UPDATE weights SET safetensors = x'00', checksum = ?", zlib.crc32(b"\0")),
        id="weights: forged",
    ),
]


@pytest.mark.parametrize(("name", "change"), DAMAGED)
def test_damage_of_what_fit_learnt_stops_no_deletion_and_is_mended(folder, tmp_path, name, change):
    """Recall says what to do, a deletion works, and so does each of both remedies: a fit, and a repair."""
    damage(folder, change)
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        options = {"feedback_where": {"user": "a"}} if name == "mixture" else {}  # else the regression answers
        with pytest.raises(IndexFormatError, match=r"[Ff]it again"):
            index.recall(np.ones(DIM), k=3, text="please", **options)
    assert check(folder)

    other = Path(shutil.copytree(folder, tmp_path / "other"))
    assert any("fit" in line for line in repair(other))
    assert check(other) == []
    with PredictiveAssociativeIndex.open(other) as index:
        assert np.isfinite(index.recall(np.ones(DIM), k=3, text="please").scores).all()
        assert len(index.feedbacks()) == 500

    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.delete_feedback("r3") == 1
        assert index.erase("t1").memories == 1
        assert weights_of(index) is None
        if name == "mixture":
            index.fit(progress=False)
        assert np.isfinite(index.recall(np.ones(DIM), k=3, text="please").scores).all()
    assert check(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("remedy", ["repair", "fit"])
def test_damaged_weights_of_recall_next_are_found_and_mended(folder, remedy):
    with PredictiveAssociativeIndex.open(folder) as index:
        index.observe_many([[f"t{(start + 3 * at) % 40}" for at in range(8)] for start in range(40)])
        index.fit(config=FitConfig(hidden=8, passes=2), progress=False)
        assert index._store.database.settings.weights("next") is not None
    damage(without_checksum(folder), run("UPDATE weights SET safetensors = x'00' WHERE name = 'next'"))
    assert any("'next'" in line for line in check(folder))
    with PredictiveAssociativeIndex.open(folder) as index:
        with pytest.raises(IndexFormatError, match="weights of the next"):
            index.recall_next(["t3", "t6"], k=3)
        if remedy == "fit":
            report = index.fit(config=FitConfig(hidden=8, passes=2), progress=False)
            assert report.stopped_by == "nothing new"
            assert index.recall_next(["t3", "t6"], k=3)
    if remedy == "repair":
        assert any("'next'" in line and "fit()" in line for line in repair(folder))
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.recall_next(["t3", "t6"], k=3)
        index.fit(progress=False)
        assert index._store.database.settings.weights("next") is not None


def test_a_damaged_bound_on_popularity_says_how_to_set_it_again(folder):
    damage(folder, run("INSERT INTO settings (key, value) VALUES ('popularity', '{\"by\": 1}')"))
    with PredictiveAssociativeIndex.open(folder) as index:
        with pytest.raises(IndexFormatError, match="set_popularity_cap"):
            index.recall(np.ones(DIM), text="please")
        index.set_popularity_cap()
        assert index.recall(np.ones(DIM), text="please")
