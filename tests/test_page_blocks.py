"""Blocks of the pages that are no Python: lines to install, changed lines, settings of clients, shown output.

``test_docs.py`` runs the Python code and the commands of the same pages.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest
from test_docs import BLOCK, EVENT, PAGES, ROOT, name, run

import pam_retriever
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.cli import main

PROJECT = "pam-retriever"
USER_PAGES = [page for page in PAGES if "notes" not in page.parts]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?:^    .*\n)+", re.MULTILINE)
COMMANDS = ("pip", "pam-retriever", "python", "torchrun", "pre-commit")
CODE_MEMORY = ROOT / "docs" / "guides" / "code-memory.md"
HISTORY = [  # of the repository in the guide: date, message, files
    ("2023-11-19", "Back off between retries", ["src/net/wire.py", "src/net/backoff.py"]),
    ("2024-01-08", "Round the tax to cents", ["src/shop/tax.py", "src/shop/invoice.py"]),
    ("2024-03-02", "Retry when the peer resets the connection", ["src/net/wire.py", "src/net/errors.py"]),
]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Returns (language, text) for each block; the language of an indented block is "indented"."""
    text = page.read_text()
    indented = [("indented", block) for block in INDENTED.findall(FENCED.sub("\n", text))]
    return FENCED.findall(text) + indented


def commands(page: Path) -> list[list[str]]:
    """Returns the words of each command of a page, without the settings of the environment before it."""
    found = []
    for language, text in blocks(page):
        if language not in ("sh", "indented"):
            continue
        for line in text.splitlines():
            for part in line.split("&&"):
                words = re.sub(r"^(\w+=\S+ )+", "", part.strip())
                if words.split(" ")[0] in COMMANDS:
                    found.append(shlex.split(words, comments=True))
    return found


def is_output(block: str) -> bool:
    """Returns whether an indented block shows what a program prints."""
    first = re.sub(r"^(\w+=\S+ )+", "", block.strip())
    return first.split(" ")[0] not in COMMANDS and not EVENT.search(block)


def test_every_block_is_of_a_kind_that_a_test_runs():
    kinds = {"python", "py", "sh", "json", "diff", "indented"}
    for page in USER_PAGES:
        hidden = re.findall(r"^ +```.*", page.read_text(), re.MULTILINE)
        assert not hidden, f"{name(page)}: no test sees a block within a list"
        drawings = {""} if name(page) == "docs/how/architecture.md" else set()
        assert {language for language, _ in blocks(page)} <= kinds | drawings, name(page)


def test_every_line_to_install_names_what_the_project_has():
    seen = 0
    for page in USER_PAGES:
        for command in commands(page):
            if command[:2] != ["pip", "install"]:
                continue
            seen += 1
            words = iter(command[2:])
            for word in words:
                if word in ("-c", "-r"):
                    assert (ROOT / next(words)).is_file(), command
                    continue
                if word == "-e":
                    word = next(words)
                project, extras = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?(?:==[\d.]+)?", word).groups()
                assert project in (".", PROJECT, "torch", "pgserver"), command
                missing = set((extras or "").split(",")) - {""} - set(metadata(PROJECT).get_all("Provides-Extra"))
                assert not missing, f"{name(page)}: {command} names extras that the project does not have"
    assert seen >= 10


def test_every_module_that_a_page_starts_is_there():
    for page in USER_PAGES:
        for command in commands(page):
            if command[:2] == ["python", "-m"]:
                module = ROOT / command[2].replace(".", "/")
                assert command[2] in ("venv", "pytest") or module.is_dir() or module.with_suffix(".py").is_file(), (
                    command
                )


@pytest.mark.parametrize("page", ["migrating.md", "migrating-llama-index.md"])
def test_the_new_lines_of_a_migration_run(page, tmp_path, monkeypatch):
    """They run one after another, each with a new folder, after the program at the head of the page."""
    page = ROOT / "docs" / "guides" / page
    changes = [text for language, text in blocks(page) if language == "diff"]
    assert len(changes) >= 6
    before = "import pathlib, shutil\nfrom langchain_pam import PAMRetriever\n"
    if "llama" in page.name:
        before = (
            "import pathlib, shutil\nfrom llama_index.core import Settings, load_index_from_storage\n"
            "from llama_index_pam import PAMRetriever\nSettings.embed_model = embedder\n"
        )
    code = [*BLOCK.findall(page.read_text()), before]
    for change in changes:
        new = "".join(f"{line[2:]}\n" for line in change.splitlines() if not line.startswith("-"))
        if "PAMVectorStore(" in new and "storage_context=" not in new:
            code.append("for folder in ('memory', 'folder'): shutil.rmtree(folder, ignore_errors=True)\n")
        if "storage_context.persist" in new:
            new = f"storage_context = storage\n{new}"
        if "load_local" in new:
            code.append("PAMVectorStore.from_documents(documents, embedding).save_local('memory')\n")
        if "store.fit(" in new:
            code.append(learn("llama" in page.name))
        code.append(new)
    (tmp_path / "page.py").write_text("\n".join(code))
    run(tmp_path / "page.py", tmp_path, monkeypatch)


