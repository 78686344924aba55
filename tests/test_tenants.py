"""Tenants: separate indexes in one index, on the disk and in memory."""

from __future__ import annotations

import errno
import gc
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import (
    FitConfig,
    IndexClosed,
    IndexFormatError,
    IndexLocked,
    InvalidInput,
    PredictiveAssociativeIndex,
    ReadOnlyIndex,
    StorageError,
)
from pam_retriever.store.folder import snapshot
from pam_retriever.store.folder.manifest import read_manifest
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.folder.tenant_names import folder_of, name_of
from pam_retriever.store.sqlite.connection import Connection

DIM = 8
VECTORS = np.random.default_rng(27).standard_normal((12, DIM)).astype(np.float32)
NAMES = ["../x", "a/b", "a\\b", ".", "..", "con", "nul.txt", " ", "a ", "A", "a", "é", "e\u0301", "\n", "t-"]
HOSTILE = [*NAMES, "漢" * 50, "💡", "x" * 150]
QUICK = FitConfig(hidden=8, passes=2)


def filled(index: PredictiveAssociativeIndex, word: str, fit: bool = False) -> PredictiveAssociativeIndex:
    ids = [f"{word}{n}" for n in range(len(VECTORS))]
    index.add(VECTORS, ids, [f"{word} text {n}" for n in range(len(ids))], [{"owner": word}] * len(ids))
    index.observe(ids[:6])
    if fit:
        index.fit(window=1, config=QUICK, progress=False)
    return index


@pytest.fixture(params=["memory", "folder"])
def index(request, tmp_path):
    made = (
        PredictiveAssociativeIndex(DIM)
        if request.param == "memory"
        else PredictiveAssociativeIndex.open(tmp_path / "index", DIM)
    )
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A closed index with the tenants ann, fitted, and bob."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=("title",)) as index:
        filled(index, "own")
        filled(index.tenant("ann"), "ann", fit=True)
        filled(index.tenant("bob"), "bob")
    return tmp_path / "index"


def tenant_folder(folder: Path, name: str) -> Path:
    return folder / read_manifest(folder)["tenants"] / folder_of(name)


def test_a_tenant_is_an_index_of_its_own(index):
    ann, bob = index.tenant("ann"), index.tenant("bob")
    assert isinstance(ann, PredictiveAssociativeIndex)
    assert (ann.dim, len(ann), index.tenants()) == (DIM, 0, ["ann", "bob"])
    ann.add(VECTORS[:2], ["one", "two"], ["of ann", "of ann, too"])
    bob.add(VECTORS[1:2], ["one"], ["of bob"])
    assert (len(index), len(ann), len(bob)) == (0, 2, 1)
    assert ann.get(["one"])[0].text == "of ann"
    assert [hit.id for hit in bob.recall(VECTORS[0], text="ann")] == ["one"]
    assert index.tenant("ann") is ann


def test_its_names_are_safe_and_different(index):
    for name in HOSTILE:
        index.tenant(name).add(VECTORS[:1], [f"memory of {name}"])
    assert index.tenants() == sorted(HOSTILE)
    for name in HOSTILE:
        assert [record.id for record in index.tenant(name).find()] == [f"memory of {name}"]


def test_names_are_names_of_folders_on_any_file_system():
    folders = [folder_of(name) for name in HOSTILE]
    assert len({name.lower() for name in folders}) == len(HOSTILE)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and len(name) <= 255 for name in folders)
    assert [name_of(name) for name in folders] == HOSTILE
    assert [name_of(name) for name in ("t-", "x-me", "t-ME", "t-1", "t-mf", "lost+found")] == [None] * 6


@pytest.mark.parametrize("name", ["", "x" * 10_000, "漢" * 51, "a\0b", "\ud800", None, 3, b"ann", ("a",)])
def test_invalid_names_are_refused(index, name):
    for call in (index.tenant, index.drop_tenant):
        with pytest.raises(InvalidInput):
            call(name)
    assert index.tenants() == []


def test_a_tenant_has_no_tenants(index):
    ann = index.tenant("ann")
    for call in (lambda: ann.tenant("x"), ann.tenants, lambda: ann.drop_tenant("x")):
        with pytest.raises(InvalidInput, match="on a tenant"):
            call()


