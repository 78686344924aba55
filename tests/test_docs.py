"""Every example and every code block of the docs runs."""

from __future__ import annotations

import doctest
import gc
import inspect
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import langchain_pam
import langgraph_pam
import llama_index_pam
import pam_retriever
import pam_retriever.index
from benchmarks.versions import RAW, linked
from pam_retriever import plots
from pam_retriever.apps.cli import main

ROOT = Path(__file__).parent.parent
NOTES = sorted((ROOT / "benchmarks" / "notes").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *NOTES]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^ *print\(.*\)  # (\[.*\]|'.*'|\d+)$", re.MULTILINE)
LONG = {  # pages whose code takes more than a second
    "docs/guides/does-it-help.md",
    "docs/guides/explore.md",
    "docs/guides/observations.md",
    "docs/how/training.md",
    "docs/reference/engines.md",
    "docs/reference/examples.md",
    "docs/reference/recall-options.md",
    "docs/reference/scaling.md",
    "docs/results/real-data.md",
}
COMMAND = re.compile(r"^(?:    )?pam-retriever (.+)$", re.MULTILINE)
SERVERS = ("mcp", "explore")  # the tests of these commands start them
FITS = re.compile(r"^    pam-retriever fit (\S+)", re.MULTILINE)
EVENT = re.compile(r"^    (\{.+\})$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_the_docstring_examples():
    assert doctest.testmod(pam_retriever.index).failed == 0


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (name(page) in LONG), id=name(page))
        for page in PAGES
        if BLOCK.search(page.read_text())
    ],
)
def test_the_code_of_a_page_runs_and_prints_the_shown_output(page, tmp_path, monkeypatch, capsys):
    code = "\n".join(BLOCK.findall(page.read_text()))
    (tmp_path / "page.py").write_text(code)
    run(tmp_path / "page.py", tmp_path, monkeypatch)
    printed = iter(capsys.readouterr().out.splitlines())
    for said in PRINTED.findall(code):
        assert said.strip("'") in printed, f"{name(page)} does not print {said}, or not in this order"


def test_the_copies_from_other_stores_take_every_vector(tmp_path, monkeypatch):
    """The blocks need other vector stores; stand-ins answer like chromadb 1.5 and qdrant-client 1.20."""
    vectors = np.random.default_rng(0).standard_normal((1500, 384)).astype(np.float32)

    def get(include: list[str], limit: int, offset: int) -> dict[str, list]:
        rows = range(offset, min(offset + limit, 1500))
        assert include == ["embeddings", "documents", "metadatas"]
        page = {"ids": [f"n{row}" for row in rows], "documents": [f"text {row}" for row in rows]}
        return {**page, "embeddings": vectors[rows], "metadatas": [{"n": row} if row % 2 else None for row in rows]}

    def scroll(
        name: str, limit: int, offset: int | None, with_vectors: bool
    ) -> tuple[list[SimpleNamespace], int | None]:
        first = offset or 0
        rows = range(first, min(first + limit, 1500))
        points = [SimpleNamespace(id=n, vector=vectors[n].tolist(), payload={"text": f"text {n}"}) for n in rows]
        return points, rows.stop if rows.stop < 1500 else None

    collection = SimpleNamespace(count=lambda: 1500, get=get)
    client = SimpleNamespace(get_collection=lambda name: collection)
    monkeypatch.setitem(sys.modules, "chromadb", SimpleNamespace(PersistentClient=lambda folder: client))
    qdrant = SimpleNamespace(QdrantClient=lambda address: SimpleNamespace(scroll=scroll))
    monkeypatch.setitem(sys.modules, "qdrant_client", qdrant)
    page = ROOT / "docs" / "guides" / "copy-vectors.md"
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join([*BLOCK.findall(page.read_text()), *blocks]))
    run(tmp_path / "page.py", tmp_path, monkeypatch)
    for folder, id in {"from-chroma": "n1234", "from-qdrant": "1234"}.items():
        with pam_retriever.PredictiveAssociativeIndex.open(tmp_path / folder) as copy:
            assert len(copy) == 1500
            assert copy.search(vectors[1234], k=1)[0].id == id
            assert copy.get([id])[0].text == "text 1234"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if FITS.search(page.read_text())], ids=name)
def test_the_commands_of_a_page_run_on_what_its_code_made(page, tmp_path, monkeypatch, capsys):
    text = page.read_text()
    (tmp_path / "page.py").write_text("\n".join(BLOCK.findall(text)))
    run(tmp_path / "page.py", tmp_path, monkeypatch)
    (tmp_path / FITS.search(text)[1]).with_suffix(".jsonl").write_text("\n".join(EVENT.findall(text)))
    assert run_commands(text, capsys) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("page", ["guides/code-memory.md", "guides/explore.md", "reference/guarantees.md"])
