"""Type checkers accept correct uses of the library, and report wrong ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "typing"
ROOT = HERE.parent.parent
# file -> line -> the expected rules
Findings = dict[str, dict[int, set[str]]]

pytestmark = pytest.mark.slow


def mypy() -> Findings:
    command = ["mypy", "--strict", "--no-error-summary", "--hide-error-context", "--output=json"]
    files = [f"tests/typing/{name}.py" for name in ("app", "wrong")]
    done = subprocess.run([sys.executable, "-m", *command, *files], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1 and not done.stderr, done.stdout + done.stderr
    found: Findings = defaultdict(lambda: defaultdict(set))
    for line in done.stdout.splitlines():
        error = json.loads(line)
        if error["severity"] == "error":
            found[Path(error["file"]).name][error["line"]].add(error["code"])
    return found


def pyright() -> Findings:
    command = [sys.executable, "-m", "pyright", "--project", str(HERE), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
    found: Findings = defaultdict(lambda: defaultdict(set))
    for error in json.loads(done.stdout)["generalDiagnostics"]:
        found[Path(error["file"]).name][error["range"]["start"]["line"] + 1].add(error.get("rule", error["message"]))
    return found


@pytest.mark.parametrize(("checker", "which"), [(mypy, 0), (pyright, 1)], ids=["mypy", "pyright"])
def test_what_is_right_passes_and_what_is_wrong_is_named(checker: Callable[[], Findings], which: int):
    expected = {}
    for number, line in enumerate((HERE / "wrong.py").read_text().splitlines(), start=1):
        if marked := re.search(r"# expect: ([\w-]+), (\w+)$", line):
            expected[number] = marked[which + 1]
    found = checker()
    assert not found["app.py"]
    assert found["wrong.py"].keys() == expected.keys()
    assert {line: rule for line, rule in expected.items() if rule not in found["wrong.py"][line]} == {}