def learn(llama: bool) -> str:
    """Returns lines that give ``store`` documents whose order it can learn."""
    if llama:
        return (
            "from llama_index.core import Document\n"
            "from llama_index.core.node_parser import SentenceSplitter\n"
            "diary = Document(text=' '.join(f'On day {day} the stairs were wet.' for day in range(40)))\n"
            "store = PAMVectorStore()\n"
            "storage = StorageContext.from_defaults(vector_store=store)\n"
            "pages = SentenceSplitter(chunk_size=40, chunk_overlap=0).get_nodes_from_documents([diary])\n"
            "index = VectorStoreIndex(pages, storage_context=storage, embed_model=embedder)\n"
        )
    return (
        "diary = [Document(f'On day {day} the stairs were wet.', metadata={'source': 'diary'}) for day in range(20)]\n"
        "store = PAMVectorStore.from_documents(diary, embedding)\n"
    )


@pytest.mark.slow
def test_the_settings_of_a_client_start_the_server(tmp_path):
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    (settings,) = [text for language, text in blocks(ROOT / "docs" / "guides" / "mcp.md") if language == "json"]
    memory = json.loads(settings)["mcpServers"]["memory"]
    arguments = [argument.replace("/home/ann", str(tmp_path)) for argument in memory["args"]]
    assert shutil.which(memory["command"], path=str(Path(sys.executable).parent)), "the command is installed"

    async def tools() -> set[str]:
        server = StdioServerParameters(command=str(Path(sys.executable).parent / memory["command"]), args=arguments)
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            return {tool.name for tool in (await session.list_tools()).tools}

    assert {"remember", "recall", "forget"} <= anyio.run(tools)
    assert (tmp_path / "memory").is_dir()


SHOWS = [page for page in USER_PAGES if page != CODE_MEMORY and BLOCK.search(page.read_text())]
SHOWS = [page for page in SHOWS if any(kind == "indented" and is_output(text) for kind, text in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWS, ids=name)
def test_a_page_shows_what_its_code_prints(page, tmp_path, monkeypatch, capsys):
    (tmp_path / "page.py").write_text("\n".join(BLOCK.findall(page.read_text())))
    run(tmp_path / "page.py", tmp_path, monkeypatch)
    assert_shown(page, capsys.readouterr().out)


def assert_shown(page: Path, output: str) -> None:
    """Asserts that a program printed each line that the page shows; "..." stands for any text."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    for kind, text in blocks(page):
        for line in text.splitlines() if kind == "indented" and is_output(text) else []:
            shown = re.sub(r"([][?*])", r"[\1]", " ".join(line.split())).replace("...", "*")
            assert any(fnmatchcase(line, shown) for line in printed), f"{name(page)} shows {line!r}, printed: {printed}"


@pytest.mark.slow
def test_the_guide_of_code_memory_shows_what_its_commands_print(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository = tmp_path / "path" / "to" / "repository"
    repository.mkdir(parents=True)
    git = ["git", "-C", str(repository), "-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for date, message, files in HISTORY:
        for file in files:
            (repository / file).parent.mkdir(parents=True, exist_ok=True)
            (repository / file).write_text(f'"""{message}."""\n')
        when = {"GIT_AUTHOR_DATE": f"{date}T12:00:00Z", "GIT_COMMITTER_DATE": f"{date}T12:00:00Z"}
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", message], check=True, env=os.environ | when)
    for command in commands(CODE_MEMORY):
        if command[0] == "pam-retriever" and command[1] != "mcp":
            assert main(command[1:]) == 0, command
    assert_shown(CODE_MEMORY, capsys.readouterr().out)


@pytest.mark.slow
def test_the_program_for_several_processes_runs(tmp_path):
    page = ROOT / "docs" / "reference" / "scaling.md"
    (program,) = [text for language, text in blocks(page) if language == "py"]
    ((_, *arguments),) = [command for command in commands(page) if command[0] == "torchrun"]
    (tmp_path / "train.py").write_text(program)
    with PredictiveAssociativeIndex.open(tmp_path / "memories", dim=8) as index:
        index.add(np.random.default_rng(0).standard_normal((60, 8)), [str(at) for at in range(60)])
        index.observe_many([[str(at) for at in range(start, start + 6)] for start in range(0, 60, 6)])
    package = str(Path(pam_retriever.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    ranks, losses = zip(*(line.split() for line in done.stdout.splitlines()), strict=True)
    assert sorted(ranks) == ["0", "1"]
    assert len(set(losses)) == 1
    with PredictiveAssociativeIndex.open(tmp_path / "memories") as index:
        assert index.is_fitted
