"""Trajectories from Parquet and Arrow equal the lists from which they were written."""

from __future__ import annotations

import sys
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import QUICK, WINDOW, new_index

from pam_retriever import InvalidInput, MissingExtra, PredictiveAssociativeIndex, read_parquet
from pam_retriever.experience import parquet


def table(outings, **more) -> pa.Table:
    names = [f"outing {at}" for at, outing in enumerate(outings) for _ in outing]
    return pa.table({"trajectory": names, "id": [id for outing in outings for id in outing], **more})


@pytest.mark.parametrize("batch", [1, 7, 10, 1000])
def test_every_trajectory_comes_whole_whatever_the_batches(planted, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(parquet, "BATCH", batch)
    times = np.arange(200.0)
    written = table(planted.outings, when=times)
    pq.write_table(written, tmp_path / "a.parquet", row_group_size=13)
    reader = written.to_reader(max_chunksize=batch)
    for source in (tmp_path / "a.parquet", str(tmp_path), written, reader):
        found = list(read_parquet(source, ids="id", timestamps="when"))
        assert [list(t.ids) for t in found] == planted.outings
        assert found[3].id == "outing 3"
        assert list(found[3].timestamps) == times[30:40].tolist()


def test_fit_reads_parquet_of_ids_and_of_vectors(planted, tmp_path):
    pq.write_table(table(planted.outings), tmp_path / "ids.parquet")
    known = new_index(planted)
    report = known.fit(read_parquet(tmp_path / "ids.parquet", ids="id"), WINDOW, QUICK, progress=False)
    assert report.associations == 20 * 2 * (9 + 8)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(planted.vectors.ravel()), planted.vectors.shape[1])
    for kind in (vectors, pa.array(planted.vectors.tolist())):
        pq.write_table(table(planted.outings, state=kind), tmp_path / "vectors.parquet")
        new = PredictiveAssociativeIndex(planted.vectors.shape[1])
        new.fit(read_parquet(tmp_path / "vectors.parquet", vectors="state"), WINDOW, QUICK, progress=False)
        assert len(new) == 200
        np.testing.assert_allclose(new.get(["outing 2/3"])[0].vector, planted.vectors[23], rtol=1e-6)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_dates_whatever_their_unit(planted, unit):
    days = [datetime(2026, 5, 1 + at) for at in range(10)]
    written = table(planted.outings[:1], when=pa.array(days, pa.timestamp(unit)))
    (found,) = read_parquet(written, ids="id", timestamps="when")
    assert list(found.timestamps) == days


def test_what_cannot_be_read_is_refused(planted, tmp_path, monkeypatch):
    good = table(planted.outings)
    with pytest.raises(InvalidInput, match="no columns"):
        list(read_parquet(good, None, ids="id"))
    with pytest.raises(InvalidInput, match="no columns"):
        read_parquet(good, ids="nothing")
    with pytest.raises(InvalidInput, match="neither"):
        read_parquet(good)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_parquet(tmp_path / "none.parquet", ids="id")
    with pytest.raises(InvalidInput, match="1 null"):
        list(read_parquet(pa.table({"trajectory": ["a", "a"], "id": ["b", None]}), ids="id"))
    with pytest.raises(InvalidInput, match="next to each other"):
        list(read_parquet(pa.table({"trajectory": list("aabba"), "id": list("cdefg")}), ids="id"))
    with pytest.raises(InvalidInput, match="differ in length"):
        list(read_parquet(pa.table({"trajectory": list("aa"), "v": [[1.0, 2.0], [1.0]]}), vectors="v"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="parquet"):
        read_parquet(good, ids="id")
