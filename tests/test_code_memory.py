"""Code memory: reading a repository, at once or step by step, and queries."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.code.histories import History, git
from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.apps import code
from pam_retriever.apps.cli import main
from pam_retriever.apps.code.learning import FILE, STATE, LearningReport, learn, state_of
from pam_retriever.apps.code.memory import CodeMemory
from pam_retriever.apps.code.repository import Repository
from pam_retriever.apps.code.texts import file_text, message_text, path_words
from pam_retriever.embedding import Embedder

AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")


def embed(texts: list[str]) -> np.ndarray:
    """Returns a bag of hashed words."""
    rows = np.full((len(texts), 64), 1e-3, np.float32)
    for at, text in enumerate(texts):
        for word in path_words(text).split():
            rows[at, sum(word.encode()) * 31 % 64] += 1
    return rows


def fresh() -> PredictiveAssociativeIndex:
    return PredictiveAssociativeIndex(dim=64, embedder=embed)


def update(index: PredictiveAssociativeIndex, folder: Path, revision: str = "HEAD", **options) -> LearningReport:
    return learn(index, Repository(folder), revision, **options)


def contents(index: PredictiveAssociativeIndex) -> dict[str, object]:
    """Returns the contents of the index of a repository, without the ids of its memories."""
    path = {one.id: one.metadata["path"] for one in index.find({"kind": FILE})}
    return {
        "files": {one.metadata["path"]: (one.text, one.metadata["blob"]) for one in index.find({"kind": FILE})},
        "commits": {one.id: (one.text, {path[id] for id in one.used}, one.timestamp) for one in index.feedbacks()},
        "order": [one.id for one in index.feedbacks()],  # recent commits count more
        "together": [(one.id, [path[id] for id in one.ids]) for one in index.trajectories()],  # recent ones count more
        "distances": {one.id: distances(index, one.id) for one in index.trajectories()},
    }


def distances(index: PredictiveAssociativeIndex, trajectory: str) -> list[int]:
    """Returns the distance of each step of a trajectory from the step before."""
    return np.diff([position for position, _ in index._store.database.trajectories.steps_of(trajectory)]).tolist()


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "repository")


def test_a_history_becomes_memories_and_trajectories(history):
    history.commit("Begin", {"a.py": "one\n", "lib/b.py": "two\n" * 9, "gone.py": "x\n"})
    history.commit("Retry on reset\n\nBody.\n\nSigned-off-by: A <a@b>\n", {"a.py": "one!\n", "lib/b.py": "three\n" * 9})
    history.commit("Move b, take gone away", {"gone.py": None}, renames=[("lib/b.py", "lib/c.py")])
    history.commit("Everything", {f"many/{n}": f"{n}\n" for n in range(4)})
    history.commit("Side", {"side.py": "s\n"}, branch="side", start="main")
    history.commit("Merge", {"side.py": "s\n", "merged.py": "m\n"}, merge="side")
    history.write()
    index = fresh()
    report = update(index, history.folder, most_files=3)
    found = contents(index)
    assert set(found["files"]) == {"a.py", "lib/c.py", "side.py", "merged.py", *(f"many/{n}" for n in range(4))}
    said = {text: paths for text, paths, _ in found["commits"].values()}
    assert said == {
        "Begin": {"a.py", "lib/c.py"},
        "Retry on reset\n\nBody.": {"a.py", "lib/c.py"},
        "Move b, take gone away": {"lib/c.py"},
        "Side": {"side.py"},
    }
    assert sorted(sorted(ids) for _, ids in found["together"]) == [["a.py", "lib/c.py"]] * 2
    assert (report.commits, report.giant, report.added) == (4, 1, 8)
    assert index.get(["lib/c.py"])[0].text == "lib/c.py\nlib c py\n" + ("three\n" * 9).rstrip()


def random_history(history: History, random: np.random.Generator, files: dict[str, str], commits: int) -> None:
    """Makes random edits, additions, deletions, renames (also to paths of earlier files), branches and merges."""
    for _ in range(commits):
        changes: dict[str, str | bytes | None] = {}
        renames = []
        for _ in range(int(random.integers(1, 4))):
            path = f"d{random.integers(2)}/f{random.integers(6)}.py"
            stamp = f"{random.integers(10**6)}\n"
            if path in changes or any(path in one for one in renames):
                continue
            if path not in files:
                files[path] = changes[path] = "".join(f"{random.integers(10**6)} line\n" for _ in range(20))
            elif random.random() < 0.2 and len(files) > 1:
                changes[path] = None
                del files[path]
            elif random.random() < 0.3:
                new = f"d{random.integers(2)}/f{random.integers(6)}.py"
                if new not in files and new not in changes:
                    renames.append((path, new))
                    files[new] = files.pop(path)
            else:
                files[path] = changes[path] = files[path] + stamp
        history.commit(f"Change {random.integers(10**6)}", changes, renames)
    if random.random() < 0.5:
        side: dict[str, str | bytes | None] = {"side.py": f"{random.integers(10**6)}\n"}
        history.commit("Aside", side, branch=f"s{history.time}", start="main")
        history.commit("Merge", side, merge=f"s{history.time - 600}")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4, 5))])
def test_incremental_updates_equal_one_update(seed, tmp_path):
    random = np.random.default_rng(seed)
    history, files = History(tmp_path / "r"), dict[str, str]()
    index, relearnt = fresh(), 0
    for _ in range(6):
        random_history(history, random, files, int(random.integers(1, 5)))
        history.write()
        relearnt += bool(update(index, history.folder).forgotten)
    whole = fresh()
    update(whole, history.folder)
    assert contents(index) == contents(whole)
    assert update(index, history.folder).commits == 0


class Killed(Exception):
    """Simulates a kill."""


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize(
    "call", ["add", "delete_trajectory", "observe_many", "delete", "feedback", "delete_feedback", "update"]
)
def test_an_interrupted_run_goes_on(seed, call, tmp_path, monkeypatch):
    """A run that is killed just before or just after a call is completed by the next run."""
    random = np.random.default_rng(seed)
    history, files = History(tmp_path / "r"), dict[str, str]()
    index = fresh()
    for step in range(3):
        random_history(history, random, files, 4)
        history.write()
        original = getattr(PredictiveAssociativeIndex, call)

        def killed(self, *arguments, _original=original, **options):
            if random.random() < 0.5:
                _original(self, *arguments, **options)
            raise Killed

        if step:
            with monkeypatch.context() as patch, pytest.raises(Killed) if call == "add" else _perhaps():
                patch.setattr(PredictiveAssociativeIndex, call, killed)
                update(index, history.folder)
            if random.random() < 0.5:
                random_history(history, random, files, 2)
                history.write()
        update(index, history.folder)
    whole = fresh()
    update(whole, history.folder)
    assert contents(index) == contents(whole)


@pytest.mark.parametrize("call", ["delete_trajectory", "observe_many", "delete"])
def test_a_file_that_a_killed_run_removed_comes_back(history, call, monkeypatch):
    history.commit("Begin", {name: f"{name}\n" * 9 for name in ("a.py", "b.py", "c.py")})
    history.write()
    index = fresh()
    update(index, history.folder)
    history.commit("Without b", {"b.py": None})
    history.write()

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PredictiveAssociativeIndex, call, killed)
        with pytest.raises(Killed):
            update(index, history.folder)
    history.commit("With b again", {"b.py": "other\n"})
    history.write()
    update(index, history.folder)
    whole = fresh()
    update(whole, history.folder)
    assert contents(index) == contents(whole)


def test_a_removed_file_is_no_step_between_two_others(history):
    history.commit("Begin", {name: f"{name}\n" * 9 for name in ("a.py", "b.py", "c.py")})
    history.commit("Both", {name: f"{name}!\n" * 9 for name in ("a.py", "b.py")})
    history.write()
    index = fresh()
    update(index, history.folder)
    history.commit("Without b", {"b.py": None})
    history.write()
    update(index, history.folder)
    assert [hit.evidence[0].offset for hit in index.recall("a.py", mode="association", explain=True)] == [1]
    assert [one.ids for one in index.trajectories()] == [("a.py", "c.py")]


class _perhaps:  # noqa: N801
    """Runs a block that may be killed."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind, error, trace) -> bool:
        return kind is Killed


