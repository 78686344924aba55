"""Every example and every code block of the docs runs."""

from __future__ import annotations

import doctest
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import pam_retriever.index

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = sorted({name for page in PAGES for name in re.findall(r"python -m (benchmarks[.\w]+)", page.read_text())})
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_docstring_examples():
    assert doctest.testmod(pam_retriever.index).failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path):
    (tmp_path / "page.py").write_text("\n".join(BLOCK.findall(page.read_text())))
    run([str(tmp_path / "page.py")], tmp_path)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs(example, tmp_path):
    run([str(example)], tmp_path)


@pytest.mark.parametrize("module", COMMANDS)
def test_a_benchmark_of_the_docs_is_there_and_explains_itself(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def run(arguments: list[str], folder: Path) -> None:
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=env, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
