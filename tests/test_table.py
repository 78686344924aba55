"""The table of the command line, on a terminal."""

from __future__ import annotations

import io
import re
import sys

import pytest
from conftest import DIM

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps import table
from pam_retriever.apps.cli import main

WIDTH = 100


class Terminal(io.StringIO):
    """Standard output that a person reads."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def look(monkeypatch):
    """Runs a command in front of a person; returns what is on the screen."""

    def run(*arguments: str) -> str:
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        with monkeypatch.context() as screen:
            screen.setattr(sys, "stdout", Terminal())
            assert main(list(arguments)) == 0
            return sys.stdout.getvalue()

    return run


@pytest.fixture
def folder(fitted, tmp_path):
    fitted.save(tmp_path / "index")
    return str(tmp_path / "index")


def test_a_person_gets_a_table_with_why(folder, look):
    shown = look("recall", folder, "--id", "m005", "-k", "3")
    for words in ("text of m004", "steps in", "100% sure", "■ experience", "\x1b["):
        assert words in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= WIDTH


def test_a_pipe_gets_plain_lines(folder, capsys):
    assert main(["recall", folder, "--id", "m005", "-k", "1"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "experienced" in shown


def test_without_rich_a_person_gets_plain_lines(folder, look, monkeypatch):
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    shown = look("recall", folder, "--id", "m005", "-k", "1")
    assert "\x1b" not in shown
    assert "experienced" in shown


def test_nothing_in_a_text_acts_on_the_terminal(planted, look, tmp_path):
    index = PredictiveAssociativeIndex(dim=DIM)
    hostile = "\x1b]0;taken\x07[bold red]no markup[/] \x1b[2J\u202e"
    index.add(planted.vectors[:2], ["cue", hostile], texts=["cue", hostile])
    index.save(tmp_path / "index")
    shown = look("search", str(tmp_path / "index"), "--id", "cue")
    assert "no markup" in shown
    for wrong in ("\x1b]0;", "\x1b[2J", "\x07", "\u202e"):
        assert wrong not in shown
    assert "[bold red]" in shown
