"""Raw results: JSON with the command, the seeds and the hardware of the run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

import pam_retriever

RESULTS = Path(__file__).parent / "results"


def plain(value: Any) -> float | str:
    """Returns a JSON value for NumPy numbers and times."""
    return value.isoformat() if isinstance(value, datetime) else float(value)


def hardware() -> dict[str, Any]:
    """Returns a description of the machine."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "faiss": faiss.__version__,
        "pam_retriever": pam_retriever.__version__,
    }


def commit() -> str | None:
    """Returns the commit of the running code; None outside of a repository."""
    root = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout

    try:
        head = git("rev-parse", "--short=10", "HEAD").strip()
        changed = git(
            "status", "--porcelain", "--untracked-files=no", "--", "pam_retriever", "integrations", "benchmarks/**.py"
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} with changes" if changed else head


def write(name: str, result: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Writes ``<folder>/<name>.json`` and returns its path."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    command = "python -m " + " ".join(_module_and_arguments())
    stamped = {
        "command": command,
        "commit": commit(),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "hardware": hardware(),
        **result,
    }
    path.write_text(json.dumps(stamped, indent=1) + "\n")
    return path


def table(rows: list[str], columns: dict[str, dict[str, float]], digits: int = 4) -> str:
    """Returns a plain-text table: one line per row name, one column per dict; a missing value is left empty."""
    width = max(len(row) for row in rows)
    widths = {name: max(len(name), 8) for name in columns}
    lines = [" ".join([" " * width, *(name.rjust(widths[name]) for name in columns)])]
    for row in rows:
        cells = [f"{c[row]:.{digits}f}" if c.get(row) is not None else "" for c in columns.values()]
        padded = (cell.rjust(widths[name]) for cell, name in zip(cells, columns, strict=True))
        lines.append(" ".join([row.ljust(width), *padded]))
    return "\n".join(lines)


def _module_and_arguments() -> list[str]:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else sys.argv[0]
    return [module, *map(_without_this_machine, sys.argv[1:])]


def _without_this_machine(argument: str) -> str:
    """Returns an argument without this machine's folders: an absolute path becomes relative, or only its name."""
    path, project = Path(argument), Path(__file__).resolve().parents[1]
    if not path.is_absolute():
        return argument
    known = (project, project.parent / "shared")  # not all that lies beside it: a clone may be in the root folder
    return os.path.relpath(path, project) if any(map(path.is_relative_to, known)) else path.name


def no_arguments(description: str | None) -> None:
    """Parses the command line of a program without arguments: accepts ``--help``, and rejects other arguments."""
    argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
