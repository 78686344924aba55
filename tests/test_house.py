"""Limits of the code: short files, short functions, few arguments, few nested calls, informative types.

Each list contains the current exceptions, and may only get shorter.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from conftest import DIM, QUICK, new_index
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index_samples import make_node

import llama_index_pam
import pam_retriever
from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture import scorer

PACKAGE = Path(pam_retriever.__file__).parent
ROOT = Path(__file__).parent.parent
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LINES_OF_A_FILE, LINES_OF_A_FUNCTION, ARGUMENTS = 400, 60, 8
CALLS = 6  # nested calls from a query to the search of an ANN index
ADAPTER_CALLS = 8  # the same, from a store of LangChain or LlamaIndex
KINDS = re.compile(r"(Backend|Bank|Engine|Store|Documents|Database)$")

STILL_LONG_FILES: set[str] = set()
STILL_LONG_FUNCTIONS: set[str] = set()
STILL_MANY_ARGUMENTS: set[str] = set()
STILL_ANY: set[str] = {  # JSON of the user, whose values the user knows
    "experience/feedback.py:Feedback.metadata",
    "jepa/modalities.py:Modality.options",
    "types.py:Hit.metadata",
    "types.py:Record.metadata",
}
STILL_ISINSTANCE: set[str] = set()


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def files() -> Iterator[tuple[str, str]]:
    """Yields (name, text) of every module of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text()


def functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yields (qualified name, function) of every function below a node."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield f"{within}{node.name}", node
        name = getattr(node, "name", None) if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else None
        yield from functions(node, f"{within}{name}." if name else within)


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the number of lines of a function, from ``def`` on, without the docstring."""
    assert function.end_lineno
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return function.end_lineno - function.lineno + 1 - docstring


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    rest = [one for one in (given.vararg, given.kwarg) if one]
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]
    return [one for one in named if one.arg not in {"self", "cls"}]


def is_interface(name: str) -> bool:
    """Returns whether this is a public method or constructor of a public class: its keywords are the interface."""
    *classes, last = name.split(".")
    return bool(classes) and not any(one.startswith("_") for one in classes) and (last[0] != "_" or last == "__init__")


def exported() -> Iterator[tuple[str, str]]:
    """Yields (module file, qualified name) of every exported function and class, and of the bases of such a class."""
    for name in pam_retriever.__all__:
        thing = getattr(pam_retriever, name)
        for one in inspect.getmro(thing) if inspect.isclass(thing) else [thing]:
            if getattr(one, "__module__", "").startswith("pam_retriever"):
                file = Path(inspect.getsourcefile(inspect.unwrap(one)) or "")
                yield file.relative_to(PACKAGE).as_posix(), one.__qualname__


def attributes(file: str, owner: str) -> Iterator[tuple[str, str]]:
    """Yields (name, annotation) of the public attributes of a class; a dataclass makes its constructor of them."""
    for node in parsed((PACKAGE / file).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id[0] != "_":
                    yield part.target.id, ast.unparse(part.annotation)


def test_no_file_is_long():
    """An adapter is not held to this: it has few files, named as a developer of its framework expects them."""
    beside = sorted((ROOT / "benchmarks").rglob("*.py"))
    every = [*files(), *((path.relative_to(ROOT).as_posix(), path.read_text()) for path in beside)]
    assert {name for name, text in every if len(text.splitlines()) > LINES_OF_A_FILE} == STILL_LONG_FILES


def test_no_function_is_long():
    found = {
        f"{file}:{name}"
        for file, text in files()
        for name, function in functions(parsed(text))
        if body_lines(function) > LINES_OF_A_FUNCTION
    }
    assert found == STILL_LONG_FUNCTIONS


def test_no_function_takes_many_arguments():
    found = {
        f"{file}:{name}"
        for file, text in files()
        for name, function in functions(parsed(text))
        if len(arguments(function)) > ARGUMENTS and not is_interface(name)
    }
    assert found == STILL_MANY_ARGUMENTS


def test_no_public_signature_has_any():
    """No public signature contains ``Any`` in its source text; ``test_typing.py`` sees the types behind aliases."""
    trees = {file: dict(functions(parsed(text))) for file, text in files()}
    found = set()
    for file, owner in set(exported()):
        for name, function in trees[file].items():
            if not (name == owner or (name.rpartition(".")[0] == owner and is_interface(name))):
                continue
            hints = [one.annotation for one in arguments(function)] + [function.returns]
            if any(re.search(r"\bAny\b", ast.unparse(hint)) for hint in hints if hint):
                found.add(f"{file}:{name}")
        found |= {f"{file}:{owner}.{name}" for name, hint in attributes(file, owner) if re.search(r"\bAny\b", hint)}
    assert found == STILL_ANY


def test_no_one_asks_what_kind_of_store_it_has():
    """No code tests the class of a store: an attribute states the abilities of a store."""
    found = set()
    for file, text in files():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                kinds = [one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)]
                found |= {f"{file}: {kind}" for kind in kinds if KINDS.search(kind)}
    assert found == STILL_ISINSTANCE


def calls_above_search(ask: Callable[[], object]) -> int:
    """Returns the largest number of nested calls of the project between ``ask`` and a search of an ANN index.

    The called method counts, the search does not. Comprehensions do not count: from Python 3.12 on they are no calls.
    """
    most = 0

    def count(frame: FrameType | None, event: str, _: object) -> None:
        nonlocal most
        if event != "call" or frame is None or frame.f_code.co_name != "search":
            return
        files = []
        while frame is not None:
            if frame.f_code.co_name not in {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}:
                files.append(Path(frame.f_code.co_filename))
            frame = frame.f_back
        inside = [file for file in files if ROOT in file.parents and ROOT / "tests" not in file.parents]
        if inside[0].parent.name == "ann" and inside[1].parent.name != "ann":
            most = max(most, len(inside) - 1)

    sys.setprofile(count)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return most


FORMS: dict[str, Callable[[PredictiveAssociativeIndex], object]] = {
    "search, vector": lambda index: index.search(VECTOR),
    "search, text": lambda index: index.search(text=TEXT),
    "search, id": lambda index: index.search("m003"),
    "recall, vector": lambda index: index.recall(VECTOR),
    "recall, text": lambda index: index.recall(text=TEXT),
    "recall, id": lambda index: index.recall("m003"),
    "recall, id and text": lambda index: index.recall("m003", text=TEXT),
    "recall, where": lambda index: index.recall(VECTOR, where={"parity": "odd"}),
    "recall, after": lambda index: index.recall("m003", direction="after"),
    "recall, specific": lambda index: index.recall(VECTOR, mode="specific"),
    "recall, hops": lambda index: index.recall(VECTOR, hops=3),
    "recall_next": lambda index: index.recall_next(["m003", VECTOR]),
}
# a scorer around another one is one call more, and so is a batch
DEEPER: dict[str, Callable[[PredictiveAssociativeIndex], object]] = {
    "recall, faithful": lambda index: index.recall(VECTOR, faithful=True),
    "recall_many": lambda index: index.recall_many([VECTOR]),
}
NEEDS_FIT = {"recall, specific", "recall, hops"}
TEXT, VECTOR = "where is m003?", np.random.default_rng(5).standard_normal((4, DIM))[3] + 0.01


@pytest.fixture(scope="module")
def asked(planted):
    """Returns indexes before and after ``fit``, each without and with feedback, by name."""

    def embed(texts: list[str]) -> np.ndarray:
        return np.full((len(texts), DIM), 0.5, np.float32)

    made = {name: new_index(planted, embedder=embed) for name in ("new", "used", "fitted", "fitted, used")}
    for name, index in made.items():
        for number in range(20 if "used" in name else 0):
            used = planted.ids[number]
            index.feedback(planted.vectors[number] + 0.01, [used], text=f"where is {used}?")
        if "fitted" in name:
            index.fit(planted.outings, config=QUICK, progress=False)
    return made


@pytest.mark.parametrize("form", [*FORMS, *DEEPER])
def test_few_calls_lie_between_a_query_and_the_search(asked, monkeypatch, form):
    monkeypatch.setattr(scorer, "FULL_BELOW", 50)  # so past requests search for candidates
    most = CALLS + 1 if form in DEEPER else CALLS
    for name, index in asked.items():
        if form in NEEDS_FIT and "fitted" not in name:
            continue
        more = name == "used" and "text" not in form  # a scorer around those of links and of past requests
        assert calls_above_search(lambda index=index: (FORMS | DEEPER)[form](index)) <= most + more, name


def test_few_calls_lie_between_an_adapter_and_the_search(planted):
    chain, llama = PAMVectorStore(DeterministicFakeEmbedding(size=DIM)), llama_index_pam.PAMVectorStore()
    chain.add_texts(planted.ids, ids=planted.ids)
    nodes = VectorStoreIndex.from_vector_store(llama, embed_model=MockEmbedding(DIM))
    nodes.insert_nodes([make_node(id, planted.vectors[row].tolist()) for row, id in enumerate(planted.ids)])
    retrievers = [
        nodes.as_retriever(),
        nodes.as_retriever(vector_store_query_mode="mmr"),
        nodes.as_retriever(vector_store_query_mode="hybrid"),
        llama_index_pam.PAMRetriever(nodes),
    ]
    asks: list[Callable[[], object]] = [
        lambda: chain.similarity_search("one"),
        lambda: chain.similarity_search_with_score("one"),
        lambda: chain.max_marginal_relevance_search("one"),
        lambda: chain.recall("one"),
        lambda: chain.as_retriever().invoke("one"),
        lambda: PAMRetriever(vectorstore=chain).invoke("one"),
        *(partial(one.retrieve, "one") for one in retrievers),
    ]
    for _ in range(2):  # before and after ``fit``
        for ask in asks:
            assert 0 < calls_above_search(ask) <= ADAPTER_CALLS
        for store in (chain, llama):
            store.fit([planted.ids[:50]], config=QUICK, progress=False)


def files_entered(call: Callable[[], object]) -> set[str]:
    """Returns the files of the package, without their ending, whose functions ran during a call."""
    found = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and PACKAGE in (path := Path(frame.f_code.co_filename)).parents:
            found.add(path.relative_to(PACKAGE).with_suffix("").as_posix())

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_the_walks_of_the_page_are_short_and_taken(planted, tmp_path):
    page = (ROOT / "docs" / "how" / "architecture.md").read_text()
    walks = re.findall(r"^- \*\*.*? to .*?:\*\*((?:.|\n  )*)", page.partition("## Three walks")[2], re.MULTILINE)
    adding, fitting, asking = (re.findall(r"`(\w+/[\w/]+)`", walk) for walk in walks[:3])
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        assert set(adding) <= files_entered(lambda: index.add(planted.vectors, planted.ids))
        assert set(fitting) <= files_entered(lambda: index.fit(planted.outings, config=QUICK, progress=False))
        assert set(asking) <= files_entered(lambda: index.recall(planted.vectors[3] + 0.01))
    assert 4 < len(adding) <= 6
    assert 4 < len(fitting) <= 8
    assert 4 < len(asking) <= 6  # beside them a scorer and an ANN index


def test_every_file_that_the_page_names_exists():
    page = (ROOT / "docs" / "how" / "architecture.md").read_text()
    named = re.findall(r"`(\w+/[\w/]*)`", page)
    assert len(named) > 40
    assert [name for name in named if not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").is_file()] == []


@pytest.mark.parametrize(
    ("source", "lines", "count"),
    [
        ("def f(a, *, b=1):\n    return a", 2, 2),
        ('def f(self, *a, **b):\n    """One.\n\n    Two.\n    """\n    return a', 2, 2),
        ("async def f(\n    a,\n):\n    return a\n", 4, 1),
    ],
)
def test_lines_and_arguments_are_counted_as_said(source, lines, count):
    ((name, function),) = functions(ast.parse(source))
    assert (name, body_lines(function), len(arguments(function))) == ("f", lines, count)


@pytest.mark.slow
def test_the_last_line_is_that_of_pytest():
    """Pytest prints the last line: Milvus Lite and PostgreSQL stop before it, without output."""
    both = ["-m", "slow or not slow", "-k", "test_an_engine_finds_what_python_finds and 20"]
    tests = ["tests/test_filters.py", *both, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=PACKAGE.parent,
        timeout=300,
    )
    assert re.search(r"2 passed.* in ", done.stdout.splitlines()[-1]), done.stdout
