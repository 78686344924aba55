"""Which files does this change need, and why? Learnt from the history of a repository.

Run it with: pip install ".[text]" && python examples/code_memory.py [REPOSITORY]

It makes a small repository and learns from it. Then it learns from REPOSITORY, if you name one: for example "." in a
clone of this project. A repository of 600 files takes about a minute, mostly for the embeddings.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.code import CodeMemory, Repository, learn
from pam_retriever.embedding import Embedder

HISTORY = {
    "Retry when the connection is reset": ("net/wire.py", "net/backoff.py"),
    "Round the tax of an invoice": ("billing/invoice.py", "tables/rates.csv"),
    "Ask for a second factor at login": ("door/guard.py", "pages/login.html"),
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ann", "-c", "user.email=ann@example.com", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def small_repository() -> Path:
    """Three components, each changed five times."""
    folder = Path(tempfile.mkdtemp())
    git(folder, "init", "--quiet")
    for number in range(5):
        for message, paths in HISTORY.items():
            for path in paths:
                (folder / path).parent.mkdir(exist_ok=True)
                (folder / path).write_text(f"# {path}, version {number}\n")
            git(folder, "add", ".")
            git(folder, "commit", "--quiet", "--message", f"{message}, part {number}")
    return folder


def show(folder: Path, question: str, changed: str) -> list[str]:
    embedder = Embedder("default")
    with PredictiveAssociativeIndex.open(Path(tempfile.mkdtemp()) / "index", embedder="default") as index:
        print(learn(index, Repository(folder)))
        memory = CodeMemory(index, embedder)
        hits = memory.recall(question, k=3)
        print(f"\n{question}")
        for hit in hits:
            print(f"  {hit.path}, changed by {hit.commits} commits, such as {[one.subject for one in hit.reasons[:1]]}")
        print(f"\nwith {changed} usually changes:")
        for hit in memory.changed_with([changed], k=3):
            print(f"  {hit.path}, {hit.commits} times")
        return [hit.path for hit in hits]


def main() -> None:
    found = show(small_repository(), "the peer resets the connection, try again", "billing/invoice.py")
    assert set(found[:2]) == {"net/wire.py", "net/backoff.py"}
    if len(sys.argv) > 1:
        show(Path(sys.argv[1]), "kill a writer and lose nothing", "README.md")


if __name__ == "__main__":
    main()