def test_tenants_are_there_after_reopening(folder):
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.tenants() == ["ann", "bob"]
        assert index.tenant("ann").is_fitted
        assert not index.tenant("bob").is_fitted
        assert len(index.tenant("bob").trajectories()) == 1
    assert check(folder) == []


def test_readers_and_copies_have_the_tenants(folder):
    with PredictiveAssociativeIndex.open(folder) as writer:
        expected = writer.tenant("ann").recall("ann1")
    for reader in (PredictiveAssociativeIndex.open(folder, read_only=True), PredictiveAssociativeIndex.load(folder)):
        with reader:
            assert reader.tenants() == ["ann", "bob"]
            assert reader.tenant("ann").recall("ann1") == expected


def test_a_reader_makes_and_drops_none(folder):
    with PredictiveAssociativeIndex.open(folder, read_only=True) as reader:
        with pytest.raises(InvalidInput, match="no tenant 'eve'"):
            reader.tenant("eve")
        with pytest.raises(ReadOnlyIndex):
            reader.drop_tenant("ann")
        with pytest.raises(ReadOnlyIndex):
            reader.tenant("ann").add(VECTORS[:1])
        assert reader.tenants() == ["ann", "bob"]


def test_a_copy_in_memory_leaves_the_folder(folder):
    with PredictiveAssociativeIndex.load(folder) as copy:
        assert copy.drop_tenant("ann")
        assert not copy.drop_tenant("ann")
        copy.tenant("eve").add(VECTORS[:1], ["new"])
        assert copy.tenants() == ["bob", "eve"]
        assert len(copy.tenant("ann")) == 0
    with PredictiveAssociativeIndex.load(folder) as again:
        assert again.tenants() == ["ann", "bob"]


def test_save_takes_the_tenants_along(folder, tmp_path):
    saved = [tmp_path / name for name in ("of writer", "of copy", "of memory", "of copy of memory")]
    with PredictiveAssociativeIndex.open(folder) as index:
        index.save(saved[0])
    with PredictiveAssociativeIndex.load(folder) as copy:
        copy.save(saved[1])
    memory = filled(PredictiveAssociativeIndex(DIM, names=("title",)), "own")
    filled(memory.tenant("ann"), "ann", fit=True)
    filled(memory.tenant("bob"), "bob")
    memory.save(saved[2])
    with PredictiveAssociativeIndex.load(saved[2]) as copy:
        copy.save(saved[3])
    files = [{path.relative_to(one): path.read_bytes() for path in one.rglob("*") if path.is_file()} for one in saved]
    assert files[0] == files[1]
    assert files[2] == files[3]
    for one in saved:
        with PredictiveAssociativeIndex.open(one) as index:
            assert (index.tenants(), len(index.tenant("ann"))) == (["ann", "bob"], len(VECTORS))


def test_save_over_an_index_takes_the_place_of_its_tenants(folder, tmp_path):
    other = tmp_path / "other"
    with PredictiveAssociativeIndex.open(other, DIM) as index:
        filled(index.tenant("eve"), "eve")
    with PredictiveAssociativeIndex.open(folder) as index:
        index.save(other, overwrite=True)
        index.save(other, overwrite=True)  # a second save replaces the first one
    assert len(list(other.glob("tenants-*"))) == 1
    with PredictiveAssociativeIndex.open(other) as index:
        assert (index.tenants(), len(index.tenant("ann"))) == (["ann", "bob"], len(VECTORS))
    PredictiveAssociativeIndex(DIM).save(other, overwrite=True)
    assert not list(other.glob("tenants-*"))


@pytest.mark.parametrize("step", ["checksum_of", "write_weights", "write_manifest"])
def test_a_save_that_fails_leaves_the_other_index_as_it_was(folder, tmp_path, monkeypatch, step):
    other = tmp_path / "other"
    PredictiveAssociativeIndex(DIM).save(other)
    with PredictiveAssociativeIndex.open(folder) as index:
        filled(index, "own", fit=True)
        before = sorted(path.name for path in other.iterdir())
        write = getattr(snapshot, step)

        def fail(path: Path, *given: object) -> object:
            if other in (path, path.parent):
                raise OSError(errno.ENOSPC, "no space")
            return write(path, *given)

        with monkeypatch.context() as patch:
            patch.setattr(snapshot, step, fail)
            with pytest.raises(StorageError, match="No space"):
                index.save(other, overwrite=True)
        assert sorted(path.name for path in other.iterdir()) == before
        index.save(other, overwrite=True)
    with PredictiveAssociativeIndex.open(other) as copy:
        assert copy.tenants() == ["ann", "bob"]


