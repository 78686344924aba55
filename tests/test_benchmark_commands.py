"""Every runnable benchmark has ``--help``; one process checks all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks" / "notes").glob("*.md")]


def programs() -> list[str]:
    """Returns the modules that ``python -m`` can run."""
    found = []
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        if path.name == "__main__.py" or re.search(r'^if __name__ == "__main__":', path.read_text(), re.MULTILINE):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__main__" else parts))
    return found


ASK_ALL = """
import contextlib, io, json, runpy, sys, traceback
answers = {}
for module in json.loads(sys.argv[1]):
    said, sys.argv = io.StringIO(), [module, "--help"]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        answers[module] = "ran, and took no notice of --help"
    except SystemExit as ended:
        answers[module] = said.getvalue() if ended.code == 0 else f"exit {ended.code}"
    except Exception:
        answers[module] = traceback.format_exc()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    command = [sys.executable, "-W", "ignore", "-c", ASK_ALL, json.dumps(programs())]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_every_benchmark_explains_itself(answers):
    assert len(answers) > 30
    assert {name: said for name, said in answers.items() if not said.startswith("usage:")} == {}


@pytest.mark.slow
def test_every_command_of_the_pages_is_there(answers):
    named = {name for page in PAGES for name in re.findall(r"python -m (benchmarks[.\w]+)", page.read_text())}
    assert named <= answers.keys()


def test_too_few_questions_to_tenants_are_refused_in_words():
    command = [sys.executable, "-m", "benchmarks.scaling.tenants", "--questions", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Got --questions 20. Expected at least 100" in done.stderr
