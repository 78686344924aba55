"""Imports point leftward along the flow; only the last three see all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pam_retriever

PACKAGE = Path(pam_retriever.__file__).parent
FLOW = [
    {"__about__", "errors", "limits", "readwrite"},
    {"types", "predictor", "losses"},
    {"ranges", "selection", "distributed"},
    {"filters", "config", "channels", "cooccurrence"},
    {"codes", "prediction"},
    {"validation", "objectives", "trust", "familiarity"},
    {"salience", "links", "probation"},
    {"trajectories", "training", "backends", "storage", "embedding", "parquet"},
    {"experience", "recall", "keys", "switchover", "lexical", "jepa", "storing", "fitted", "parts"}
    | {"checkpoint", "kept"},
    {"belief", "fusion", "hops", "forgetting", "streamed"},
    {"bank"},
    {"engines", "local"},
    {"opening", "adding", "request", "learning", "integrity", "reencoding", "surprise"},
    {"answer"},
    {"imagine", "spreading"},
    {"index"},
    {"demo", "events"},
    {"cli", "__init__"},
]


def room(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def test_every_module_has_its_place_and_imports_only_from_before_it():
    place = {name: at for at, step in enumerate(FLOW) for name in step}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        here = room(path)
        assert here in place, f"{path.name} has no place in the flow"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pam_retriever":
                parts = node.module.split(".")
                names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
                wrong += [f"{here} imports {name}" for name in names if name != here and place[name] >= place[here]]
    assert not wrong


def test_nothing_unsafe_is_imported():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            assert not {"pickle", "marshal", "shelve", "joblib"} & set(names), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, path


def test_only_the_database_touches_its_connection():
    """Elsewhere a statement would run without the mutex and with SQLite's own errors."""
    for path in PACKAGE.rglob("*.py"):
        assert path.name == "database.py" or "._connection" not in path.read_text(), path