def test_a_save_after_one_that_was_killed_replaces_its_tenants(folder, tmp_path):
    other = tmp_path / "other"
    PredictiveAssociativeIndex(DIM).save(other)
    with PredictiveAssociativeIndex.open(folder) as index:
        index.save(tmp_path / "same")
        (left,) = (tmp_path / "same").glob("tenants-*")
        shutil.copytree(left, other / left.name)  # written before a kill, and not yet named
        index.save(other, overwrite=True)
    with PredictiveAssociativeIndex.open(other) as copy:
        assert copy.tenants() == ["ann", "bob"]


def test_a_save_replaces_an_index_whose_tenants_are_lost(folder, tmp_path):
    with PredictiveAssociativeIndex.open(folder) as index:
        index.save(other := tmp_path / "other")
        shutil.rmtree(next(other.glob("tenants-*")))
        index.save(other, overwrite=True)
    with PredictiveAssociativeIndex.open(other) as copy:
        assert copy.tenants() == ["ann", "bob"]


def test_drop_leaves_no_byte(folder):
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.drop_tenant("ann")
        assert not index.drop_tenant("ann")
        assert index.tenants() == ["bob"]
        names = [path.name for path in folder.rglob("*")]
        contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert not any(folder_of("ann") in name for name in names)
    assert not any(b"ann" in one for one in contents)
    assert any(b"bob7" in one for one in contents)


def test_a_drop_that_was_interrupted_can_be_repeated(folder, monkeypatch):
    def interrupted(*_) -> None:
        raise KeyboardInterrupt

    with PredictiveAssociativeIndex.open(folder) as index:
        monkeypatch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.drop_tenant("bob")
        monkeypatch.undo()
        index.drop_tenant("bob")
        assert index.tenants() == ["ann"]
        assert not [path for path in folder.rglob("*") if path.is_file() and b"bob text" in path.read_bytes()]


def test_a_tenant_whose_close_was_interrupted_opens_again(tmp_path, monkeypatch):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", DIM)
    tenant = filled(index.tenant("ann"), "ann")

    def interrupted(self: Connection) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tenant.close()
    monkeypatch.undo()
    assert len(index.tenant("ann")) == len(VECTORS)
    index.close()