def test_a_history_that_was_rewritten_is_noticed(history):
    history.commit("Begin", {"a.py": "a\n", "b.py": "b\n"})
    history.commit("Secret", {"a.py": "secret\n"})
    history.write()
    index = fresh()
    update(index, history.folder)
    git(history.folder, "reset", "--hard", "--quiet", "HEAD~1")
    history.commit("Public", {"b.py": "public\n", "c.py": "c\n"})
    history.write()
    report = update(index, history.folder)
    assert report.rewritten
    assert report.forgotten == 1
    whole = fresh()
    update(whole, history.folder)
    assert contents(index) == contents(whole)
    # the known history no longer exists at all
    git(history.folder, "commit", "--quiet", "--amend", "-m", "Amended")
    git(history.folder, "reflog", "expire", "--expire=now", "--all")
    git(history.folder, "gc", "--quiet", "--prune=now")
    assert update(index, history.folder).rewritten
    assert "Amended" in {one.text for one in index.feedbacks()}
    assert "Public" not in {one.text for one in index.feedbacks()}
    other = History(history.folder.parent / "other")
    other.commit("Else", {"x.py": "x\n"})
    other.write()
    with pytest.raises(InvalidInput, match="another INDEX"):
        update(index, other.folder)


def test_another_branch_and_back(history):
    """An update to another branch and back gives the same index as one update to the first branch."""
    history.commit("Begin", {"a.py": "a\n", "old.py": "o\n"})
    history.commit("Old work", {"old.py": "oo\n", "a.py": "aa\n"})
    history.commit("Drop", {"old.py": None}, branch="next", start="main")
    history.write("next")
    index = fresh()
    for branch in ("main", "next", "main"):
        update(index, history.folder, branch)
    whole = fresh()
    update(whole, history.folder, "main")
    assert contents(index) == contents(whole)