def test_the_commands_of_a_page_run_on_a_repository_or_an_index(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pam_retriever.PredictiveAssociativeIndex.open("my-index", embedder="default") as index:
        index.append("2 May", text="Ann: The cellar stairs were wet again this morning.")
        index.append("2 May", text="Ben: Who mended the tap?")
    repository = tmp_path / "path" / "to" / "repository"
    (repository / "src" / "net").mkdir(parents=True)
    git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@example"]
    subprocess.run([*git, "init", "-q"], check=True)
    for version in range(3):
        for file in ("wire.py", "retry.py"):
            (repository / "src" / "net" / file).write_text(f"TRIES = {version}")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", f"Retry when the peer resets the connection, {version}"], check=True)
    assert run_commands((ROOT / "docs" / page).read_text(), capsys) >= 1


def run_commands(page: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Runs the commands of a page, without servers; returns how many ran."""
    commands = [shlex.split(line, comments=True) for line in COMMAND.findall(page)]
    commands = [command for command in commands if command[0] not in SERVERS or "--export" in command]
    for command in commands:
        capsys.readouterr()
        assert main(command) == 0, command
        assert capsys.readouterr().out, f"{command} prints what it did or found"
    return len(commands)


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs(example, tmp_path, monkeypatch):
    run(example, tmp_path, monkeypatch)


def test_links_between_pages_resolve():
    for page in PAGES:
        for target in LINK.findall(page.read_text()):
            path, _, anchor = target.partition("#")
            to = page.parent / path if path else page
            assert to.exists(), f"{name(page)}: {target}"
            assert not anchor or anchor in anchors(to), f"{name(page)}: {target}"


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page: its headings, in the form of GitHub and MkDocs."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def run(script: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a script as a program in a folder, with only its own imports."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    gc.collect()  # closes the indexes that the program left open


def public_names() -> dict[str, list[str]]:
    """Returns the public names of each package that a user imports."""
    packages = (pam_retriever, langchain_pam, llama_index_pam, langgraph_pam)
    names = {package.__name__: [name for name in package.__all__ if name != "__version__"] for package in packages}
    drawn = inspect.getmembers(plots, inspect.isfunction)
    names["pam_retriever.plots"] = [
        name for name, made in drawn if made.__module__ == plots.__name__ and name[0] != "_"
    ]
    return names


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = re.findall(r"^::: (\w+(?:\.plots)?)\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted((place, name) for place, names in public_names().items() for name in names)


def test_every_public_name_and_every_call_of_the_index_is_in_code_that_runs():
    code = "\n".join(block for page in PAGES for block in BLOCK.findall(page.read_text()))
    calls = [f".{name}" for name in dir(pam_retriever.PredictiveAssociativeIndex) if not name.startswith("_")]
    known = [name for names in public_names().values() for name in names]
    missing = [name for name in [*known, *calls] if not re.search(rf"{re.escape(name)}\b", code)]
    assert missing == []


# ---- pages for users


def test_a_page_is_short_and_the_site_has_it():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    for page in (ROOT / "docs").rglob("*.md"):
        assert len(page.read_text().splitlines()) <= 150, name(page)
        assert page.relative_to(ROOT / "docs").as_posix() in nav, f"{name(page)} is not in the nav of mkdocs.yml"


def test_ten_tasks_are_two_clicks_from_the_readme_and_can_be_copied():
    tasks = ROOT / "docs" / "start" / "tasks.md"
    assert tasks.relative_to(ROOT).as_posix() in LINK.findall((ROOT / "README.md").read_text())
    rows = re.findall(r"^\| (?!task)([^|-]+?) \| \[[^]]+\]\(([^)#]+)", tasks.read_text(), re.MULTILINE)
    assert len(rows) >= 10
    for task, target in rows:
        assert BLOCK.search((tasks.parent / target).read_text()), f"nothing to copy for: {task}"


def test_every_raw_result_that_a_page_links_has_a_command_and_a_version_of_the_code():
    listed = (ROOT / "docs" / "results" / "raw.md").read_text()
    for path in linked():
        made = json.loads((ROOT / path).read_text())
        assert made["command"].startswith("python -m benchmarks."), path
        row = re.search(rf"^\| \[{re.escape(path.removeprefix('benchmarks/results/'))}\].*$", listed, re.MULTILINE)
        assert row or made.get("commit"), f"{path} is not in docs/results/raw.md: run python -m benchmarks.versions"
        assert row is None or re.search(r"\| `[0-9a-f]{7,}[^`]*` ?[†‡]? \|$", row[0]), row[0]


def test_a_page_of_results_links_raw_results():
    for page in (ROOT / "docs" / "results").glob("*.md"):
        assert RAW.search(page.read_text()), name(page)
