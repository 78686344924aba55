"""Every example and every code block of the docs runs."""

from __future__ import annotations

import doctest
import gc
import re
import runpy
import sys
from pathlib import Path

import pytest

import pam_retriever
import pam_retriever.index

ROOT = Path(__file__).parent.parent
NOTES = sorted((ROOT / "benchmarks" / "notes").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *NOTES]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_docstring_examples():
    assert doctest.testmod(pam_retriever.index).failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    (tmp_path / "page.py").write_text("\n".join(BLOCK.findall(page.read_text())))
    run(tmp_path / "page.py", tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs(example, tmp_path, monkeypatch):
    run(example, tmp_path, monkeypatch)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{name(page)}: {target}"


def run(script: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a script as a program that was started in a folder, with nothing but what it imports itself."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    gc.collect()  # what a program leaves open goes with it


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = re.findall(r"^::: pam_retriever\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(set(pam_retriever.__all__) - {"__version__"})