def test_commits_that_were_squashed_take_their_renames_along(history):
    """Both branches end with the same files, but only in one of them the first file was moved."""
    history.commit("Begin", {"a.py": "a\n" * 9, "b.py": "b\n"})
    history.commit("Edit", {"a.py": "a\n" * 8 + "x\n", "b.py": "bb\n"})
    history.commit("Move", branch="moved", start="main", renames=[("a.py", "c.py")])
    history.commit("Another a", {"a.py": "another\n"}, branch="moved")
    history.commit("All at once", {"a.py": "another\n", "c.py": "a\n" * 8 + "x\n"}, branch="squashed", start="main")
    history.write("squashed")
    index = fresh()
    for branch in ("moved", "squashed", "moved"):
        update(index, history.folder, branch)
        whole = fresh()
        update(whole, history.folder, branch)
        assert contents(index) == contents(whole)


@pytest.mark.parametrize("name", [b"two\nlines.py", b"caf\xe9.py"])
def test_a_file_that_comes_back_brings_its_history_whatever_its_name(history, name):
    """Git reads paths line by line and as bytes; the index has them as text."""
    for content, beside in ((b"a\n", "old.py"), (None, "old.py"), (b"again\n", "new.py")):
        path = history.folder / os.fsdecode(name)
        path.unlink() if content is None else path.write_bytes(content)
        (history.folder / beside).write_text(f"{content}\n")
        git(history.folder, "add", "--all")
        git(history.folder, *AUTHOR, "commit", "--quiet", "-m", f"Write {content}")
        if content is None:
            index = fresh()
            update(index, history.folder)
    update(index, history.folder)
    whole = fresh()
    update(whole, history.folder)
    assert contents(index) == contents(whole)


