"""A folder from an untrusted source: files next to the database have no effect, and no outer file changes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import FitConfig, IndexFormatError, IndexLocked, PredictiveAssociativeIndex
from pam_retriever.apps.cli import main
from pam_retriever.store.folder.manifest import read_manifest, write_manifest
from pam_retriever.store.folder.repair import check, repair

MAGIC = bytes.fromhex("d9d505f920a163d7")
IDS = [f"m{n}" for n in range(8)]
OPENED = {
    "open": lambda folder: PredictiveAssociativeIndex.open(folder).close(),
    "read_only": lambda folder: PredictiveAssociativeIndex.open(folder, read_only=True).close(),
    "load": lambda folder: PredictiveAssociativeIndex.load(folder).close(),
    "check": check,
    "repair": repair,
}


@pytest.fixture
def folder(tmp_path) -> Path:
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.random.default_rng(3).standard_normal((8, 3)), IDS, IDS)
    index.fit([IDS], window=1, config=FitConfig(hidden=8, passes=1), progress=False)
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def victim(tmp_path) -> Path:
    (tmp_path / "victim").write_text("precious")
    return tmp_path / "victim"


def database(folder: Path) -> Path:
    return folder / read_manifest(folder)["database"]


def beside(folder: Path, end: str) -> Path:
    return database(folder).with_name(f"{database(folder).name}{end}")


def unseal(folder: Path) -> None:
    """Makes a folder look like the folder of a killed writer, without a checksum of the database."""
    write_manifest(folder, {**read_manifest(folder), "database_sha256": None})


def hot_journal(contents: bytes, super_journal: Path | None = None) -> bytes:
    """Returns a rollback journal that turns a database into ``contents`` (sqlite.org/fileformat2.html, section 4)."""
    size, nonce = int.from_bytes(contents[16:18], "big"), 7
    pages = [contents[at : at + size] for at in range(0, len(contents), size)]
    journal = (MAGIC + struct.pack(">5I", len(pages), nonce, len(pages), 512, size)).ljust(512, b"\x00")
    for number, page in enumerate(pages, 1):
        total = nonce + sum(page[at] for at in range(size - 200, 0, -200))
        journal += struct.pack(">I", number) + page + struct.pack(">I", total % 2**32)
    if super_journal is not None:
        name = os.fsencode(super_journal)
        lock_page = 2**30 // size + 1
        journal += struct.pack(">I", lock_page) + name + struct.pack(">2I", len(name), sum(name)) + MAGIC
    return journal


def other_contents(folder: Path, tmp_path: Path) -> bytes:
    """Returns the same database with another text."""
    copy = tmp_path / "copy.sqlite"
    shutil.copy(database(folder), copy)
    connection = sqlite3.connect(copy)
    connection.execute("DELETE FROM steps")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return copy.read_bytes()


def write_ahead_log(folder: Path, tmp_path: Path) -> bytes:
    """Returns a write-ahead log that deletes all steps of trajectories."""
    copy = tmp_path / "copy.sqlite"
    shutil.copy(database(folder), copy)
    connection = sqlite3.connect(copy)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("DELETE FROM steps")
    connection.commit()
    log = copy.with_name("copy.sqlite-wal").read_bytes()
    connection.close()
    return log


def steps_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM steps").fetchone()[0])
    finally:
        connection.close()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_sqlite_alone_applies_these_journals(folder, tmp_path, victim):
    """Control: plain SQLite applies these journals; otherwise the tests below would prove nothing."""
    plain, log = tmp_path / "plain.sqlite", write_ahead_log(folder, tmp_path)
    for end, contents in (("-journal", hot_journal(other_contents(folder, tmp_path), victim)), ("-wal", log)):
        shutil.copy(database(folder), plain)
        plain.with_name(f"plain.sqlite{end}").write_bytes(contents)
        assert steps_of(plain) == 0
    assert steps_of(database(folder)) == 8
    if sqlite3.sqlite_version_info < (3, 41):  # 3.53 no longer deletes the file that a journal names
        assert not victim.exists()


@pytest.mark.parametrize("call", OPENED)
@pytest.mark.parametrize("kind", ["journal", "super-journal", "log"])
def test_a_journal_beside_a_closed_database_is_refused_and_not_applied(folder, tmp_path, victim, call, kind):
    end = "-wal" if kind == "log" else "-journal"
    contents = {
        "journal": lambda: hot_journal(other_contents(folder, tmp_path)),
        "super-journal": lambda: hot_journal(other_contents(folder, tmp_path), victim),
        "log": lambda: write_ahead_log(folder, tmp_path),
    }[kind]()
    beside(folder, end).write_bytes(contents)
    before = files(folder)
    with pytest.raises(IndexFormatError, match=rf"sqlite{end} "):
        OPENED[call](folder)
    assert files(folder) == before
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("call", OPENED)
def test_a_journal_that_names_another_file_is_refused_beside_a_killed_database_too(folder, tmp_path, victim, call):
    unseal(folder)
    beside(folder, "-journal").write_bytes(hot_journal(database(folder).read_bytes(), victim))
    before = files(folder)
    with pytest.raises(IndexFormatError, match="would delete"):
        OPENED[call](folder)
    assert files(folder) == before
    assert victim.read_text() == "precious"


def test_a_folder_without_a_manifest_is_not_repaired_over_such_a_journal(folder, victim):
    beside(folder, "-journal").write_bytes(hot_journal(database(folder).read_bytes(), victim))
    (folder / "manifest.json").unlink()
    for call in (check, repair):
        with pytest.raises(IndexFormatError, match="would delete"):
            call(folder)
    assert victim.read_text() == "precious"


def test_the_journals_of_a_writer_that_was_killed_are_replayed(folder, tmp_path):
    unseal(folder)
    whole, log = database(folder).read_bytes(), write_ahead_log(folder, tmp_path)
    database(folder).write_bytes(other_contents(folder, tmp_path))
    beside(folder, "-journal").write_bytes(hot_journal(whole))
    with PredictiveAssociativeIndex.open(folder) as index:
        assert len(index._store.links) == 8
    unseal(folder)
    database(folder).write_bytes(whole)
    beside(folder, "-wal").write_bytes(log)
    for call in ("load", "check", "open"):
        OPENED[call](folder)
    with PredictiveAssociativeIndex.load(folder) as index:
        assert len(index._store.links) == 0


@pytest.mark.parametrize(
    "command", [["inspect"], ["check"], ["repair"], ["recall", "--id", "m1"], ["search", "--id", "m1"]]
)
def test_the_command_line_names_the_refused_journal(folder, victim, command, capsys):
    beside(folder, "-journal").write_bytes(hot_journal(database(folder).read_bytes(), victim))
    assert main([command[0], str(folder), *command[1:]]) == 2
    assert "sqlite-journal lies beside a database that was closed" in capsys.readouterr().err
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("call", OPENED)
@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_what_is_no_file_in_place_of_a_journal_is_refused(folder, end, call):
    unseal(folder)
    beside(folder, end).mkdir()
    with pytest.raises(IndexFormatError, match="no plain file"):
        OPENED[call](folder)


def test_what_readers_leave_beside_a_closed_database_keeps_nobody_out(folder):
    """Empty journal files that readers leave next to a closed database do not prevent opening it."""
    reader = PredictiveAssociativeIndex.open(folder, read_only=True)
    left = {path.name: path.read_bytes() for path in folder.iterdir() if path.name[-4:] in ("-wal", "-shm")}
    reader.close()
    for name, contents in {**left, beside(folder, "-wal").name: b""}.items():
        (folder / name).write_bytes(contents)
    for call in OPENED.values():
        assert not call(folder)


LINKED = [
    "manifest.json",
    "manifest.json.new",
    "memories",
    "-wal",
    "-shm",
    "-journal",
    "predictor",
    "keys",
    "ann",
    "writer.lock",
]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("name", LINKED)
def test_a_link_among_the_files_is_not_followed(folder, victim, name):
    paths = {
        "memories": database(folder),
        "predictor": next(folder.glob("predictor-*")),
        "keys": folder / "keys-0123456789ab.f32",
        "ann": folder / "ann-0123456789ab.faiss",
    }
    path = beside(folder, name) if name.startswith("-") else paths.get(name, folder / name)
    if path.exists():
        victim.write_bytes(path.read_bytes())
        path.unlink()
    path.symlink_to(victim)
    before = victim.read_bytes()
    for call in OPENED.values():
        with pytest.raises(IndexFormatError, match="is a link"):
            call(folder)
    other = PredictiveAssociativeIndex(dim=3)
    with pytest.raises(IndexFormatError, match="is a link"):
        other.save(folder, overwrite=True)
    assert path.is_symlink()
    assert victim.read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_full_keys_that_became_a_link_are_not_written_to(tmp_path, victim):
    """If the file of full keys was replaced by a link, the target of the link is not written."""
    path = tmp_path / "index"
    vectors = np.random.default_rng(5).standard_normal((2_000, 8))
    with PredictiveAssociativeIndex.open(path, 8, "faiss:ivf,sq8") as index:
        index.add(vectors)
    (keys,) = path.glob("keys-*.f32")
    shutil.copy(keys, victim)
    keys.unlink()
    keys.symlink_to(victim)
    before = victim.read_bytes()
    from pam_retriever.ann.vector_file import VectorFile

    for read_only in (True, False):
        with pytest.raises(OSError, match=r"symbolic|link"):
            VectorFile(8, path, keys.name, 2_000, 0, read_only)
    with pytest.raises(IndexFormatError, match="is a link"), PredictiveAssociativeIndex.open(path) as index:
        index.add(vectors[:10])
    assert victim.read_bytes() == before


@pytest.mark.parametrize("note", ["", "7", '{"pid": Infinity, "host": "", "since": ""}', '{"pid": "\\ud800"}'])
def test_any_note_in_a_lock_that_is_held_says_that_it_is_held(folder, note):
    with PredictiveAssociativeIndex.open(folder):
        (folder / "writer.lock").write_text(note)
        with pytest.raises(IndexLocked, match="another process"):
            PredictiveAssociativeIndex.open(folder)
