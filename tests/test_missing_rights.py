"""What a user may not read or write is an error that names it, and nothing changes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_tenant_folders import DIM, files, filled

from pam_retriever import PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder.repair import check

pytestmark = pytest.mark.skipif(not hasattr(os, "setresuid"), reason="the system has no such rights")


@pytest.fixture
def ordinary() -> Iterator[Path]:
    """A new folder of a user whom the system refuses what permissions refuse: root may do everything."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        made = Path(tempfile.mkdtemp())
        yield made
        shutil.rmtree(made)
    finally:
        if root:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("refused", "mode", "call"),
    [
        ("tenants-*", 0o300, lambda index: index.tenants()),
        ("tenants-*", 0o600, lambda index: index.tenant("bob")),
        ("tenants-*", 0o500, lambda index: index.tenant("bob")),
        ("tenants-*", 0o500, lambda index: index.drop_tenant("ann")),
        ("", 0o500, lambda index: index.tenant("bob")),
        ("", 0o500, lambda index: index.drop_tenant("ann")),
    ],
    ids=["list", "enter", "make among them", "drop among them", "make", "drop"],
)
def test_missing_rights_to_tenants_are_an_error_and_change_nothing(ordinary, refused, mode, call):
    with PredictiveAssociativeIndex.open(ordinary / "index", DIM) as index:
        filled(index.tenant("ann"), "a")
        (path,) = ordinary.glob(f"index/{refused}")
        before = files(ordinary)
        path.chmod(mode)
        with pytest.raises(StorageError, match="Permission denied"):
            call(index)
        path.chmod(0o700)
        assert files(ordinary) == before
        assert "a" in index.tenant("ann")
        filled(index.tenant("bob"), "b")
        assert index.tenants() == ["ann", "bob"]


CALLS = {
    "open": PredictiveAssociativeIndex.open,
    "open with a dimension": lambda folder: PredictiveAssociativeIndex.open(folder, DIM),
    "read": lambda folder: PredictiveAssociativeIndex.open(folder, read_only=True),
    "load": PredictiveAssociativeIndex.load,
    "check": check,
    "save": lambda folder: PredictiveAssociativeIndex(DIM).save(folder, overwrite=True),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("refused", "mode"),
    [("", 0), ("", 0o300), ("manifest.json", 0), ("memories-*", 0)],
    ids=["enter", "list", "manifest", "database"],
)
def test_an_index_that_may_not_be_read_is_an_error_and_stays_as_it_is(ordinary, refused, mode, call):
    with PredictiveAssociativeIndex.open(ordinary / "index", DIM) as index:
        filled(index, "a")
    (path,) = ordinary.glob(f"index/{refused}")
    path.chmod(mode)
    if (refused, call) == ("memories-*", "save"):  # what it replaces need not be readable
        CALLS[call](ordinary / "index")
        return
    with pytest.raises(StorageError, match="Permission denied"):
        CALLS[call](ordinary / "index")
    path.chmod(0o700)
    with PredictiveAssociativeIndex.open(ordinary / "index") as index:
        assert "a" in index


@pytest.mark.parametrize("ends", [(), ("-wal",), ("-wal", "-shm")], ids=str)
@pytest.mark.parametrize("call", ["read", "load", "check"])
def test_an_index_in_a_folder_that_may_not_be_written_is_read(ordinary, call, ends):
    """A reader leaves an empty log and its index beside the database; a copy of the folder may lack one."""
    with PredictiveAssociativeIndex.open(ordinary / "index", DIM) as index:
        filled(index, "a")
    (database,) = ordinary.glob("index/memories-*")
    for end in ends:
        database.with_name(f"{database.name}{end}").touch()
    (ordinary / "index").chmod(0o500)
    found = CALLS[call](ordinary / "index")
    assert found == [] if call == "check" else "a" in found
    (ordinary / "index").chmod(0o700)


def test_a_folder_in_which_no_index_may_be_made_is_an_error(ordinary):
    (ordinary / "closed").mkdir(mode=0o500)
    (ordinary / "unlisted").mkdir(mode=0o300)
    for call in (
        lambda folder: PredictiveAssociativeIndex.open(folder, DIM),
        PredictiveAssociativeIndex(DIM).save,
    ):
        for folder in (ordinary / "closed" / "index", ordinary / "unlisted"):
            with pytest.raises(StorageError, match="Permission denied"):
                call(folder)
    (ordinary / "unlisted").chmod(0o700)
    assert files(ordinary) == {"closed", "unlisted"}