def test_a_shallow_clone_does_not_learn_its_boundary(history, tmp_path):
    """A shallow clone does not learn from its oldest commit, which seems to add all files."""
    for n in range(5):
        history.commit(f"Step {n}", {f"{n}.py": f"{n}\n", "all.py": f"{n}\n"})
    history.write()
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "3", f"file://{history.folder}", str(clone)], check=True)
    index = fresh()
    report = update(index, clone)
    assert report.shallow
    assert {one.text for one in index.feedbacks()} == {"Step 3", "Step 4"}
    git(clone, "fetch", "--quiet", "--unshallow")
    assert not update(index, clone).shallow
    assert {one.text for one in index.feedbacks()} == {f"Step {n}" for n in range(5)}


def test_binary_large_and_ignored_files_are_left_out(history):
    strange = 'tab\there "quoted" ünï.py'
    history.commit(
        "Begin",
        {
            "a.py": "a\n", "binary.bin": b"\x00\x01", "large.txt": "x" * 1_000_001, ".gitignore": "*.log\n",
            "forced.log": "log\n", strange: "s\n", "new\nline.py": "n\n", "latin.txt": "é".encode("latin-1"),
            "empty": "",
        },
    )  # fmt: skip
    history.write()
    (history.folder / "link").symlink_to("a.py")
    (history.folder / "untracked.py").write_text("u\n")
    git(history.folder, "add", "link")
    git(history.folder, "commit", "--quiet", "-m", "Link")
    index = fresh()
    update(index, history.folder)
    assert set(contents(index)["files"]) == {"a.py", ".gitignore", strange, "new\nline.py", "latin.txt", "empty"}
    history.commit("Binary now", {"a.py": b"\x00"})
    history.write()
    update(index, history.folder)
    assert "a.py" not in contents(index)["files"]


def test_a_binary_file_does_not_make_an_update_read_the_history_again(history):
    history.commit("Begin", {"a.py": "a\n", "logo.png": b"\x00\x01"})
    history.commit("Change", {"a.py": "b\n"})
    history.write()
    index = fresh()
    update(index, history.folder)
    history.commit("Again", {"a.py": "c\n"})
    history.write()
    assert update(index, history.folder).commits == 1
    history.commit("No longer binary", {"logo.png": "text\n"})  # now the first commit says something about it
    history.write()
    update(index, history.folder)
    at_once = fresh()
    update(at_once, history.folder)
    assert contents(index) == contents(at_once)


def test_a_file_that_is_moved_out_of_what_is_ignored_brings_its_history(history):
    history.commit("Begin", {"a.py": "a\n", "old/b.py": "b\n" * 9, ".gitignore": "old/\n"})
    history.write()
    index = fresh()
    update(index, history.folder)
    history.commit("Move", renames=[("old/b.py", "between.py")])
    history.commit("Move on", {"a.py": "c\n"}, renames=[("between.py", "b.py")])
    history.write()
    update(index, history.folder)
    at_once = fresh()
    update(at_once, history.folder)
    assert contents(index) == contents(at_once)


def test_a_hostile_repository_runs_nothing(history, tmp_path):
    mark = tmp_path / "ran"
    history.commit("Begin", {"a.py": "a\n", ".gitattributes": "*.py diff=evil filter=evil\n"})
    history.commit("--output=x\n\n$(touch y)", {"a.py": "b\n", "--help": "h\n"})
    history.write()
    for name in ("diff.evil.textconv", "diff.evil.command", "filter.evil.smudge", "core.fsmonitor", "core.pager",
                 "log.showSignature", "gpg.program", "diff.external", "core.sshCommand"):  # fmt: skip
        git(history.folder, "config", name, f"touch {mark}" if name != "log.showSignature" else "true")
    index = fresh()
    update(index, history.folder)
    assert set(contents(index)["files"]) == {"a.py", ".gitattributes", "--help"}
    assert not mark.exists()
    with pytest.raises(InvalidInput):
        update(index, history.folder, "--output=x")


