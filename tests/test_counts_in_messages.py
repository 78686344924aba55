"""Messages and reprs: one memory is "1 memory"."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import pam_retriever
from pam_retriever import PredictiveAssociativeIndex, evaluate
from pam_retriever.errors import counted

FOLDERS = (Path(pam_retriever.__file__).parent, Path(__file__).parent.parent / "integrations")
NOUNS = {
    *(
        "associations",
        "channels",
        "commits",
        "documents",
        "entries",
        "events",
        "features",
        "files",
        "floats",
        "folders",
    ),
    *(
        "hits",
        "lines",
        "memories",
        "mentions",
        "moments",
        "names",
        "nodes",
        "numbers",
        "nulls",
        "observations",
        "pairs",
    ),
    *("parameters", "passages", "passes", "points", "questions", "requests", "rows", "sessions", "states", "steps"),
    *("tenants", "texts", "times", "trajectories", "values", "vectors"),
}
ADJECTIVES = {"more", "new", "past"}
ALWAYS_SEVERAL = (  # the number is above 1 by construction or a dimension, or the word is a verb or follows a list
    *(
        "{self._width} numbers",
        "{count:,} moments",
        "{apart:,} steps",
        "{MEASURED:,} sessions",
        "{overview.dim} numbers",
    ),
    *(
        "{2 ** (power + 1) - 1} steps",
        "{dim} numbers",
        "{lengths} values",
        "{path} names a file",
        "{self.dims} numbers",
    ),
)


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (0, "memory", "0 memories"),
        (1, "memory", "1 memory"),
        (2, "past request", "2 past requests"),
        (1, "trajectory", "1 trajectory"),
        (1234, "trajectory", "1,234 trajectories"),
        (2, "day", "2 days"),
        (3, "pass", "3 passes"),
        (2, "batch", "2 batches"),
    ],
)
def test_a_number_with_its_noun(number: int, noun: str, expected: str) -> None:
    assert counted(number, noun) == expected


def test_an_offset_with_its_noun() -> None:
    assert [counted(offset, "step", "+") for offset in (-2, -1, 1, 2)] == ["-2 steps", "-1 step", "+1 step", "+2 steps"]


def test_an_index_of_one_memory() -> None:
    index = PredictiveAssociativeIndex(dim=3)
    index.append("a", np.ones(3), id="one")
    assert "1 memory, 1 trajectory, " in repr(index)
    assert repr(index.erase(["one"])).startswith("ErasureReport(1 memory, 1 trajectory, 0 requests")


def test_the_report_of_a_short_fit() -> None:
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.eye(3), ids=["a", "b", "c"])
    report = index.fit([["a", "b"]])
    assert repr(report).startswith("FitReport(2 memories, 1 trajectory, ")


def test_an_evaluation_of_one_question() -> None:
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.eye(3), ids=["a", "b", "c"])
    assert repr(evaluate(index, np.eye(3)[:1], [{"a"}])).startswith("Evaluation of 1 question,")


def counts(tree: ast.AST) -> list[str]:
    """Returns the f-strings that write a number before a plural noun, as text."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(before, ast.FormattedValue) and isinstance(after, ast.Constant):
                    words = [word.strip(".,;:()") for word in str(after.value).split()]
                    noun = next((word for word in words if word not in ADJECTIVES), "")
                    if str(after.value).startswith(" ") and noun in NOUNS:
                        found.append(ast.unparse(node))
    return found


def test_no_message_writes_a_plural_noun_by_hand() -> None:
    """``counted`` writes a number with its noun, so that no message says "1 memories"."""
    found = {
        f"{path.name}: {text}"
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        for text in counts(ast.parse(path.read_text()))
    }
    assert not {text for text in found if not any(start in text for start in ALWAYS_SEVERAL)}
