"""An error names the remedy, not only the problem."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import PAMError, PredictiveAssociativeIndex, evaluate
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
        (lambda folder: dated().recall_next("a"), "Wrap a single step in a list"),
        (lambda folder: dated().recall_next({"text": "a"}), "Wrap a single step in a list"),
        (lambda folder: dated().recall_next(iter(["a"])), "Pass list(...)"),
        (lambda folder: dated().recall("a", decay=1.0), "append(timestamp="),  # add() has timestamps, too
        (lambda folder: dated().recall("a", decay=timedelta(days=7)), "seconds: 604800.0"),
        (lambda folder: dated().prune(1, half_life=timedelta(days=7)), "seconds: 604800.0"),
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


def test_a_time_for_a_folder_without_times_names_the_way_of_the_command_line(tmp_path, capsys):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add([[1, 0]], ["a"])
    assert main(["recall", str(tmp_path / "index"), "--when", "last week"]) == 2
    assert "give each line a time in ISO 8601" in capsys.readouterr().err


def test_one_document_in_the_place_of_events_names_its_folder(tmp_path, capsys):
    (tmp_path / "note.md").write_text("# The stairs")
    assert main(["fit", str(tmp_path / "note.md"), str(tmp_path / "index")]) == 2
    assert "pass their folder" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_and_one_that_is_no_index_differ(tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    for name, problem in {"none": "does not exist", "notes": "holds no manifest.json"}.items():
        assert main(["inspect", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err


def ones(texts: list[str]) -> np.ndarray:
    return np.ones((len(texts), 2))


@pytest.fixture
def stairs(tmp_path) -> str:
    with PredictiveAssociativeIndex.open(tmp_path / "an index", dim=2) as index:
        index.add(np.eye(2), ["stairs", "wrist"], texts=["wet stairs", "a wrist"])
    return str(tmp_path / "an index")


def test_a_path_that_does_not_exist_is_told_with_a_remedy(stairs, tmp_path, capsys):
    for path, command in (
        ("no.jsonl", ["fit", str(tmp_path / "no.jsonl"), str(tmp_path / "new")]),
        ("none/page.html", ["explore", stairs, "--id", "stairs", "--export", str(tmp_path / "none" / "page.html")]),
    ):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert f"{path}: No such file or directory. Expected" in said
        assert "Check its spelling" in said
    assert not (tmp_path / "new").exists()


def test_the_command_line_does_not_speak_of_arguments_in_python(stairs, tmp_path, capsys):
    assert main(["explore", stairs, "--id", "nobody", "--export", str(tmp_path / "page.html")]) == 2
    assert "Got --id nobody, which is not in the index" in capsys.readouterr().err
    assert main(["explore", stairs, "--id", "nobody", "--no-browser"]) == 2
    assert "--id nobody" in capsys.readouterr().err
    assert main(["feedback", stairs, "who slipped?", "--model", "default"]) == 2
    assert "neither --used nor --unused" in capsys.readouterr().err
    with PredictiveAssociativeIndex.open(tmp_path / "other", embedder=ones) as index:
        index.add(texts=["wet stairs"])
    assert main(["search", str(tmp_path / "other"), "stairs", "--model", "default"]) == 2
    said = capsys.readouterr().err
    assert "or --same-embedder if" in said
    assert "same_embedder=True" not in said


def test_an_index_that_was_never_fitted_is_told_the_command(stairs, capsys):
    """The advice was to call fit(trajectories), which a command line cannot."""
    for arguments in (["--mode", "specific"], ["--mode", "association"], ["--hops", "2"]):
        assert main(["recall", stairs, "--id", "stairs", *arguments]) == 2
        said = capsys.readouterr().err
        assert f"pam-retriever fit EVENTS.jsonl '{stairs}'" in said
        assert "fit(" not in said
        assert "search()" not in said


def test_an_argument_of_python_is_renamed_in_the_advice_alone(tmp_path, capsys):
    """A value that looks like it stays as it was given."""
    folder = tmp_path / "same_embedder=True"
    with PredictiveAssociativeIndex.open(folder, embedder=ones) as index:
        index.add(texts=["wet stairs"])
    assert main(["search", str(folder), "stairs", "--tenant", "same_embedder=True"]) == 2
    assert "no tenant 'same_embedder=True'" in capsys.readouterr().err


def test_a_folder_of_another_store_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"of another store")
    with pytest.raises(PAMError, match="new or empty"):
        PredictiveAssociativeIndex.open(tmp_path, dim=2)
    assert [file.name for file in tmp_path.iterdir()] == ["chroma.sqlite3"]


class Row:
    """A stand-in for a hit, a record or a document: an object with an id."""

    id = "a"


class Frame:
    """A stand-in for a table of pandas, which yields the names of its columns."""

    def __iter__(self) -> Iterator[str]:
        return iter(["speaker"])

    def to_dict(self, orient: str) -> list[dict[str, str]]:
        return [{"speaker": "Ann"}]


class NoTime(datetime):
    """A stand-in for NaT of pandas, which is a datetime without a time."""

    def timestamp(self) -> float:
        raise ValueError("NaTType does not support timestamp")

    def astimezone(self, tz: object = None) -> NoTime:
        raise ValueError("NaTType does not support astimezone")

    def replace(self, *args: object, **kwargs: object) -> NoTime:
        return self


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda index: index.feedback([1, 0], [Row()]), "Pass its .id"),
        (lambda index: index.recall(Row()), "Pass its .id"),
        (lambda index: index.recall(7), "str(id)"),
        (lambda index: index.add(iter([[1, 0]]), ["c"]), "list(...)"),
        (lambda index: index.add([[1, 0], [1]], ["c", "d"]), "rows of the same length"),
        (lambda index: index.append("today", "a text"), "text='...'"),
        (lambda index: index.append("today", [1, 0], metadata="Ann"), "{'key': value}"),
        (lambda index: index.add([[1, 0]], ["c"], metadatas=Frame()), "to_dict('records')"),
        (lambda index: index.add([[1, 0]], ["c"], timestamps=["2026-05-02"]), "datetime.fromisoformat"),
        (lambda index: index.add([[1, 0]], ["c"], timestamps=[NoTime(2026, 5, 2)]), "None"),
        (lambda index: index.recall(when=NoTime(2026, 5, 2)), "Pass None if"),
        (lambda index: index.recall("a", when=(NoTime(2026, 5, 2), None)), "Pass None if"),
        (lambda index: index.observe([["a", "b"], ["b", "a"]]), "observe_many"),
        (lambda index: index.observe({"a", "b"}), "order"),
        (lambda index: evaluate(index, ["What happened?"], [["a"]]), "recall=lambda"),
    ],
)
def test_typical_mistakes_are_told_their_own_remedy(call, remedy):
    index = dated()
    before = repr(index)
    with pytest.raises(PAMError) as raised:
        call(index)
    assert remedy in str(raised.value)
    assert repr(index) == before


def test_an_empty_name_is_not_to_be_turned_into_a_string(tmp_path):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=2)
    for call in (lambda: index.tenant(""), lambda: index.add([[1, 0]], [""])):
        with pytest.raises(PAMError, match=r"''.*Give it a name"):
            call()
    index.close()


def test_the_embedder_of_another_script_is_told_a_name_that_both_can_have(tmp_path, monkeypatch):
    monkeypatch.setattr(ones, "__module__", "__main__")  # the script that filled the index
    PredictiveAssociativeIndex.open(tmp_path / "index", embedder=ones).add(texts=["wet stairs"])
    monkeypatch.undo()
    with pytest.raises(PAMError, match=r"__main__.*same_embedder=True.*model_name"):
        PredictiveAssociativeIndex.open(tmp_path / "index", embedder=ones, read_only=True)


def test_a_step_that_is_too_early_is_told_as_a_date():
    index = PredictiveAssociativeIndex(dim=2)
    index.append("today", [1, 0], timestamp=datetime(2026, 5, 2))
    with pytest.raises(PAMError, match=r"2026-05-01 00:00:00.* earlier than 2026-05-02 00:00:00"):
        index.append("today", [0, 1], timestamp=datetime(2026, 5, 1))
    with pytest.raises(PAMError, match="numbers"):
        index.append("today", [0, 1], timestamp=5.0)