def test_the_environment_of_a_hook_does_not_lead_elsewhere(history, tmp_path, monkeypatch):
    """GIT_DIR, which git sets for hooks, does not make an update read another repository."""
    other = History(tmp_path / "other")
    other.commit("Else", {"x.py": "x\n"})
    other.write()
    history.commit("Begin", {"a.py": "a\n"})
    history.write()
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    index = fresh()
    update(index, history.folder)
    assert set(contents(index)["files"]) == {"a.py"}


FILES = {  # the message of the commits of a component -> its files
    "Retry on connection reset": ("net/wire.py", "core/backoff.py"),
    "Invoice has wrong tax": ("billing/sheet.py", "tables/rates.csv"),
    "Login needs two factors": ("door/guard.py", "text/codes.html"),
    "Search ignores accents": ("find/folding.py", "lang/marks.txt"),
}


def planted(history: History) -> CodeMemory:
    """Commits components whose files change together, but share no word with each other or with the messages."""
    history.commit("Parser", {"never/changed_parser.py": "grammar\n"})
    for n in range(6):
        for message, paths in FILES.items():
            history.commit(f"{message} {n}", {path: f"{path}\n{n}\n" for path in paths})
    history.write()
    index = fresh()
    update(index, history.folder)
    return CodeMemory(index, Embedder(embed))


def test_recall_names_files_and_evidence(history):
    memory = planted(history)
    hits = memory.recall("connection reset, retry", k=2)
    assert {hit.path for hit in hits} == {"net/wire.py", "core/backoff.py"}
    assert all(reason.subject.startswith("Retry on connection reset") for hit in hits for reason in hit.reasons)
    assert hits[0].commits == 6
    assert [hit.path for hit in memory.recall("connection reset", k=9, where={"path": "core/backoff.py"})] == [
        "core/backoff.py"
    ]
    together = memory.changed_with(["./billing/sheet.py"], k=1)[0]
    assert (together.path, together.commits) == ("tables/rates.csv", 6)
    assert together.reasons[0].subject == "Invoice has wrong tax 5"
    both = memory.changed_with(["billing/sheet.py", "door/guard.py"], k=2)
    assert {hit.path for hit in both} == {"tables/rates.csv", "text/codes.html"}
    with pytest.raises(InvalidInput, match="such as billing"):
        memory.changed_with(["billing/sheets.py"])
    for wrong in ("", "billing/sheet.py", []):
        with pytest.raises(InvalidInput):
            memory.changed_with(wrong)
    with pytest.raises(InvalidInput):
        memory.recall(" ")
    assert STATE not in {hit.path for hit in memory.recall("git repository files", k=50)}


def test_a_file_that_never_changed_is_found_by_its_words(history):
    assert "never/changed_parser.py" in {hit.path for hit in planted(history).recall("the parser grammar", k=3)}


def test_a_file_that_met_no_other_is_asked_by_the_words_of_its_path_too(history, monkeypatch):
    history.commit("Begin", {f"net/part{at}.py": f"thing {at}\n" for at in range(30)})
    history.commit("Wire", {"net/wire.py": "alpha beta gamma\n"})
    history.commit("Others", {"net/part1.py": "delta\n", "net/part2.py": "epsilon\n"})
    history.commit("Test", {"checks/test_wire.py": "zeta eta theta\n"})
    history.write()
    index = fresh()
    update(index, history.folder, most_files=3)
    memory = CodeMemory(index, Embedder(embed))
    asked = []
    recall = index.recall
    monkeypatch.setattr(
        index, "recall", lambda *a, **options: asked.append(options.get("text")) or recall(*a, **options)
    )
    assert "net/wire.py" in [hit.path for hit in memory.changed_with(["checks/test_wire.py"], k=3)]
    assert asked == [None, "checks test wire py"]
    asked.clear()
    memory.changed_with(["net/part1.py"], k=3)  # this file changed together with another one
    assert asked == [None]


