"""Acknowledged writes are on disk; damage is detected."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import DIM, TINY, WINDOW, new_index

from pam_retriever import (
    FitConfig,
    IndexClosed,
    IndexFormatError,
    IndexLocked,
    InvalidInput,
    PredictiveAssociativeIndex,
)


def answers(index: PredictiveAssociativeIndex) -> list:
    hits = index.recall("m044", k=20, explain=True) + index.search("m044", k=20)
    return [(hit.id, round(hit.score, 5), hit.text, hit.metadata, hit.evidence) for hit in hits]


def test_a_saved_index_answers_as_before_and_is_left_as_it_is(fitted, tmp_path):
    fitted._store.set_embedder("none")
    fitted.save(tmp_path / "saved")
    before = {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}
    assert {name.split("-")[0] for name in before} == {"manifest.json", "memories", "predictor"}
    loaded = PredictiveAssociativeIndex.load(tmp_path / "saved")
    assert answers(loaded) == answers(fitted)
    assert loaded.embedder_name == "none"
    loaded.add(np.ones((1, DIM)), ["only in memory"])
    loaded.close()
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "saved").iterdir()}


def test_an_open_index_keeps_everything(planted, tmp_path):
    path = tmp_path / "index"
    with PredictiveAssociativeIndex.open(path, dim=DIM) as index:
        index.add(planted.vectors, planted.ids, metadatas=[{"n": n} for n in range(200)])
        index.observe(planted.outings[0])
    with PredictiveAssociativeIndex.open(path) as index:
        index.fit(planted.outings[1:], window=WINDOW, config=TINY, progress=False)
        index.delete("m199")
        index.add(planted.vectors[:1] * 2, ["m000"], metadatas=[{"n": "new"}])
        expected = answers(index)
    with PredictiveAssociativeIndex.open(path, dim=DIM) as index:
        assert answers(index) == expected
        assert index.get(["m000"])[0].metadata == {"n": "new"}
        assert "m199" not in index
        assert {h.id for h in index.recall("m004", k=9, faithful=True)} == planted.associates("m004")
        assert len(list(path.glob("predictor-*"))) == 1
        index.fit(config=FitConfig(hidden=8, passes=1), progress=False)
        assert len(list(path.glob("predictor-*"))) == 1


def test_a_saved_index_can_be_opened_and_an_open_one_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    with PredictiveAssociativeIndex.open(tmp_path / "saved") as index:
        assert answers(index) == answers(fitted)
        index.add(np.ones((1, DIM)), ["later"])
    loaded = PredictiveAssociativeIndex.load(tmp_path / "saved")
    assert "later" in loaded
    assert answers(loaded)


def test_save_refuses_to_overwrite_by_default(fitted, index, tmp_path):
    fitted.save(tmp_path)
    with pytest.raises(InvalidInput, match="overwrite"):
        index.save(tmp_path)
    assert PredictiveAssociativeIndex.load(tmp_path).is_fitted
    index.save(tmp_path, overwrite=True)
    assert not PredictiveAssociativeIndex.load(tmp_path).is_fitted
    assert len(list(tmp_path.iterdir())) == 2
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("not an index")
    with pytest.raises(IndexFormatError, match=r"manifest\.json"):
        index.save(other, overwrite=True)
    assert (other / "letter.txt").exists()


def test_two_writers_are_refused(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add([[1, 2]])
        with pytest.raises(IndexLocked, match=f"process {os.getpid()} on {platform.node()!r}.*read_only=True"):
            PredictiveAssociativeIndex.open(tmp_path / "index")
        with pytest.raises(InvalidInput, match="lives"):
            index.save(tmp_path / "index", overwrite=True)
    PredictiveAssociativeIndex.open(tmp_path / "index").close()


def test_a_closed_index_raises_index_closed(tmp_path):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=2)
    index.close()
    index.close()
    assert "closed" in repr(index)
    with pytest.raises(IndexClosed, match="open"):
        index.add([[1, 2]])


def test_folders_that_are_no_index(tmp_path):
    with pytest.raises(IndexFormatError, match="nowhere does not exist"):
        PredictiveAssociativeIndex.load(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="dim"):
        PredictiveAssociativeIndex.open(tmp_path / "nowhere")
    (tmp_path / "letter.txt").write_text("hello")
    with pytest.raises(IndexFormatError, match=r"manifest\.json"):
        PredictiveAssociativeIndex.open(tmp_path, dim=2)
    for manifest in ("", "{", "[]", "{}", '{"format": "other"}', "[" * 100_000):
        (tmp_path / "manifest.json").write_text(manifest)
        with pytest.raises(IndexFormatError, match="not a manifest"):
            PredictiveAssociativeIndex.load(tmp_path)


def test_another_dimension_is_refused(tmp_path):
    PredictiveAssociativeIndex.open(tmp_path / "index", dim=2).close()
    with pytest.raises(InvalidInput, match="dim=3"):
        PredictiveAssociativeIndex.open(tmp_path / "index", dim=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 9, "library_version": "9.9"}, r"9.*9\.9.*Upgrade"),
        ({"format_version": "1"}, "format version"),
        ({"database": "../../etc/passwd"}, "same folder"),
        ({"database": ".."}, "same folder"),
        ({"database": ""}, "same folder"),
        ({"database": "manifest.json"}, "same folder"),
        ({"database_sha256": 7}, "SHA-256"),
        ({"backend": None}, "backend"),
        ({"backend": "abacus"}, "abacus"),
        ({"dim": 10**30}, "dimension"),
        ({"dim": True}, "dimension"),
        ({"database": "memories-00000000.sqlite"}, "missing"),
        ({"dim": "many"}, "dimension"),
        ({"dim": -1}, "dimension"),
    ],
)
def test_a_manifest_that_cannot_be_right(fitted, tmp_path, change, message):
    fitted.save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **change}))
    for open_ in (PredictiveAssociativeIndex.load, PredictiveAssociativeIndex.open):
        with pytest.raises(IndexFormatError, match=message):
            open_(tmp_path)


@pytest.mark.parametrize("name", ["memories", "predictor"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_noticed(fitted, tmp_path, name, damage):
    fitted.save(tmp_path)
    (path,) = tmp_path.glob(f"{name}-*")
    contents = bytearray(path.read_bytes())
    if damage == "flip":
        contents[len(contents) // 2] ^= 1
        path.write_bytes(contents)
    elif damage == "truncate":
        path.write_bytes(contents[:-100])
    else:
        path.unlink()
    for open_ in (PredictiveAssociativeIndex.load, PredictiveAssociativeIndex.open):
        with pytest.raises(IndexFormatError, match=path.name):
            open_(tmp_path)


WRITER = """
    import sys, numpy as np
    from pam_retriever import PredictiveAssociativeIndex, FitConfig
    random = np.random.default_rng(int(sys.argv[2]))
    with PredictiveAssociativeIndex.open(sys.argv[1], dim=4) as index:
        at = len(index.find())
        print("ready", at, flush=True)
        while True:
            ids = [f"id{n}" for n in range(at, at + 5)]
            index.add(random.standard_normal((5, 4)), ids, texts=ids)
            index.observe(ids)
            at += 5
            print("added", at, flush=True)
            if at % 50 == 0:
                index.fit(config=FitConfig(hidden=8, passes=1), progress=False)
                print("fitted", at, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_was_acknowledged(tmp_path):
    path, script = tmp_path / "index", tmp_path / "writer.py"
    script.write_text(textwrap.dedent(WRITER))
    acknowledged, fitted = 0, False
    for life in range(4):
        writer = subprocess.Popen(
            [sys.executable, str(script), str(path), str(life)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        for lines, line in enumerate(writer.stdout, start=1):
            word, number = line.split()
            acknowledged, fitted = int(number), fitted or word == "fitted"
            if lines == 12 + 7 * life:
                writer.send_signal(signal.SIGKILL)
        writer.wait()
        copy = tmp_path / f"copy{life}"
        shutil.copytree(path, copy)
        with PredictiveAssociativeIndex.open(copy) as index:
            assert acknowledged <= len(index) <= acknowledged + 5
            assert len(index) % 5 == 0
            assert index.is_fitted or not fitted
            for record in index.find():
                assert record.text == record.id
            if index.is_fitted:
                assert len(index.recall("id0", k=10_000)) == len(index) - 1
                assert {hit.id for hit in index.recall("id0", faithful=True)} == {"id1", "id2", "id3", "id4"}
    assert fitted


def test_the_row_numbers_do_not_show_in_the_answers(planted):
    """Answers do not depend on the numbers of rows: deleted and added again, memories give the same hits."""
    first, second = new_index(planted), new_index(planted)
    second.delete(planted.ids[:100])
    second.add(
        planted.vectors[:100],
        planted.ids[:100],
        [f"text of {id}" for id in planted.ids[:100]],
        [{"number": n, "parity": "odd" if n % 2 else "even"} for n in range(100)],
    )
    assert [(h.id, h.metadata) for h in first.search("m007", k=50)] == [
        (h.id, h.metadata) for h in second.search("m007", k=50)
    ]
