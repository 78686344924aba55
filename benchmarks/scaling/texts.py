"""Real texts of several kinds: dialogue turns, sentences of encyclopedia passages, requests, commits, docstrings."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import platform
import re
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.real import dialogue
from benchmarks.real.documents import SETS

SHORTEST = 20  # characters; shorter texts say too little to be told apart
PACKAGES = ("torch", "numpy")  # whose docstrings are read, beside those of the standard library
END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def read(folder: Path, packages: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Returns the distinct texts of each kind, in alphabetical order.

    Args:
        folder: the data of ``benchmarks.real``.
        packages: Python packages; None for the standard library and ``PACKAGES``.
    """
    documents = [row for name in SETS for row in _rows(folder / "documents" / f"{name}.jsonl")]
    passages = [passage["text"] for row in documents for passage in row["passages"]]
    used = sorted((folder / "use").iterdir())
    cues = {
        path.name: [row["cue"] for part in ("experience", "test") for row in _rows(path / f"{part}.jsonl")]
        for path in used
        if path.is_dir()
    }
    talks = dialogue.read(folder / "locomo" / "locomo5.json")
    found = {
        "turns": [turn["text"] for talk in talks for turn in talk.turns],
        "sentences": [sentence for passage in passages for sentence in END_OF_SENTENCE.split(passage)],
        "requests": cues.pop("toollens"),
        "commits": [text for texts in cues.values() for text in texts],
        "docstrings": list(docstrings(packages)),
    }
    return {kind: sorted({text for text in texts if len(text) >= SHORTEST}) for kind, texts in found.items()}


def questions(folder: Path) -> list[str]:
    """Returns the distinct questions about documents and dialogues, in alphabetical order."""
    talks = dialogue.read(folder / "locomo" / "locomo5.json")
    about_talks = {question for talk in talks for question, *_ in talk.questions}
    about_documents = {row["question"] for name in SETS for row in _rows(folder / "documents" / f"{name}.jsonl")}
    return sorted(about_talks | about_documents)


def docstrings(packages: Sequence[str] | None) -> Iterator[str]:
    """Yields the first paragraph of each docstring of the modules of some packages, without their tests."""
    library, installed = (Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib"))
    folders = [library, *(installed / name for name in PACKAGES)]
    if packages is not None:
        folders = [next(root / name for root in (library, installed) if (root / name).exists()) for name in packages]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).parts
            if "site-packages" in parts or any("test" in part for part in parts):
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield (ast.get_docstring(node) or "").split("\n\n")[0]


def versions(packages: Sequence[str] | None) -> dict[str, str]:
    """Returns the versions of the packages whose docstrings are read."""
    read_from = PACKAGES if packages is None else [name for name in packages if name in PACKAGES]
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in read_from}}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
