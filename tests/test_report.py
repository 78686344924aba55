"""What a result says of the command that made it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks import report


def test_a_command_names_no_place_of_the_machine(tmp_path, monkeypatch):
    beside = Path(report.__file__).resolve().parents[2] / "shared" / "data"
    monkeypatch.setattr(sys, "argv", ["run", str(beside), "/somewhere/else/python", "--count", "3", "data/here"])
    command = json.loads(report.write("made", {}, tmp_path).read_text())["command"]
    assert command.endswith(" ../shared/data python --count 3 data/here")