def test_a_tenant_whose_close_was_interrupted_is_closed_before_it_opens_again(tmp_path, monkeypatch):
    def interrupted(_store):
        raise KeyboardInterrupt

    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, max_open_tenants=1) as index:
        filled(index.tenant("ann"), "ann")
        store = index._tenants._opened["ann"].store
        gc.collect()
        monkeypatch.setattr("pam_retriever.store.naming.close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.tenant("bob")
        monkeypatch.undo()
        assert len(index.tenant("ann")) == len(VECTORS)
        assert store.closed  # else two stores have the folder open


def test_who_follows_sees_that_a_tenant_was_dropped(folder):
    with (
        PredictiveAssociativeIndex.open(folder) as index,
        PredictiveAssociativeIndex.open(folder, read_only=True, follow=True) as reader,
    ):
        tenant = reader.tenant("ann")
        assert tenant.search(VECTORS[0])
        index.drop_tenant("ann")
        assert reader.tenants() == ["bob"]
        for _ in range(2):
            with pytest.raises(IndexFormatError):
                tenant.search(VECTORS[0])
        with pytest.raises(InvalidInput, match="no tenant 'ann'"):
            reader.tenant("ann")
        with pytest.raises(IndexClosed):
            tenant.search(VECTORS[0])
        filled(index.tenant("ann"), "new")
        assert reader.tenants() == ["ann", "bob"]
        assert reader.tenant("ann").search(VECTORS[0])[0].id == "new0"


def test_who_follows_sees_the_tenants_of_an_index_that_replaced_this_one(folder, tmp_path):
    with PredictiveAssociativeIndex.open(folder, read_only=True, follow=True) as reader:
        assert reader.tenant("ann").search(VECTORS[0])[0].id == "ann0"
        with PredictiveAssociativeIndex(DIM) as other:
            filled(other.tenant("ann"), "new")
            other.save(folder, overwrite=True)
        assert reader.tenants() == ["ann"]
        assert reader.tenant("ann").search(VECTORS[0])[0].id == "new0"


def test_calls_of_a_dropped_tenant_raise_index_closed(index):
    ann = filled(index.tenant("ann"), "ann")
    assert index.drop_tenant("ann")
    with pytest.raises(IndexClosed):
        ann.recall("ann1")
    assert len(index.tenant("ann")) == 0


def test_a_tenant_that_was_closed_opens_again(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        with index.tenant("ann") as ann:
            filled(ann, "ann")
        again = index.tenant("ann")
        assert again is not ann
        assert len(again) == len(VECTORS)


def test_close_closes_the_tenants(tmp_path):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", DIM)
    ann = index.tenant("ann")
    index.close()
    for call in (ann.find, index.tenants, lambda: index.tenant("ann"), lambda: index.drop_tenant("ann")):
        with pytest.raises(IndexClosed):
            call()
    assert not list((tmp_path / "index").rglob("writer.lock"))
    assert read_manifest(tenant_folder(tmp_path / "index", "ann"))["database_sha256"] is not None


def test_few_tenants_stay_open_and_referenced_ones_always(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, max_open_tenants=2) as index:
        held = index.tenant("t0")
        for number in range(8):
            index.tenant(f"t{number}").add(VECTORS[:1], [f"of t{number}"])
        gc.collect()
        assert len(list((tmp_path / "index").rglob("t-*/*.sqlite-wal"))) == 3  # two latest, one referenced
        assert index.tenant("t0") is held
        held.add(VECTORS[1:2], ["more"])
        assert len(index.tenant("t0")) == 2
        for number in range(8):
            assert f"of t{number}" in index.tenant(f"t{number}")


def test_one_that_fits_by_itself_stays_open(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, max_open_tenants=1) as index:
        index.tenant("ann").auto_fit(4, window=1, config=QUICK)
        for step in range(3):
            index.tenant("ann").append("chat", VECTORS[step], id=f"m{step}")
            index.tenant("bob")
        index.tenant("ann").append("chat", VECTORS[3], id="m3")
        index.tenant("ann").append("chat", VECTORS[4], id="m4")
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.tenant("ann").is_fitted


@pytest.mark.parametrize("most", [0, -1, 1.5, "many", None])
def test_a_wrong_number_of_open_tenants_is_refused(tmp_path, most):
    with pytest.raises(InvalidInput, match="max_open_tenants"):
        PredictiveAssociativeIndex.open(tmp_path / "index", DIM, max_open_tenants=most)
    assert not (tmp_path / "index").exists()


def test_one_lock_excludes_other_writers_from_an_index_and_its_tenants(folder, tmp_path, monkeypatch):
    inside = tenant_folder(folder, "ann")
    (tmp_path / "link").symlink_to(inside)
    monkeypatch.chdir(inside)
    ways = (inside, tmp_path / "link", Path())
    with PredictiveAssociativeIndex.open(folder) as index:
        for way in ways:
            with pytest.raises(IndexLocked):
                PredictiveAssociativeIndex.open(way)
            with pytest.raises(IndexLocked):
                repair(way)
            with pytest.raises(IndexLocked):
                index.save(way, overwrite=True)
        assert "ann" in index.tenants()
    for way in ways:
        with PredictiveAssociativeIndex.open(way), pytest.raises(IndexLocked):
            PredictiveAssociativeIndex.open(folder)
    assert not list(folder.rglob("writer.lock"))
    shutil.copytree(inside, tmp_path / "alone")
    with PredictiveAssociativeIndex.open(folder), PredictiveAssociativeIndex.open(tmp_path / "alone") as alone:
        assert len(alone) == len(VECTORS)


def test_a_tenant_keeps_the_lock_when_its_index_is_dropped(folder):
    ann = PredictiveAssociativeIndex.open(folder).tenant("ann")
    gc.collect()
    with pytest.raises(IndexLocked):
        PredictiveAssociativeIndex.open(folder)
    ann.add(VECTORS[:1], ["more"])
    del ann
    gc.collect()
    with PredictiveAssociativeIndex.open(folder) as index:
        assert "more" in index.tenant("ann")


def test_closed_tenants_of_a_dropped_index_release_the_lock(folder):
    index = PredictiveAssociativeIndex.open(folder)
    ann, bob = index.tenant("ann"), index.tenant("bob")
    del index
    gc.collect()
    ann.close()
    with pytest.raises(IndexLocked):
        PredictiveAssociativeIndex.open(folder)
    bob.close()
    PredictiveAssociativeIndex.open(folder).close()
    with pytest.raises(IndexClosed):
        ann.find()


def test_a_program_may_change_its_current_folder(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    index, copy = PredictiveAssociativeIndex.open(folder.name), PredictiveAssociativeIndex.load(folder.name)
    ann = index.tenant("ann")
    ann.add(VECTORS[:1], ["before"])
    reader = PredictiveAssociativeIndex.open(folder.name, read_only=True, follow=True)
    monkeypatch.chdir("/")
    ann.add(VECTORS[1:2], ["after"])
    filled(index.tenant("new"), "new")
    index.add(VECTORS[:1], ["own"])
    assert "after" in reader.tenant("ann")
    assert len(copy.tenant("bob")) == len(VECTORS)
    for one in (reader, copy, index):
        one.close()
    assert check(folder) == []
    assert not list(folder.rglob("writer.lock"))


def test_threads_get_the_same_tenant(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, max_open_tenants=2) as index:

        def work(thread: int) -> None:
            for step in range(12):
                index.tenant(f"t{step % 4}").add(VECTORS[:1], [f"{thread}-{step}"])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert [len(index.tenant(f"t{number}")) for number in range(4)] == [12] * 4


def test_a_link_among_the_tenants_is_refused(folder, tmp_path):
    outside = tmp_path / "outside"
    path = tenant_folder(folder, "ann")
    path.rename(outside)
    before = {one.name: one.read_bytes() for one in outside.iterdir()}
    path.symlink_to(outside)
    for read_only in (False, True):
        with PredictiveAssociativeIndex.open(folder, read_only=read_only) as index:
            for call in (index.tenants, lambda: index.tenant("ann")):
                with pytest.raises(IndexFormatError, match="link"):
                    call()
    with pytest.raises(IndexFormatError, match="link"):
        check(folder)
    assert {one.name: one.read_bytes() for one in outside.iterdir()} == before


def test_a_link_in_place_of_all_tenants_is_refused(folder, tmp_path):
    path = tenant_folder(folder, "ann").parent
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    for opened in (PredictiveAssociativeIndex.open, PredictiveAssociativeIndex.load, check, repair):
        with pytest.raises(IndexFormatError, match="link"):
            opened(folder)
    assert len(list((tmp_path / "outside").iterdir())) == 2


@pytest.mark.parametrize("named", ["tenants-../../../x", "..", "tenants-0123456789ab", 3, None])
def test_a_forged_name_of_the_tenants_folder_is_refused(folder, named):
    manifest = read_manifest(folder)
    (folder / "manifest.json").write_text(json.dumps({**manifest, "tenants": named}))
    with pytest.raises(IndexFormatError):
        PredictiveAssociativeIndex.open(folder)
    assert (folder / manifest["tenants"]).is_dir()


def test_an_unknown_entry_of_the_manifest_is_refused(folder):
    """An unknown key in the manifest is an error: a flipped bit in "tenants" must not hide the tenants."""
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"tenants"', '"tenantr"'))
    with pytest.raises(IndexFormatError):
        PredictiveAssociativeIndex.open(folder)
    assert list(folder.glob("tenants-*"))


def test_a_damaged_tenant_is_noticed_and_repaired_and_can_be_dropped(folder):
    path = next(tenant_folder(folder, "bob").glob("memories-*.sqlite"))
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"bob text 7")] ^= 1
    path.write_bytes(damaged)
    assert any("'bob'" in line for line in check(folder))
    with PredictiveAssociativeIndex.open(folder) as index:
        with pytest.raises(IndexFormatError):
            index.tenant("bob")
        assert len(index.tenant("ann")) == len(VECTORS)
    assert any("'bob'" in line for line in repair(folder))
    with PredictiveAssociativeIndex.open(folder) as index:
        assert len(index.tenant("bob")) == len(VECTORS) - 1
    path = next(tenant_folder(folder, "bob").glob("memories-*.sqlite"))
    path.write_bytes(b"nothing")
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.drop_tenant("bob")
        assert index.tenants() == ["ann"]


def test_a_tenant_that_cannot_be_repaired_stops_no_other_repair(folder):
    next(tenant_folder(folder, "ann").glob("memories-*.sqlite")).write_bytes(b"nothing")
    path = next(tenant_folder(folder, "bob").glob("memories-*.sqlite"))
    path.write_bytes(path.read_bytes().replace(b"bob text 7", b"bob text x", 1))
    done = repair(folder)
    assert any(line.startswith("tenant 'ann': not repaired: Nothing can be read") for line in done)
    assert any("'bob'" in line for line in done)
    assert {line[:12] for line in check(folder)} == {"tenant 'ann'"}


def test_repair_of_the_index_keeps_its_tenants(folder):
    (folder / "manifest.json").unlink()
    repair(folder)
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.tenants() == ["ann", "bob"]


def test_leftovers_of_a_kill_are_removed(folder):
    for name in ("tenants-0123456789ab", "tenants-0123.new", "tenant-0123.new"):
        (folder / name / "t-me").mkdir(parents=True)
        (folder / name / "t-me" / "file").write_bytes(b"left")
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.tenants() == ["ann", "bob"]
    assert not [path for path in folder.rglob("*") if path.name == "file"]


def test_options_of_the_index_hold_for_its_tenants(tmp_path):
    def embed(texts: list[str]) -> list[list[float]]:
        return [[len(text), 1.0, *[0.5] * (DIM - 2)] for text in texts]

    with PredictiveAssociativeIndex.open(
        tmp_path / "index", DIM, "exact", embed, names=("title",), max_open_tenants=1
    ) as index:
        ann = index.tenant("ann")
        ann.add(texts=["a text", "another one, longer"], ids=["short", "long"])
        assert ann.recall(text="a text", k=1)[0].id == "short"
        assert (ann.embedder_name, "exact" in repr(ann)) == (index.tenant("ann").embedder_name, True)
        del ann
        index.tenant("bob")
        assert index.tenant("ann").search(text="a text", k=1)[0].id == "short"


def test_a_tenant_without_permission_to_train_is_not_trained_on(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        ben = index.tenant("ben", train=False)
        ben.add(VECTORS, [str(row) for row in range(len(VECTORS))])
        ben.observe(["0", "1", "2", "3"])
        for call in (lambda: ben.fit(config=QUICK, progress=False), lambda: ben.auto_fit(2)):
            with pytest.raises(InvalidInput, match="train=False"):
                call()
        assert set(ben.recall("1", k=2).ids) == {"0", "2"}  # links work without trained weights
        index.tenant("ann").add(VECTORS, [str(row) for row in range(len(VECTORS))])
        index.tenant("ann").fit([["0", "1", "2"]], config=QUICK, progress=False)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        with pytest.raises(InvalidInput, match="train=False"):
            index.tenant("ben").fit(config=QUICK, progress=False)  # ``train=False`` was stored
        assert index.tenant("ben", train=True).fit(config=QUICK, progress=False).steps > 0
    with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as reader:
        assert len(reader.tenant("ben", train=True)) == len(VECTORS)  # the stored setting
        with pytest.raises(ReadOnlyIndex):
            reader.tenant("ben", train=False)


def test_an_index_whose_training_was_forbidden_says_what_allows_it():
    index = PredictiveAssociativeIndex(DIM)
    index.allow_training(False)
    with pytest.raises(InvalidInput, match=r"fit\(\) on an index .* allow_training\(True\)"):
        index.fit(progress=False)


def test_forbidding_training_ends_fits_that_start_by_themselves(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        index.tenant("ann").auto_fit(2, window=1, config=QUICK)
        ann = index.tenant("ann", train=False)
        for step in range(4):
            ann.append("chat", VECTORS[step])
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:  # no fit was begun and failed
        assert not index.tenant("ann").is_fitted
