"""The command line prints tables on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import io
import re
import sys
from datetime import datetime, timedelta

import pytest
from conftest import DIM

from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.apps import drawn, table
from pam_retriever.apps.cli import main

WIDTH = 100


class Terminal(io.StringIO):
    """Standard output on a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def look(monkeypatch):
    """Returns a function that runs a command on a terminal and returns its output."""

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


def test_a_terminal_gets_a_table_with_evidence(folder, look):
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


def test_without_rich_a_terminal_gets_plain_lines(folder, look, monkeypatch):
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    shown = look("recall", folder, "--id", "m005", "-k", "1")
    assert "\x1b" not in shown
    assert "experienced" in shown


def test_control_characters_in_texts_are_escaped(planted, look, tmp_path):
    index = PredictiveAssociativeIndex(dim=DIM)
    hostile = "\x1b]0;taken\x07[bold red]no markup[/] \x1b[2J\u202e"
    index.add(planted.vectors[:2], ["cue", hostile], texts=["cue", hostile])
    index.save(tmp_path / "index")
    shown = look("search", str(tmp_path / "index"), "--id", "cue")
    assert "no markup" in shown
    for wrong in ("\x1b]0;", "\x1b[2J", "\x07", "\u202e"):
        assert wrong not in shown
    assert "[bold red]" in shown


# ---- inspect


def bars_of(shown: str, mark: str) -> dict[str, tuple[str, int]]:
    """Returns the number and the length of the bar of each name."""
    found = {}
    for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines():
        if match := re.match(rf" +(.+?) +([\d,]+)(?: +({mark}+))?(?:  .*)?$", line.rstrip()):
            found.setdefault(match[1], (match[2], len(match[3] or "")))
    return found


@pytest.mark.parametrize("rich", [True, False])
def test_a_terminal_gets_sizes_and_sessions_as_bars(planted, look, tmp_path, monkeypatch, rich):
    if not rich:
        monkeypatch.setattr(drawn, "find_spec", lambda name: None)
    index = PredictiveAssociativeIndex(dim=DIM)
    ids = index.add(planted.vectors[:20], [f"m{at}" for at in range(20)])
    start = datetime(2026, 3, 2)
    index.observe(Trajectory(ids=ids[:8], id="long", timestamps=[start + timedelta(days=at) for at in range(8)]))
    index.observe(Trajectory(ids=ids[8:12], id="\x1b[2Jshort"))
    index.save(tmp_path / "index")
    shown = look("inspect", str(tmp_path / "index"))
    assert ("\x1b[" in shown) is rich
    assert "\x1b[2J" not in shown
    bars = bars_of(shown, "█" if rich else "#")
    full = bars["memories"][1]
    assert bars["memories"][0] == "20"
    assert bars["of them experienced"] == ("12", round(full * 0.6))
    assert bars["sessions"] == ("2", full)
    assert bars["long"] == ("8", full)
    assert bars["\\x1b[2Jshort"] == ("4", round(full / 2))
    assert "2026-03-02 00:00 to 2026-03-09 00:00" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(len(line) for line in lines[1:]) <= WIDTH
    assert "fields of all memories" in shown


def test_many_sessions_are_counted_by_their_length(planted, look, tmp_path):
    index = PredictiveAssociativeIndex(dim=DIM)
    ids = index.add(planted.vectors[:20], [f"m{at}" for at in range(20)])
    index.observe_many([ids[:2]] * 11 + [ids[:9]])
    index.save(tmp_path / "index")
    bars = bars_of(look("inspect", str(tmp_path / "index")), "█")
    assert bars["2 to 3 steps"][0] == "11"
    assert bars["4 to 7 steps"] == ("0", 0)
    assert bars["8 to 15 steps"][0] == "1"


def test_an_empty_index_is_drawn(look, tmp_path):
    PredictiveAssociativeIndex(dim=DIM).save(tmp_path / "index")
    assert bars_of(look("inspect", str(tmp_path / "index")), "█")["memories"] == ("0", 0)


def test_a_pipe_gets_the_sessions_line_by_line(folder, capsys):
    assert main(["inspect", folder]) == 0
    shown = capsys.readouterr().out
    assert "sessions: " in shown
    assert "█" not in shown


def test_times_in_milliseconds_are_shown_as_they_are(look, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add([[1, 0], [0, 1]], ["a", "b"])
        index.observe(Trajectory(["a", "b"], timestamps=[1_700_000_000_000, 1_700_000_060_000], id="ms"))
    assert "1700000000000 to 1700000060000" in look("inspect", str(tmp_path / "index"))
