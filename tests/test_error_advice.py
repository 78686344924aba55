"""An error names the remedy, not only the problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam_retriever import PAMError, PredictiveAssociativeIndex
from pam_retriever.apps.cli import main


def dated() -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.eye(2), ["a", "b"], timestamps=[1, 2])
    return index


def a_file(folder: Path) -> Path:
    (folder / "notes.txt").write_text("a note")
    return folder / "notes.txt"


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda folder: dated().add(["a", "b"], texts=["c", "d"]), "ids=["),
        (lambda folder: dated().recall("a", decay=1.0), "append(timestamp="),  # add() has timestamps, too
        (lambda folder: dated().feedback([1, 0], ["c"]), "hits of recall"),
        (lambda folder: PredictiveAssociativeIndex(), 'embedder="default"'),
        (lambda folder: PredictiveAssociativeIndex.open(folder / "new"), "embedder"),
        (lambda folder: PredictiveAssociativeIndex.load(folder / "new"), "open(), save()"),
        (
            lambda folder: PredictiveAssociativeIndex(embedder=lambda text: [1.0, 2.0]).add(texts=["a"]),
            "a list of texts",
        ),
        (lambda folder: PredictiveAssociativeIndex.open(a_file(folder), dim=2), "a folder"),
        (lambda folder: dated().save(a_file(folder)), "a folder"),
        (lambda folder: dated().recall("a", hops=2), "hops=2"),
        (
            lambda folder: PredictiveAssociativeIndex(dim=2, embedder=lambda texts: np.ones((1, 3))).add(texts=["a"]),
            "The vectors of the embedder have shape",
        ),
    ],
)
def test_the_remedy_is_named(call, remedy, tmp_path):
    with pytest.raises(PAMError) as raised:
        call(tmp_path)
    assert remedy in str(raised.value)


def test_a_folder_that_does_not_exist_and_one_that_is_no_index_differ(tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    for name, problem in {"none": "does not exist", "notes": "holds no manifest.json"}.items():
        assert main(["inspect", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err


def test_a_folder_of_another_store_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"of another store")
    with pytest.raises(PAMError, match="new or empty"):
        PredictiveAssociativeIndex.open(tmp_path, dim=2)
    assert [file.name for file in tmp_path.iterdir()] == ["chroma.sqlite3"]
