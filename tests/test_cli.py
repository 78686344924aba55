"""The command line on a real file, with a real embedder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps import demo
from pam_retriever.apps.cli import _parser, main

SESSIONS = {
    "monday": [
        "The stairs to the cellar were damp this morning.",
        "I slipped and bruised my elbow.",
        "The chemist sold me an ointment.",
    ],
    "tuesday": [
        "The cordless drill was flat again.",
        "A screw broke off in the shelf.",
        "I borrowed pliers from the neighbour.",
    ],
    "wednesday": [
        "We took the early train to the coast.",
        "My sunscreen leaked into the bag.",
        "The library book is ruined.",
    ],
}


@pytest.fixture(scope="module")
def model() -> str:
    return "default"


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.jsonl"
    lines = [
        {"id": f"{day}-{at}", "text": text, "session": day, "time": at, "place": "home"}
        for day, texts in SESSIONS.items()
        for at, text in reversed(list(enumerate(texts)))  # the lines are not in the order of their times
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    return path


def test_fit_recall_search_inspect(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    assert main(["fit", str(events), folder, "--model", model, "--window", "1"]) == 0
    assert "3 trajectories" in capsys.readouterr().out
    question = "My elbow is bruised because I slipped."
    assert main(["recall", folder, question, "-k", "4", "--json", "--mode", "association"]) == 0
    hits = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"monday-0", "monday-2"} <= {hit["id"] for hit in hits[:3]}
    assert hits[0]["metadata"] == {"session": "monday", "time": hits[0]["metadata"]["time"], "place": "home"}
    assert main(["search", folder, question, "-k", "1"]) == 0
    assert "monday-1" in capsys.readouterr().out
    assert main(["recall", folder, "--id", "monday-0", "-k", "1", "--mode", "association"]) == 0
    assert "experienced +1 step from 'monday-0'" in capsys.readouterr().out
    late = ["recall", folder, "--id", "monday-0", "--faithful", "--where", '{"time": {"$gt": 1}}']
    assert main(late) == 2  # the filter excludes the query as well
    assert "cue" in capsys.readouterr().err
    assert main([*late, "--cue-where", "{}"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["inspect", folder]) == 0
    assert "9 memories" in capsys.readouterr().out


def test_events_with_vectors_need_no_embedder(tmp_path, capsys):
    path, folder = tmp_path / "events.jsonl", tmp_path / "index"
    lines = [{"vector": [at, 1, at % 3], "trip": at // 4, "step": at % 4} for at in range(12)]
    path.write_text("\n".join(map(json.dumps, lines)))
    arguments = ["fit", str(path), str(folder), "--session-field", "trip", "--time-field", "step"]
    assert main(arguments) == 0
    assert main(arguments) == 0  # a second run replaces the same events
    with PredictiveAssociativeIndex.open(folder) as index:
        assert len(index) == 12
        first = index.find(limit=1)[0].id
    assert main(["recall", str(folder), "--id", first, "-k", "2"]) == 0
    capsys.readouterr()
    assert main(["recall", str(folder), "a text"]) == 2
    assert "--id" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [("--window", "0"), ("--window", "9999"), ("--config", "fastest"), ("--time-budget", "-1"), ("--seed", "-1")],
)
def test_a_bad_option_of_the_training_is_refused_before_anything_is_stored(tmp_path, capsys, option):
    path = tmp_path / "events.jsonl"
    path.write_text('{"vector": [1, 2], "session": 1}\n')
    assert main(["fit", str(path), str(tmp_path / "index"), *option]) == 2
    assert option[0].strip("-").replace("-", "_") in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "events.jsonl:2 is no event"),
        ("[1]", "a list"),
        ('{"session": 1}', "neither 'text' nor 'vector'"),
        ('{"vector": [1, 2]}', "no 'session'"),
        ('{"vector": [1, 2, 3], "session": 1}', "shape"),
        ('{"vector": [1, NaN], "session": 1}', "NaN"),
        ('{"vector": [1, "2"], "session": 1}', "a list of numbers"),
        ('{"text": "word", "session": 1}', "Some events have a vector"),
        ("[" * 100_000, "no event"),
        ('{"vector": [1, 2], "used": "a"}', "events.jsonl:2 has used='a'"),
        ('{"vector": [1, 2], "used": ["a"], "unused": [1]}', "events.jsonl:2 has unused=[1]"),
        ('{"vector": [1, 2], "used": []}', "events.jsonl:2, which used nothing"),
        ('{"vector": [1, 2], "used": null}', "events.jsonl:2, which used nothing"),
        ('{"vector": [1, 2], "used": {"a": 0}}', "weight 0 of 'a' in used of events.jsonl:2"),
        ('{"vector": [1, 2], "used": {"a": true}}', "weight True of 'a' in used of events.jsonl:2"),
        ('{"vector": [1, 2], "used": ["a"], "unused": ["a"]}', "in used and in unused of events.jsonl:2"),
        ('{"vector": [1, 2], "used": ["a", ""]}', "used of events.jsonl:2"),
        ('{"vector": [1, "x"], "used": ["a"]}', "events.jsonl:2 cannot be read"),
        ('{"vector": [1, 2], "used": ["a"], "time": "noon"}', "events.jsonl:2 cannot be read"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_stored(tmp_path, capsys, line, message):
    path = tmp_path / "events.jsonl"
    path.write_text('{"vector": [1, 2], "session": 1}\n' + line)
    assert main(["fit", str(path), str(tmp_path / "index")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_lines_with_used_are_feedback(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    asked = [
        {"id": "r", "text": "Who sells ointment?", "used": ["monday-2"], "time": "2023-05-08T10:00:00Z", "user": "ann"},
        {"text": "Is the drill flat?", "used": {"tuesday-0": 2}, "unused": ["monday-0"]},
    ]
    events.write_text(json.dumps(asked[0]) + "\n" + events.read_text() + json.dumps(asked[1]) + "\n")
    # a request may name an event of a later line
    assert main(["fit", str(events), folder, "--model", model, "--window", "1"]) == 0
    assert "3 trajectories" in capsys.readouterr().out
    with PredictiveAssociativeIndex.open(folder) as index:
        one, other = index.feedbacks()
        assert len(index) == 9
    assert (one.id, one.text, one.used, one.metadata["user"]) == ("r", asked[0]["text"], {"monday-2": 1.0}, "ann")
    assert one.timestamp == 1683540000.0
    assert (other.text, other.used, other.timestamp) == (asked[1]["text"], {"tuesday-0": 2.0, "monday-0": -1.0}, None)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({**asked[0], "used": ["monday-1"]}))
    assert main(["fit", str(more), folder, "--model", model, "--window", "1"]) == 0  # a file that has only requests
    with PredictiveAssociativeIndex.open(folder) as index:
        assert [(one.id, one.used) for one in index.feedbacks()][-1] == ("r", {"monday-1": 1.0})
    capsys.readouterr()
    assert main(["fit", str(more), str(tmp_path / "other")]) == 2
    assert "only requests" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_memories_without_sessions_and_requests_for_them(tmp_path, capsys):
    path, folder = tmp_path / "tools.jsonl", str(tmp_path / "index")
    tools = [{"id": f"t{at}", "vector": [at == n for n in range(6)]} for at in range(6)]
    asked = [{"vector": [1, 1 + at / 100, 1, 1, 1, 1], "used": ["t5"]} for at in range(30)]
    path.write_text("\n".join(map(json.dumps, [*asked, *tools])))
    assert main(["fit", str(path), folder, "--session-field", ""]) == 0
    assert "30 requests" in capsys.readouterr().out
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.recall([1.0, 1.1, 1, 1, 1, 1], 1).ids == ["t5"]


def test_feedback_of_one_question(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    assert main(["fit", str(events), folder, "--model", model, "--window", "1"]) == 0
    question = "What did the weather do to my book?"
    for day, user in (("tuesday-2", "ann"), ("monday-2", "ben")):
        who = ["--metadata", json.dumps({"user": user})]
        assert main(["feedback", folder, question, "--used", day, "--unused", "wednesday-2", *who]) == 0
    capsys.readouterr()
    assert main(["recall", folder, question, "-k", "1", "--feedback-where", '{"user": "ann"}']) == 0
    assert "tuesday-2" in capsys.readouterr().out
    with PredictiveAssociativeIndex.open(folder) as index:
        assert [one.used for one in index.feedbacks({"user": "ben"})] == [{"monday-2": 1.0, "wednesday-2": -1.0}]
    assert main(["feedback", folder, question, "--used", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert main(["feedback", folder, question]) == 2
    assert "neither --used nor --unused" in capsys.readouterr().err
    assert main(["feedback", str(tmp_path / "none"), question, "--used", "a"]) == 2
    assert not (tmp_path / "none").exists()


def test_tenants(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    of_bob = [{"id": f"b{n}", "text": text, "session": "s"} for n, text in enumerate(["I slipped.", "I fell."])]
    (tmp_path / "bob.jsonl").write_text("\n".join(map(json.dumps, of_bob)))
    for path, name in ((events, "ann"), (tmp_path / "bob.jsonl", "bob")):
        assert main(["fit", str(path), folder, "--model", model, "--tenant", name]) == 0
    capsys.readouterr()
    for name, expected in (("ann", "monday-1"), ("bob", "b0")):
        assert main(["search", folder, "I slipped.", "-k", "1", "--json", "--tenant", name]) == 0
        assert json.loads(capsys.readouterr().out)["id"] == expected
    assert main(["feedback", folder, "Where is the tube?", "--used", "monday-2", "--tenant", "ann"]) == 0
    assert main(["recall", folder, "Where is the tube?", "-k", "1", "--tenant", "ann"]) == 0
    assert "monday-2" in capsys.readouterr().out
    for command, *more in (["search"], ["recall"], ["feedback", "--used", "b0"], ["explore", "--no-browser"]):
        assert main([command, folder, "I slipped.", *more]) == 2
        assert "no memories outside its 2 tenants. Expected --tenant NAME" in capsys.readouterr().err
    assert main(["inspect", folder]) == 0
    shown = capsys.readouterr().out
    assert "tenants: 2, 'ann', 'bob'" in shown
    assert "given vectors" not in shown
    assert main(["inspect", folder, "--tenant", "ann"]) == 0
    assert "9 memories" in capsys.readouterr().out
    for name, message in (("eve", "no tenant 'eve'"), ("", "Got the tenant ''. Expected the name of a tenant")):
        assert main(["recall", folder, "I slipped.", "--tenant", name]) == 2
        assert message in capsys.readouterr().err


def test_a_question_to_an_index_without_memories_says_so(tmp_path, capsys):
    folder = str(tmp_path / "index")
    PredictiveAssociativeIndex.open(folder, dim=3).close()
    assert main(["recall", folder, "I slipped."]) == 2
    assert "has no memories" in capsys.readouterr().err


def test_an_option_is_not_read_as_another_that_begins_so(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    assert main(["fit", str(events), folder, "--model", model]) == 0
    with pytest.raises(SystemExit):
        main(["search", folder, "I slipped.", "--mode", "association"])  # which began --model
    assert "unrecognized arguments: --mode" in capsys.readouterr().err


def test_an_empty_question_and_an_unknown_id_are_refused(events, model, tmp_path, capsys):
    folder = str(tmp_path / "index")
    assert main(["fit", str(events), folder, "--model", model]) == 0
    to_file = ["explore", "--export", str(tmp_path / "page.html")]
    for command, *more in (["recall"], ["search"], ["feedback", "--used", "monday-1"], to_file):
        for empty in ("", " "):
            assert main([command, folder, empty, *more]) == 2
            assert "empty text" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()
    with PredictiveAssociativeIndex.load(folder) as index:
        assert index.feedbacks() == []
    for command in ("recall", "search"):
        assert main([command, folder, "--id", "nobody"]) == 2
        said = capsys.readouterr().err
        assert "--id nobody" in said
        assert "text=" not in said  # an argument in Python


@pytest.mark.parametrize("options", [["-k", "3"], ["--json"], ["--tenant", "ann", "--where", "{}"]])
def test_options_may_stand_before_or_after_the_question(options):
    for arguments in (["notes", *options, "wet stairs"], ["notes", "wet stairs", *options]):
        parsed = _parser().parse_args(["recall", *arguments])
        assert (str(parsed.index), parsed.query) == ("notes", "wet stairs")
    parsed = _parser().parse_args(["git", "my-code", "--revision", "main", "memory of it"])
    assert parsed.index == Path("memory of it")


@pytest.mark.parametrize("more", [["another"], ["--mod", "x"], ["--mod"]])
def test_what_follows_the_question_is_refused(more, capsys):
    with pytest.raises(SystemExit):
        main(["search", "notes", "-k", "3", "wet stairs", *more])
    assert "unrecognized arguments" in capsys.readouterr().err


def test_an_unknown_option_is_no_question(capsys):
    with pytest.raises(SystemExit):
        main(["search", "notes", "--mod"])
    assert "unrecognized arguments: --mod" in capsys.readouterr().err


def test_every_option_is_explained():
    commands = next(action for action in _parser()._actions if isinstance(action.choices, dict)).choices
    assert len(commands) >= 11
    missing = {(name, one.dest) for name, command in commands.items() for one in command._actions if not one.help}
    assert not missing


def test_missing_files_are_named(tmp_path, capsys):
    assert main(["fit", str(tmp_path / "no.jsonl"), str(tmp_path / "index")]) == 2
    assert "no.jsonl" in capsys.readouterr().err
    (tmp_path / "empty.jsonl").write_text("\n")
    assert main(["fit", str(tmp_path / "empty.jsonl"), str(tmp_path / "index")]) == 2
    assert "no events" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 2
    assert "manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["0", "-3"])
def test_a_demo_of_nothing_is_refused(capsys, wrong):
    assert main(["demo", "--trajectories", wrong]) == 2
    assert f"Got trajectories={wrong}" in capsys.readouterr().err


def test_the_demo_runs(capsys):
    assert main(["demo", "--trajectories", "10"]) == 0
    assert "happened with it" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_shows_what_similarity_misses(capsys):
    figures = demo.run(trajectories=10)
    assert figures["search"] < 0.1
    assert figures["recall"] > 0.9
    assert "steps away" in capsys.readouterr().out


def test_recall_in_a_direction(tmp_path, capsys):
    folder = str(tmp_path / "index")
    with PredictiveAssociativeIndex.open(folder, dim=3) as index:
        index.add(np.eye(3), ["first", "second", "third"])
        index.observe(["first", "second", "third"])
    for way, found in (("after", "third"), ("before", "first")):
        assert main(["recall", folder, "--id", "second", "--direction", way, "--json"]) == 0
        (hit,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert hit["id"] == found
        assert [one["offset"] for one in hit["evidence"]] == [1 if way == "after" else -1]
    with pytest.raises(SystemExit):
        main(["recall", folder, "--id", "second", "--direction", "up"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", '{"user": "ann"'], "is no JSON (Expecting"),
        (["--where", '["ann"]'], "is no JSON object"),
        (["--feedback-where", "ann"], "is no JSON"),
        (["--hops", "2"], "Got --hops 2 with a question in words"),
        (["--hops", "2", "--mode", "hybrid"], "Pass --mode association"),
    ],
)
def test_an_option_that_cannot_be_read_or_would_be_ignored_is_refused(tmp_path, capsys, arguments, message):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add([[1, 0]])
    try:
        code = main(["recall", str(tmp_path / "index"), "stairs", *arguments])
    except SystemExit as left:  # argparse exits itself
        code = left.code
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--model", "default"], ["--same-embedder"]])
def test_a_model_is_refused_where_nothing_is_embedded(tmp_path, capsys, option):
    folder, lines = str(tmp_path / "index"), tmp_path / "vectors.jsonl"
    lines.write_text('{"id": "a", "vector": [1, 0], "session": "s"}\n')
    assert main(["fit", str(lines), folder, *option]) == 2
    assert f"Got {option[0]} with events that have vectors." in capsys.readouterr().err
    assert not (tmp_path / "index").exists()
    assert main(["fit", str(lines), folder]) == 0
    for command, asked in (("search", "--id a"), ("recall", "--id a"), ("recall", "--when 2026-03-01")):
        assert main([command, folder, *asked.split(), *option]) == 2
        assert f"Got {option[0]} with --" in capsys.readouterr().err
    assert main(["recall", folder, "--changed", "a.py", *option]) == 2
    assert f"Got {option[0]} with --changed." in capsys.readouterr().err


def test_queries_do_not_lock_the_folder_and_inspect_names_it(tmp_path, capsys):
    folder = str(tmp_path / "index")
    with PredictiveAssociativeIndex.open(folder, dim=2) as index:
        index.add([[1, 0]], ["it"], texts=["found"])
        assert main(["search", folder, "--id", "it"]) == 0
        assert main(["inspect", folder]) == 0
        index.add([[0, 1]], ["other"])
        assert main(["search", folder, "--id", "it"]) == 0
    out = capsys.readouterr().out
    assert f"read-only, at '{folder}'" in out
    assert "other" in out


@pytest.mark.parametrize(("chosen", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_of_torch_do_not_spin_beside_other_programs(chosen, used, monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "restored after the test")
    if chosen is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == used