def test_only_a_code_memory_is_asked_and_only_one_is_added_to():
    """An ordinary index is not taken for a code memory, even if it has a memory with the id of the state."""
    index = fresh()
    index.add(ids=["a", STATE], texts=["a note", "no state"])
    assert state_of(index) is None
    with pytest.raises(InvalidInput, match="no code memory"):
        CodeMemory(index, Embedder(embed))


def test_texts():
    licence = "#!/usr/bin/env python\n# Copyright 2020 Somebody\n# All rights.\n\nimport os\n"
    assert file_text("src/HTTPServer_v2.py", licence) == "src/HTTPServer_v2.py\nsrc http server v 2 py\nimport os"
    assert file_text("a", "# a comment\nx\n") == "a\na\n# a comment\nx"
    assert message_text("One\n\nTwo\n\n\n\nChange-Id: 1\nReviewed-by: B\n") == "One\n\nTwo"
    assert len(message_text("x" * 5_000)) == 1_000


def test_observe_many_is_one_transaction():
    index = fresh()
    index.add(ids=list("abc"), texts=["one", "two", "three"])
    assert index.observe_many([["a", "b"], Trajectory(ids=["b", "c"], id="t")]) == [["a", "b"], ["b", "c"]]
    assert index.observe_many([]) == []
    for wrong in ("ab", [["a", "b"], ["a"]], [["a", "b"], ["a", "x"]], {"a": 1}, None):
        with pytest.raises((InvalidInput, KeyError)):
            index.observe_many(wrong)
    assert len(index.trajectories()) == 2


@pytest.mark.slow
def test_worktrees_do_not_replace_each_other_s_index(history, capsys):
    history.commit("Begin", {"a.py": "one\n"})
    history.commit("Beside", {"b.py": "two\n"}, branch="side", start="main")
    history.write()
    beside = history.folder.parent / "beside"
    git(history.folder, "worktree", "add", "--quiet", str(beside), "side")
    for folder, learnt in ((history.folder, 1), (beside, 2), (history.folder, 0), (beside, 0)):
        assert main(["git", str(folder)]) == 0
        assert f"{learnt} commit{'s' * (learnt != 1)} learnt" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_line(history, capsys, monkeypatch):
    planted(history)
    where = str(history.folder)
    assert main(["git", where]) == 0
    assert "25 commits learnt" in capsys.readouterr().out
    index = str(history.folder / ".git" / "pam-retriever")
    assert git(history.folder, "status", "--porcelain") == ""
    assert main(["git", where]) == 0
    assert "0 commits learnt" in capsys.readouterr().out
    assert main(["recall", index, "connection was reset: try again", "-k", "2"]) == 0
    said = capsys.readouterr().out
    assert "net/wire.py" in said
    assert "Retry on connection reset" in said
    assert main(["recall", index, "--changed", "door/guard.py", "-k", "1", "--json"]) == 0
    assert '"path": "text/codes.html"' in capsys.readouterr().out
    for wrong in (
        ["recall", index, "--changed", "nothing.py"],
        ["recall", index, "words", "--changed", "door/guard.py"],
        ["git", where, "--revision", "nowhere"],
        ["git", where, index, "--most-files", "0"],
        ["git", str(history.folder.parent / "none")],
        ["git", str(history.folder.parent)],
    ):
        assert main(wrong) == 2, wrong
    assert "Expected" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(history.folder))
    assert main(["git", where]) == 2
    assert "git" in capsys.readouterr().err


def test_the_command_that_it_names_can_be_copied(history, capsys):
    history.commit("Begin", {"a.py": "one\n"})
    history.write()
    folder = history.folder.parent / "its memory"
    assert main(["git", str(history.folder), str(folder)]) == 0
    said = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Ask: "))
    assert shlex.split(said)[1:5] == ["pam-retriever", "recall", str(folder), "your change in words"]


def test_every_name_that_it_offers_is_there():
    assert [name for name in code.__all__ if not hasattr(code, name)] == []
    assert code.Learnt is code.LearningReport
