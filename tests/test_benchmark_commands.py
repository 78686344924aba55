"""Every runnable benchmark has ``--help``, which one process checks for all of them, and a small run in a test."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks" / "notes").glob("*.md")]
# how the programs run that no test runs by a command
OTHERWISE = {
    "performance.before_worker": "performance.before",
    "performance.peer_worker": "performance.peers",
    "recall.regimes": "test_recall_benchmarks.py",
    "reliability.compressed_kills": "reliability.short",
    "reliability.faults": "reliability.short",
    "reliability.flips": "reliability.short",
    "reliability.fuzz": "reliability.short",
    "reliability.fuzz_targets": "reliability.fuzz",
    "reliability.kills": "reliability.short",
    "reliability.langgraph_store": "test_langgraph_store.py",
    "reliability.operations": "reliability.short",
    "reliability.shared_kills": "reliability.short",
    "reliability.signals": "test_interrupts.py",
    "reliability.soak": "test_reliability.py",
    "reliability.tenants": "test_tenant_isolation.py",
    "reliability.threads": "reliability.short",
    "scaling.engine_kills": "test_engines_postgres.py",
    "training.capacity": "test_gpu_benchmark.py",
}


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


def commands() -> set[str]:
    """Returns the programs that strings of the tests name, in full or as in the lists of commands."""
    named: set[str] = set()
    for path in set((ROOT / "tests").glob("test_*.py")) - {Path(__file__)}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= set(re.findall(r"\bbenchmarks\.([.\w]+)|^([a-z_]+\.[a-z_]+)(?: |$)", node.value))
    return {name.removesuffix(".__main__") for both in named for name in both}


def test_every_benchmark_has_a_small_run():
    """Every benchmark runs small in a test: by its command, by its function, or within another program."""
    every = {name.removeprefix("benchmarks.") for name in programs()}
    assert every - commands() - OTHERWISE.keys() == set()
    assert OTHERWISE.keys() <= every
    for name, how in OTHERWISE.items():
        in_a_test = how.endswith(".py")
        assert in_a_test or how in every, name
        file = ROOT / "tests" / how if in_a_test else ROOT / "benchmarks" / f"{how.replace('.', '/')}.py"
        assert re.search(rf"\b{name.split('.')[-1]}\b", file.read_text()), name


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
