"""Imports go only one way: apps -> index -> retrieval, training -> model, experience, ann, store -> types."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pam_retriever

PACKAGE = Path(pam_retriever.__file__).parent
# folder -> the folders it may import, besides itself and the modules outside folders (types, errors, filters, ...)
MAY_IMPORT = {
    "ann": set(),
    "timewords": set(),
    "mentions": set(),
    "experience": set(),
    "model": set(),
    "store": {"ann", "experience", "mentions", "model"},
    "training": {"ann", "experience", "model", "store"},
    "retrieval": {"ann", "experience", "mentions", "model", "store", "timewords"},
    "engines": {"ann", "experience", "mentions", "model", "store"},
    "jepa": {"ann", "experience", "model", "store", "training"},
    "explore": set(),
    "index": {"ann", "experience", "model", "store", "training", "retrieval", "explore"},
    "plots": {"explore"},
    "adapters": {"experience", "index", "model", "retrieval", "store", "training"},
    "apps": {"index", "experience", "explore", "mentions"},
    "__main__": {"apps"},
}
SHARED = {
    "__about__",
    "arrays",
    "display",
    "embedding",
    "errors",
    "evaluation",
    "filters",
    "limits",
    "locks",
    "protocols",
    "types",
    "validation",
}
# imports that break this rule; the list may only get shorter
STILL_UPWARD = {
    ("apps", "store"),
}


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def folder(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def arrows() -> Iterator[tuple[str, str, Path]]:
    """Yields (importing folder, imported folder, file) for every import within the package."""
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        here = inside.parts[0] if len(inside.parts) > 1 else inside.stem
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pam_retriever":
                names = [folder(node.module)] if "." in node.module else [alias.name for alias in node.names]
                yield from ((here, name, path) for name in names if name != here)


def test_arrows_point_one_way():
    wrong = {
        (here, there)
        for here, there, _ in arrows()
        if here != "__init__" and there not in SHARED and there not in MAY_IMPORT.get(here, set())
    }
    assert wrong == STILL_UPWARD


def test_few_files_stand_outside_a_folder():
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_no_folder_holds_more_files_than_one_can_read():
    """A folder of more than thirty files has no single subject."""
    for folder in PACKAGE.rglob("*"):
        assert not folder.is_dir() or len(list(folder.glob("*.py"))) <= 30, folder


def test_nothing_unsafe_is_imported():
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "joblib"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, path


def test_only_the_connection_touches_sqlite():
    """Only the connection runs SQL: elsewhere a statement would lack its mutex, and raise SQLite's own errors."""
    for path in PACKAGE.rglob("*.py"):
        assert path.name == "connection.py" or "._sqlite" not in path.read_text(), path


def test_no_kind_of_store_or_index_is_asked_for():
    """No code tests the class of a store, a database or an ANN index: an attribute states the abilities of each."""
    kinds = re.compile(
        r"isinstance\([^)]*\b\w*(Store|Database|Backend|AnnIndex|PrefixView|Engine|Rebuild|Generation)\b"
    )
    for path in PACKAGE.rglob("*.py"):
        assert not kinds.search(path.read_text()), path
