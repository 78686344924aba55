"""A benchmark result records its command and the commit of its code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import report


def test_a_command_names_no_path_of_the_machine(tmp_path, monkeypatch):
    beside = Path(report.__file__).resolve().parents[2] / "shared" / "data"
    monkeypatch.setattr(sys, "argv", ["run", str(beside), "/somewhere/else/python", "--count", "3", "data/here"])
    command = json.loads(report.write("made", {}, tmp_path).read_text())["command"]
    assert command.endswith(" ../shared/data python --count 3 data/here")


def test_a_result_names_the_commit_of_its_code(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        return subprocess.run(
            ["git", *settings, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    def named() -> object:
        return json.loads(report.write("made", {}, tmp_path / "results").read_text())["commit"]

    (tmp_path / "benchmarks").mkdir()
    code = tmp_path / "benchmarks" / "report.py"
    code.write_text("figure = 1\n")
    monkeypatch.setattr(report, "__file__", str(code))
    assert named() is None  # a folder that is not a repository
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "One figure")
    head = git("rev-parse", "--short=10", "HEAD").strip()
    assert named() == head
    code.write_text("figure = 2\n")
    assert named() == f"{head} with changes"
