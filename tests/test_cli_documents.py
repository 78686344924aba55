"""``pam-retriever fit FOLDER INDEX`` stores the documents of a folder; a later run stores what has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps import documents
from pam_retriever.apps.cli import main

NOTES = {
    "canteen.md": "# Canteen\n\nThe canteen on the second floor is run by Mara Holt.\n\n## Hours\n\nFrom noon to two.",
    "people/mara-holt.md": "# Mara Holt\n\nShe trained as a cook in Lyon.",
    "garden.txt": "The garden opens at nine. Dogs stay outside.",
    "page.html": "<h1>Parking</h1><p>Visitors park behind the gate.</p>",
    "rules.rst": "Rules\n=====\n\nNo smoking.\n",
}


def write(folder: Path, notes: dict[str, str]) -> Path:
    for name, text in notes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def texts(index: Path) -> dict[str, str | None]:
    with PredictiveAssociativeIndex.load(index) as loaded:
        return {record.id: record.text for record in loaded.find()}


def orders(index: Path) -> dict[str, list[str | None]]:
    with PredictiveAssociativeIndex.load(index) as loaded:
        return {one.id: [id for id in one.ids if id] for one in loaded.trajectories()}


def test_a_folder_is_asked_and_follows_its_files(tmp_path, capsys):
    notes, index = write(tmp_path / "notes", NOTES), tmp_path / "index"
    assert main(["fit", str(notes), str(index)]) == 0
    said = capsys.readouterr().out
    assert "5 files: 5 new, 0 changed, 0 as they were, 0 gone; 6 passages" in said
    assert "nothing to train" in said  # or "not fitted" seems to be a failure
    assert set(texts(index)) == {
        "notes/canteen.md#canteen",
        "notes/canteen.md#hours",
        "notes/people/mara-holt.md#mara-holt",
        "notes/garden.txt",
        "notes/page.html#parking",
        "notes/rules.rst#rules",
    }
    assert orders(index) == {"notes/canteen.md": ["notes/canteen.md#canteen", "notes/canteen.md#hours"]}
    assert main(["recall", str(index), "Who runs the canteen, and where did that person train?", "-k", "2"]) == 0
    said = capsys.readouterr().out
    assert "mara-holt" in said
    assert 'names "Mara Holt"' in said  # the reason, as hit.mentions in Python

    assert main(["fit", str(notes), str(index)]) == 0
    assert "0 new, 0 changed, 5 as they were, 0 gone; 0 passages" in capsys.readouterr().out

    write(notes, {"canteen.md": "# Canteen\n\nIt is closed.\n\n## Summer\n\nBack in May.\n\n## Hours\n\nNone."})
    (notes / "rules.rst").unlink()
    moved = notes.rename(tmp_path / "elsewhere")
    assert main(["fit", str(moved), str(index), "--name", "notes"]) == 0
    assert "4 files: 0 new, 1 changed, 3 as they were, 1 gone; 3 passages" in capsys.readouterr().out
    canteen = [f"notes/canteen.md#{heading}" for heading in ("canteen", "summer", "hours")]
    assert orders(index) == {"notes/canteen.md": canteen}
    assert texts(index)["notes/canteen.md#canteen"] == "# Canteen\n\nIt is closed."
    assert "notes/rules.rst#rules" not in texts(index)


def test_what_a_long_file_says_at_its_end_is_found(tmp_path, capsys):
    """A model embeds only the beginning of a long text."""
    minutes = "The minutes of this meeting are on a shelf of the archive. "
    notes = write(tmp_path / "notes", {**NOTES, "archive.txt": f"{minutes * 50}\n\nPuppies must stay at home."})
    index = tmp_path / "index"
    assert main(["fit", str(notes), str(index)]) == 0
    assert main(["recall", str(index), "young dogs in the archive", "-k", "1"]) == 0
    assert "notes/archive.txt~4" in capsys.readouterr().out
    assert texts(index)["notes/archive.txt~4"].endswith("Puppies must stay at home.")


def test_files_without_text_are_not_new_each_time(tmp_path, capsys):
    notes, index = (
        write(tmp_path / "notes", {"garden.txt": "It opens at nine.", "a.txt": " ", "b.md": ""}),
        tmp_path / "index",
    )
    assert main(["fit", str(notes), str(index)]) == 0
    assert "1 file: 1 new" in capsys.readouterr().out
    assert main(["fit", str(notes), str(index)]) == 0
    assert "1 file: 0 new, 0 changed, 1 as they were" in capsys.readouterr().out
    write(notes, {"garden.txt": ""})
    assert main(["fit", str(notes), str(index)]) == 0
    assert "0 new, 1 changed" in capsys.readouterr().out
    assert not texts(index)


def test_another_folder_of_the_same_name_replaces_nothing(tmp_path, capsys):
    first, second = write(tmp_path / "a" / "notes", NOTES), write(tmp_path / "b" / "notes", {"canteen.md": "# Other"})
    index = tmp_path / "index"
    assert main(["fit", str(first), str(index)]) == 0
    before = texts(index)
    assert main(["fit", str(second), str(index)]) == 2
    assert "Pass --name for another folder" in capsys.readouterr().err
    assert texts(index) == before
    assert main(["fit", str(second), str(index), "--name", "others"]) == 0
    assert texts(index) == {**before, "others/canteen.md#other": "# Other"}


def test_arguments_without_effect_are_refused(tmp_path, capsys):
    notes, index = write(tmp_path / "notes", NOTES), tmp_path / "index"
    for options in (["--window", "3"], ["--text-field", "body"], ["--time-budget", "5"]):
        assert main(["fit", str(notes), str(index), *options]) == 2
        assert f"Got {options[0]} with the folder" in capsys.readouterr().err
    (tmp_path / "events.jsonl").write_text('{"vector": [1, 2], "session": "a", "time": 1}\n')
    assert main(["fit", str(tmp_path / "events.jsonl"), str(index), "--name", "x"]) == 2
    assert "Got --name with the file" in capsys.readouterr().err
    assert not index.exists()


def test_an_interrupted_run_continues(tmp_path, monkeypatch):
    notes = write(tmp_path / "notes", NOTES)
    monkeypatch.setattr(documents, "AT_ONCE", 1)
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder="default") as index:
        observe_many = index.observe_many

        def interrupted(trajectories):
            if trajectories:
                raise KeyboardInterrupt
            return observe_many(trajectories)

        monkeypatch.setattr(index, "observe_many", interrupted)
        with pytest.raises(KeyboardInterrupt):
            documents.store_folder(index, notes)
        monkeypatch.setattr(index, "observe_many", observe_many)
        counts = documents.store_folder(index, notes)
        # the interrupted run had stored a part of canteen.md
        assert (counts.new, counts.changed, counts.same) == (4, 1, 0)
        assert [one.id for one in index.trajectories()] == ["notes/canteen.md"]
        assert documents.store_folder(index, notes).same == 5


def test_a_tenant_has_a_folder_of_its_own(tmp_path):
    notes, index = write(tmp_path / "notes", {"a.txt": "one"}), tmp_path / "index"
    assert main(["fit", str(notes), str(index), "--tenant", "ann"]) == 0
    with PredictiveAssociativeIndex.load(index) as loaded:
        assert (len(loaded), len(loaded.tenant("ann"))) == (0, 1)


def test_a_folder_without_documents_is_refused(tmp_path, capsys):
    write(tmp_path / "notes", {"picture.png": "", "people/.hidden.md": "hidden"})
    assert main(["fit", str(tmp_path / "notes"), str(tmp_path / "index")]) == 2
    assert "has no documents. Expected files that end in .md, " in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_files_that_cannot_be_read_are_named_before_anything_is_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(documents, "AT_ONCE", 1)
    notes, index = write(tmp_path / "notes", NOTES), tmp_path / "index"
    for name in ("latin.txt", "rules.rst"):
        (notes / name).write_bytes("Grüße".encode("latin-1"))
    assert main(["fit", str(notes), str(index)]) == 2
    said = capsys.readouterr().err
    assert "latin.txt is no UTF-8" in said
    assert "rules.rst" in said
    assert "Convert" in said
    assert not index.exists()
