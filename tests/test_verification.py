"""The check of a database in the background: what it reports, and what it does not take for damage."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pam_retriever.errors import IndexFormatError, StorageError
from pam_retriever.store.folder.verification import Copy, Verification

CONTENTS = b"database" * 1000


@pytest.fixture
def path(tmp_path) -> Path:
    (tmp_path / "database").write_bytes(CONTENTS)
    return tmp_path / "database"


def verification(path: Path, check_types=lambda: None) -> Verification:
    return Verification(path, hashlib.sha256(CONTENTS).hexdigest(), check_types)


def copy(tmp_path: Path, contents: bytes, in_use: bool = True) -> Copy:
    """Describes a file of 4 known bytes that was written with these contents."""
    path = tmp_path / "copy"
    path.write_bytes(contents)
    return Copy(path, 4, zlib.crc32(b"keys"), lambda: in_use)


def outcome(checked: Verification, *copies: Copy) -> list[str]:
    """Runs a verification in the background; returns "sound" or the error, which every later check raises, too."""
    said = list[str]()
    checked.begin(copies, lambda: said.append("sound"))
    errors = map(error_of, (checked.finish, checked.check, checked.finish))
    return [*(error for error in errors if error is not None), *said]


def error_of(call: Callable[[], None]) -> str | None:
    try:
        call()
    except IndexFormatError as error:
        return str(error)
    return None


def test_a_sound_database_is_sound_now_and_in_the_background(path, tmp_path):
    verification(path).now()
    assert outcome(verification(path), copy(tmp_path, b"keys and what was added later")) == ["sound"]
    assert verification(path).size == len(CONTENTS)


@pytest.mark.parametrize("change", [b"Database", b"", b"database" * 1001], ids=["changed", "empty", "longer"])
def test_a_changed_database_is_reported_each_time(path, change):
    path.write_bytes(change if len(change) != 8 else change + CONTENTS[8:])
    said = outcome(verification(path))
    assert len(said) == 3
    assert all("damaged: its checksum differs" in one and "database" in one for one in said)
    with pytest.raises(IndexFormatError, match="checksum differs"):
        verification(path).now()


@pytest.mark.parametrize("contents", [b"Keys", b"key", b""])
def test_a_damaged_copy_is_reported_by_its_name(path, tmp_path, contents):
    said = outcome(verification(path), copy(tmp_path, contents))
    assert len(said) == 3
    assert all(f"{tmp_path / 'copy'} is damaged" in one and "built from the database" in one for one in said)


def test_a_copy_that_a_writer_replaced_or_removed_meanwhile_is_no_damage(path, tmp_path):
    assert outcome(verification(path), copy(tmp_path, b"new!", in_use=False)) == ["sound"]
    removed = copy(tmp_path, b"keys", in_use=False)
    removed.path.unlink()
    assert outcome(verification(path), removed) == ["sound"]


def test_a_copy_that_is_missing_and_in_use_is_damage(path, tmp_path):
    removed = copy(tmp_path, b"keys")
    removed.path.unlink()
    assert "damaged" in outcome(verification(path), removed)[0]


@pytest.mark.parametrize("error", [MemoryError("out of memory"), IndexFormatError("A column is wrong.", "a", "b")])
def test_columns_that_cannot_be_checked_are_not_taken_for_sound(path, error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match=str(error.args[0])):
        verification(path, fail).now()
    said = outcome(verification(path, fail))
    assert len(said) == 3
    assert all(str(error.args[0]).rstrip(".") in one for one in said)


def test_a_database_that_is_gone_is_an_error_at_once(path):
    path.unlink()
    with pytest.raises(StorageError, match="database"):
        verification(path).begin([], lambda: None)


def test_a_database_that_is_replaced_after_the_start_is_checked_as_it_was(path):
    """A save over the index takes the place of the file that is open."""
    checked, said = verification(path), list[str]()
    path.with_name("new").write_bytes(b"another")
    checked.begin([], lambda: said.append("sound"))
    path.with_name("new").replace(path)
    checked.finish()
    assert said == ["sound"]


def test_a_stopped_verification_says_nothing(path):
    checked, said = verification(path), list[str]()
    checked.stop()
    checked.begin([], lambda: said.append("sound"))
    checked.finish()
    assert said == []
