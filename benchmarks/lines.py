"""Counts the lines of ``pam_retriever/`` by feature, now and in the first edition.

    python -m benchmarks.lines [--before c0f1ab3^]

Whole files count: a file of an old feature counts as old, also where it serves a new one, too. "Code" is without blank
lines, comments and docstrings. Needs the git history.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "pam_retriever"
FIRST_EDITION = "c0f1ab3^"  # the last commit before the second edition
# the files of what the first edition could not do; ``*`` stands for any number of folders
NEW = {
    "times in words, dates": (
        "timewords/*", "retrieval/timeline", "retrieval/anchors", "store/sqlite/times", "experience/dates",
    ),
    "names and mentions": (
        "mentions/*", "retrieval/mentioned", "retrieval/first_mentions", "store/index_mentions", "store/naming",
        "engines/mentions",
    ),
    "feedback, and the mixture of evidence": (
        "retrieval/mixture/*", "retrieval/before_fit", "retrieval/sources", "index/feedback", "experience/feedback",
        "store/sqlite/feedback", "adapters/feedback", "engines/local_copy",
    ),
    "the next step, append": ("retrieval/sequences/*", "index/sequences", "store/appending", "experience/chain"),
    "links before fit, direction": ("retrieval/linked", "retrieval/directed"),
    "tenants, erasure": (
        "index/tenants", "index/open_tenants", "store/folder/tenants", "apps/tenant", "store/erasure", "store/learnt",
    ),
    "fits in the background": ("index/background",),
    "explorer, plots, notebooks, inspection": (
        "explore/*", "plots/*", "display/*", "apps/exploring", "apps/drawn", "apps/contents", "apps/table",
        "apps/terminal", "index/inspecting", "retrieval/projection", "store/last_fit",
    ),
    "code memory, server for agents, folders of documents": ("apps/code/*", "apps/mcp/*", "apps/documents"),
    "evaluate": ("evaluation",),
    "embedders by name": ("embedding/text_models",),
}  # fmt: skip
# whole files that make what the first edition could do faster, safer or better calibrated
BETTER = {
    "speed of filters, opening, HNSW, one query": (
        "store/sqlite/metadata_*", "store/folder/graph_cache", "ann/graph", "ann/bounded",
        "filters/conditions", "filters/stored",
    ),
    "readers that follow, forks, damage": (
        "store/sqlite/changes", "store/sqlite/write_log", "store/folder/forking", "store/folder/companions",
        "store/folder/unfinished", "ann/checked",
    ),
    "calibration on little experience, second step, noise": (
        "training/cross_validation", "training/second_step", "experience/second_step", "retrieval/second_step",
        "model/noise", "retrieval/coherence",
    ),
    "fits of new experience alone": ("training/new_experience", "store/growth"),
}  # fmt: skip

# the files of the first edition by today's folder; the first pattern that fits counts, and the rest is retrieval
FIRST = {
    "engines": ("engines/*",),
    "jepa": ("jepa/*",),
    "ann": ("backends/*", "ranges", "selection"),
    "model": ("predictor", "losses", "keys", "codes", "prediction", "channels"),
    "training": (
        "training", "learning", "streamed", "objectives", "checkpoint", "config", "distributed", "parts", "probation",
        "trust",
    ),
    "experience": (
        "experience", "cooccurrence", "trajectories", "links", "familiarity", "salience", "parquet", "forgetting",
    ),
    "store": (
        "storage/*", "bank", "local", "adding", "opening", "storing", "kept", "fitted", "integrity", "readwrite",
        "switchover", "reencoding",
    ),
    "filters": ("filters",),
    "embedding": ("embedding",),
    "index": ("index",),
    "apps": ("cli", "demo", "events"),
    "files outside of folders": ("__*__", "errors", "limits", "types", "validation"),
    "retrieval": ("*",),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=FIRST_EDITION, help="commit of the first edition")
    given = parser.parse_args()
    now = {
        path.relative_to(ROOT / PACKAGE).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }
    before, of_file = committed(given.before), {name: group_of(name) for name in now}
    print("| | files | lines | code |\n|---|---|---|---|")
    print(row("first edition", before.values()))
    print(row("now", now.values()))
    for kind, parts in {"new": NEW, "better": BETTER}.items():
        print(row(f"**{kind}**", (text for name, text in now.items() if of_file[name][0] == kind)))
        for part in parts:
            print(row(part, (text for name, text in now.items() if of_file[name] == (kind, part))))
    print(row("**the rest: the same features**", (text for name, text in now.items() if of_file[name][0] == "rest")))
    print("\n| the same features | first edition: files | lines | code | now: files | lines | code |\n|" + "---|" * 7)
    areas = {name: first_area(name) for name in before}
    for area in FIRST:
        then = row(area, (text for name, text in before.items() if areas[name] == area))
        rest = (text for name, text in now.items() if of_file[name][0] == "rest" and area_of(name) == area)
        print(then + row("", rest).removeprefix("|  |"))


def first_area(name: str) -> str:
    """Returns today's folder of a file of the first edition."""
    return next(area for area, patterns in FIRST.items() if any(fnmatch(name, pattern) for pattern in patterns))


def area_of(name: str) -> str:
    """Returns the folder of a file of today; the adapters' part counts as index."""
    folder, _, inside = name.partition("/")
    return {"adapters": "index"}.get(folder, folder) if inside else "files outside of folders"


def group_of(name: str) -> tuple[str, str]:
    """Returns the kind and the feature of a file, given without its ending."""
    for kind, parts in (("new", NEW), ("better", BETTER)):
        for part, patterns in parts.items():
            if any(fnmatch(name, pattern) for pattern in patterns):
                return kind, part
    return "rest", ""


def committed(commit: str) -> dict[str, str]:
    """Returns the text of each module of a commit, by its name without the ending."""
    listed = git("ls-tree", "-r", "--name-only", commit, f"{PACKAGE}/").splitlines()
    names = {path.removeprefix(f"{PACKAGE}/").removesuffix(".py"): path for path in listed if path.endswith(".py")}
    return {name: git("show", f"{commit}:{path}") for name, path in names.items()}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def row(name: str, texts: Iterable[str]) -> str:
    """Returns a line of the table: files, lines, and lines of code."""
    counted = [(text.count("\n"), code_lines(text)) for text in texts]
    lines, code = (sum(column) for column in zip(*counted, strict=True)) if counted else (0, 0)
    return f"| {name} | {len(counted)} | {lines:,} | {code:,} |"


def code_lines(text: str) -> int:
    """Returns the number of lines without blank lines, comments and docstrings."""
    outside = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in outside:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                found.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(found)


if __name__ == "__main__":
    main()
