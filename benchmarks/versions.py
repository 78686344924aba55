"""The code version of each raw result that the documents link to.

    python -m benchmarks.versions

writes docs/results/raw.md. A new result names its commit (`benchmarks.report`). For an older one the page names the
commit that added it, found by the time at which its run finished.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from benchmarks.report import RESULTS, no_arguments

ROOT = RESULTS.parents[1]
PAGE = ROOT / "docs" / "results" / "raw.md"
SECOND_EDITION = "c0f1ab3"  # the first commit of the second edition, which moved every file and rewrote many
RAW = re.compile(r"\((?:\.\./)*(benchmarks/results/[^)#]+\.json)")
HEAD = """# Which code made these figures?

Each raw file that a page links to, and the version of the code that made it.

- A row without a mark: the file names its commit.
- †: the file names none, or one that is not in the history. The commit brought the file to the repository; the code is
  that of the commit, or of shortly before. These runs take more than three minutes of a core, or need a browser or
  other vector stores; they are repeated when the code that they measure changes.
- "with changes": the code had changes that were committed after the run.
- ‡: the same, and older than `{edition}`, with which the second edition began on 2026-11-22. The code was rewritten
  since then, and the run was not repeated.

Made by `python -m benchmarks.versions`, which needs git.

| raw file | run finished | commit |
|---|---|---|
"""


def main() -> None:
    no_arguments(__doc__)
    rows = [row(ROOT / path) for path in linked()]
    PAGE.write_text(HEAD.format(edition=SECOND_EDITION) + "".join(rows))
    print(f"{len(rows)} raw files in {PAGE}")


def linked() -> list[str]:
    """Returns the raw files that README.md and docs/ link to, as paths from the root."""
    pages = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page != PAGE)]
    return sorted({path for page in pages for path in RAW.findall(page.read_text())})


def row(path: Path) -> str:
    made = json.loads(path.read_text())
    finished = made.get("finished", "")
    named = str(made.get("commit", ""))
    commit = f"`{named}`" if named and _is_here(named.split()[0]) else _brought(path, finished)
    name = path.relative_to(RESULTS).as_posix()
    return f"| [{name}](../../benchmarks/results/{name}) | {finished[:16].replace('T', ' ')} | {commit} |\n"


def _brought(path: Path, finished: str) -> str:
    """Returns the first commit in which a file has its run's time; without a time, the last commit of the file."""
    when = ("-S", finished, "--reverse") if finished else ("-1",)
    commit = _git("log", "--format=%h", "--abbrev=10", *when, "--", str(path)).split()[0]
    mark = "‡" if _is_before(commit, SECOND_EDITION) else "†"
    return f"`{commit}` {mark}"


def _is_here(commit: str) -> bool:
    """Returns whether the current history contains a commit; a rebase removes commits from it."""
    return _holds("merge-base", "--is-ancestor", commit, "HEAD")


def _is_before(commit: str, other: str) -> bool:
    return _holds("merge-base", "--is-ancestor", commit, f"{other}^")


def _holds(*question: str) -> bool:
    return subprocess.run(["git", *question], cwd=ROOT, capture_output=True, check=False).returncode == 0


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
