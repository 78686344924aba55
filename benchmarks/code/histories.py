"""Synthetic repositories with a history, written by ``git fast-import``."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

AUTHOR = "Nobody <nobody@example.com>"
START = 1_600_000_000  # seconds
VERBS = ("Fix", "Add", "Remove", "Speed up", "Document", "Test", "Rename", "Simplify")
THINGS = (
    "retry", "connection", "parser", "cache", "login", "token", "queue", "timeout", "header", "router", "session",
    "cookie", "schema", "filter", "stream", "upload", "report", "invoice", "search", "index", "worker", "lock",
)  # fmt: skip


class History:
    """A repository that grows commit by commit; ``write`` adds the new commits.

    Args:
        folder: the repository; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stream: list[bytes] = []
        self._mark, self.time = 0, START
        self._last: dict[str, str] = {}  # branch -> mark of its last commit
        if not (folder / ".git").exists():
            folder.mkdir(parents=True, exist_ok=True)
            git(folder, "init", "--quiet", "--initial-branch=main")

    def commit(
        self,
        message: str,
        files: Mapping[str, str | bytes | None] | None = None,
        renames: Sequence[tuple[str, str]] = (),
        branch: str = "main",
        merge: str | None = None,
        start: str | None = None,
    ) -> None:
        """Adds a commit: first its renames, then its changes.

        Args:
            message: the commit message.
            files: contents by path; None deletes the file.
            renames: (old path, new path).
            branch: the branch to extend.
            merge: the branch to merge; ``files`` must have its files.
            start: the branch from which a new branch starts.
        """
        self._mark, self.time = self._mark + 1, self.time + 600
        said = message.encode()
        lines = [f"commit refs/heads/{branch}", f"mark :{self._mark}", f"committer {AUTHOR} {self.time} +0000"]
        lines += [f"data {len(said)}"]
        self._stream += ["\n".join(lines).encode() + b"\n" + said + b"\n"]
        before = self._last.get(branch) or self._last.get(start or "")
        if before is None and self._exists(branch):
            before = f"refs/heads/{branch}^0"
        self._stream += [f"from {before}\n".encode()] if before else []
        self._stream += [f"merge {self._last.get(merge) or merge}\n".encode()] if merge else []
        self._stream += [f"R {_quoted(old)} {_quoted(new)}\n".encode() for old, new in renames]
        for path, content in (files or {}).items():
            if content is None:
                self._stream.append(f"D {_quoted(path)}\n".encode())
            else:
                data = content if isinstance(content, bytes) else content.encode()
                self._stream.append(f"M 100644 inline {_quoted(path)}\ndata {len(data)}\n".encode() + data + b"\n")
        self._last[branch] = f":{self._mark}"

    def write(self, branch: str = "main") -> None:
        """Writes the new commits, and checks ``branch`` out."""
        git(self.folder, "fast-import", "--quiet", "--force", given=b"".join(self._stream))
        self._stream, self._mark, self._last = [], 0, {}
        git(self.folder, "checkout", "--quiet", "--force", branch)

    def _exists(self, branch: str) -> bool:
        return (self.folder / ".git" / "refs" / "heads" / branch).exists()


def git(folder: Path, *arguments: str, given: bytes | None = None) -> str:
    """Returns the output of git."""
    command = ["git", "-C", str(folder), "-c", "user.name=Nobody", "-c", "user.email=nobody@example.com", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode()


def grow(history: History, commits: int, random: np.random.Generator, components: int = 300) -> None:
    """Adds commits to a synthetic project: each component has separate files, which change together.

    One commit in fifty is a merge; one in two hundred changes 60 files.
    """
    for number in range(commits):
        component = int(random.zipf(1.3)) % components
        things = [THINGS[component % len(THINGS)], THINGS[(component * 7 + 3) % len(THINGS)]]
        folder = f"src/{things[0]}/{things[1]}{component}"
        paths = [f"{folder}/{name}.py" for name in ("core", "api", "store", "test_core")]
        chosen = [path for path in paths if random.random() < 0.6] or paths[:1]
        stamp = int(random.integers(10**9))
        files: dict[str, str | bytes | None] = {
            path: f"# {path}, {things[0]}\n" + f"def f{stamp}():\n    return {stamp}\n" * 10 for path in chosen
        }
        if random.random() < 0.005:
            files |= {f"data/{n}.txt": f"{stamp} {n}\n" for n in range(60)}
        message = f"{VERBS[int(random.integers(len(VERBS)))]} {' '.join(things)} {component}\n\nNumber {number}.\n"
        if random.random() < 0.02:
            aside: dict[str, str | bytes | None] = {f"{folder}/branch.py": f"{stamp}\n"}
            history.commit(f"Work on {things[0]}", aside, branch=f"side{number}", start="main")
            history.commit("Merge a branch", aside, merge=f"side{number}")
        history.commit(message, files)


def _quoted(path: str) -> str:
    plain = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'
