"""Writes the notebooks of this folder from the guides, so that both have the same text and code.

    python examples/notebooks/from_guides.py

Each block of Python becomes a code cell, and the text before it a text cell. A link to the guide replaces the text
after the last block. Outputs are left empty: run a notebook to see them. The tests compare the notebooks with the
guides, and run each notebook.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
GUIDES = HERE.parents[1] / "docs" / "guides"
NAMES = ("agent-memory", "rag-over-documents", "tool-selection", "code-memory", "next")
BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def main() -> None:
    for name in NAMES:
        (HERE / f"{name}.ipynb").write_text(notebook(name))


def notebook(name: str) -> str:
    """Returns the notebook of a guide, as JSON."""
    parts = BLOCK.split((GUIDES / f"{name}.md").read_text())  # text, code, text, ..., code, text
    parts[-1] = f"What it brings, and more: [the guide]({name}.md)."
    cells = []
    for at, part in enumerate(parts):
        source = part.strip("\n")
        if at % 2:
            cells.append(new_code_cell(source, id=f"cell-{at}"))
        elif source:
            cells.append(new_markdown_cell(LINK.sub(_from_here, source), id=f"cell-{at}"))
    made = new_notebook(cells=cells, metadata=KERNEL)
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def _from_here(link: re.Match[str]) -> str:
    """Returns a link of a guide, made relative to this folder."""
    path, hash_, anchor = link[1].partition("#")
    target = (GUIDES / path).resolve().relative_to(GUIDES.parents[1].resolve())
    return f"](../../{target.as_posix()}{hash_}{anchor})"


if __name__ == "__main__":
    main()
