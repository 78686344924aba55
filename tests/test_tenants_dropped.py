"""A copy of an index has no tenant that was dropped while the copy was made; the drop stays a drop."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex

DIM = 4


@pytest.fixture
def writer(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        for name in ("ann", "ben", "cem"):
            index.tenant(name).add(np.eye(DIM)[:2], ["stairs", "slip"])
        yield index


def opened(writer, how):
    path = writer._store.folder
    if how == "memory":
        index = PredictiveAssociativeIndex(DIM)
        for name in writer.tenants():
            index.tenant(name).add(np.eye(DIM)[:2], ["stairs", "slip"])
        return index
    if how == "writer":
        return writer
    if how == "load":
        return PredictiveAssociativeIndex.load(path)
    return PredictiveAssociativeIndex.open(path, read_only=True, follow=how == "follow")


@pytest.mark.parametrize("how", ["writer", "read", "follow", "load", "memory"])
@pytest.mark.parametrize("moment", ["listed", "opened"])
def test_a_tenant_dropped_during_a_copy_is_left_out(writer, how, moment, tmp_path, monkeypatch):
    index = opened(writer, how)
    tenants = index._tenants
    call = "names" if moment == "listed" else "get"
    original = getattr(tenants, call)

    def drops_after(*arguments, **options):
        found = original(*arguments, **options)
        if moment == "listed" or arguments == ("ben",):
            (index if how == "memory" else writer).drop_tenant("ben")
        return found

    monkeypatch.setattr(tenants, call, drops_after)
    index.save(tmp_path / "copy")
    with PredictiveAssociativeIndex.load(tmp_path / "copy") as copy:
        before = how in ("read", "load") and moment == "opened"  # the copy has the moment at which it opened the tenant
        assert copy.tenants() == (["ann", "ben", "cem"] if before else ["ann", "cem"])
        for name in copy.tenants():
            assert len(copy.tenant(name)) == 2
    assert (index if how == "memory" else writer).tenants() == ["ann", "cem"]


def test_a_damaged_tenant_is_not_left_out(writer, tmp_path):
    writer.close()
    reader = PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True)
    [database] = reader._store.tenant_folders.find("ben").glob("*.sqlite")
    database.write_bytes(b"damaged")
    with pytest.raises(Exception, match="damaged"):
        reader.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_reader_of_a_dropped_tenant_learns_that_it_is_gone(writer):
    path = writer._store.folder
    with PredictiveAssociativeIndex.open(path, read_only=True, follow=True) as reader:
        ann = reader.tenant("ann")
        assert len(ann) == 2
        writer.drop_tenant("ann")
        for call in (ann.refresh, lambda: len(ann)):
            with pytest.raises(IndexFormatError, match=f"There is no tenant 'ann' at {path} any more"):
                call()


def test_a_dropped_tenant_does_not_count_among_the_open_ones(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 3, max_open_tenants=2) as index:
        for name in ("a", "b"):
            index.tenant(name).add(np.eye(1, 3), [name])
        assert index.drop_tenant("a")
        for name in ("c", "d", "e"):
            index.tenant(name).add(np.eye(1, 3), [name])
        assert index.tenants() == ["b", "c", "d", "e"]
        assert [len(index.tenant(name)) for name in index.tenants()] == [1] * 4
