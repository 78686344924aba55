"""The notebooks agree with the guides, and run."""

from __future__ import annotations

import runpy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "notebooks"
SCRIPT = runpy.run_path(str(FOLDER / "from_guides.py"))
NAMES: tuple[str, ...] = SCRIPT["NAMES"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_that_of_its_guide(name):
    made = SCRIPT["notebook"](name)
    assert (FOLDER / f"{name}.ipynb").read_text() == made, "run python examples/notebooks/from_guides.py"
    for cell in nbformat.reads(made, as_version=4).cells:
        for target in SCRIPT["LINK"].findall(cell.source) if cell.cell_type == "markdown" else ():
            assert (FOLDER / target.partition("#")[0]).exists(), f"{name}: {target}"


def test_every_notebook_is_made_from_a_guide():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    ran = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in ran.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert any(output.output_type == "stream" and output.name == "stdout" for cell in cells for output in cell.outputs)
