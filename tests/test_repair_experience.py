"""``check`` reads what ``fit`` learnt from experience; ``repair`` removes what is damaged, and ``fit`` relearns it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from test_repaired_feedback import damage, inside, run, setting, without_checksum

from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite import salvage

DAMAGES = {
    "next, no JSON": setting("next", lambda stored: stored[:99]),
    "next": setting("next", inside("weights", "known step", value=[1.0])),
    "next, weights": run("UPDATE weights SET safetensors = x'616263', checksum = 891568578 WHERE name = 'next'"),
    "spread, no JSON": setting("spread", lambda stored: stored[:99]),
    "spread": setting("spread", inside("slope", value=None)),
    "last_fit, no JSON": setting("last_fit", lambda stored: stored[:99]),
    "last_fit": setting("last_fit", inside("losses", value=["x"])),
    "model": setting("model", lambda _: "7"),
    "model, calibration": setting("model", inside("trust", value="x")),
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("experience") / "index"
    with PredictiveAssociativeIndex.open(folder, dim=8) as index:
        index.add(np.random.default_rng(0).standard_normal((30, 8)), [f"m{n}" for n in range(30)])
        index.fit([[f"m{(7 * one + 3 * step) % 30}" for step in range(6)] for one in range(20)], progress=False)
    return folder


@pytest.fixture
def folder(fitted, tmp_path) -> Path:
    return without_checksum(Path(shutil.copytree(fitted, tmp_path / "index")))


def ask(index: PredictiveAssociativeIndex) -> None:
    assert index.recall("m1")
    assert index.recall_next(["m1"])
    assert np.isfinite(index.imagine("m1").spread)
    assert index.last_fit()


@pytest.mark.parametrize("name", DAMAGES)
def test_repair_removes_what_is_damaged(folder, name):
    damage(folder, DAMAGES[name])
    assert check(folder)
    assert any(line.startswith("lost: ") for line in repair(folder))
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as index:
        index.fit(from_scratch=True, progress=False)
        ask(index)


@pytest.mark.parametrize("name", [name for name in DAMAGES if "JSON" in name])
def test_check_names_a_setting_that_is_no_json_once(folder, name):
    damage(folder, DAMAGES[name])
    assert len(check(folder)) == 1
    damage(folder, setting("forgotten", lambda _: "{"))  # of another part of the index
    found = check(folder)
    assert len(found) == 2
    assert "'forgotten'" in found[1]


@pytest.mark.parametrize("name", [name for name in DAMAGES if "model" not in name])
@pytest.mark.parametrize("again", [False, True])
def test_a_fit_replaces_what_is_damaged_or_says_how(folder, name, again):
    damage(folder, DAMAGES[name])
    with PredictiveAssociativeIndex.open(folder) as index:
        if "last_fit" in name and not again:
            with pytest.raises(Exception, match=r"fit\(from_scratch=True\)"):
                index.fit(progress=False)
            return
        index.fit(from_scratch=again, progress=False)
        ask(index)
    assert check(folder) == []


def settings_and_weights(index) -> tuple[object, ...]:
    settings = index._store.database.settings
    return settings.all(), settings.weights("next")


def test_repair_keeps_settings_that_were_written_often(folder):
    """Each write of a setting, or of weights, gives its row the number after the last."""

    def write_often(database) -> None:
        packed = database.settings.weights("next")
        for memories in range(300):
            database.settings.set("capacity", {"memories": 100 + memories, "half_life": None})
            database.settings.set_weights("next", packed)

    with PredictiveAssociativeIndex.open(folder) as index:
        index._store.change(write_often)
        before = settings_and_weights(index)
    without_checksum(folder)
    damage(folder, run("UPDATE memories SET text = 'x' WHERE id = 'm29'"))
    repair(folder)
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as index:
        assert settings_and_weights(index) == before


@pytest.mark.parametrize("table", ["settings", "weights"])
def test_repair_keeps_what_has_a_damaged_number(folder, table):
    number = f"UPDATE {table} SET rowid = {2**63 - 1} WHERE rowid = (SELECT max(rowid) FROM {table})"
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        before = settings_and_weights(index)
    damage(folder, run(number), run("UPDATE memories SET text = 'x' WHERE id = 'm29'"))
    repair(folder)
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as index:
        assert settings_and_weights(index) == before


@pytest.mark.parametrize("value", ["timestamp = 'abc'", "salience = x'00'"])
def test_repair_leaves_out_a_step_that_is_no_step(tmp_path, value):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=3) as index:
        index.add(np.eye(3), ids := ["a", "b", "c"])
        index.observe(Trajectory(ids=ids, timestamps=[1.0, 2.0, 3.0], id="t"))
    damage(without_checksum(tmp_path / "index"), run(f"UPDATE steps SET {value} WHERE position = 1"))
    assert any("step 1 of trajectory number 1" in line for line in repair(tmp_path / "index"))
    assert check(tmp_path / "index") == []
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.trajectories()[0].ids == ("a", "c")


@pytest.mark.parametrize("table", ["settings", "weights"])
def test_repair_says_in_one_line_that_a_table_cannot_be_read(folder, table, monkeypatch):
    """No number of a row of these tables is known then."""
    monkeypatch.setattr(salvage, "GUESS", 2_000)
    (database,) = folder.glob("memories-*.sqlite")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table]).fetchone()
    contents = bytearray(database.read_bytes())
    contents[size * (root - 1) : size * root] = b"\xff" * size
    database.write_bytes(contents)
    found = repair(folder)
    assert len(found) < 20
    assert any(f"of {table}" in line for line in found)
    assert check(folder) == []
