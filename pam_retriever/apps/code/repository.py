"""Reads a git repository with the program git: commits, files and contents. Changes nothing in it."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pam_retriever.errors import InvalidInput, PAMError
from pam_retriever.limits import MAX_ID_BYTES

# an untrusted repository must not run programs, open prompts or write files
SAFE = (
    "--no-pager",
    "--no-optional-locks",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.quotePath=false",
    "-c", "log.showRoot=true",
    "-c", "log.showSignature=false",
    "-c", "protocol.allow=never",
)  # fmt: skip
LOG = (
    "--no-merges", "--topo-order", "--name-status", "-z", "-M", "-l1000", "--no-ext-diff", "--no-textconv",
    "--no-color", "--ignore-submodules=all", "--encoding=UTF-8", "--format=tformat:%x00%H%x00%ct%x00%B%x00",
)  # fmt: skip
HASH = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
STATUS = re.compile(rb"[A-Z]\d*")
PIECE = 1 << 16
SUBMODULE, LINK = "160000", "120000"
LARGEST = 1_000_000  # bytes; a larger file is data, or generated
LONGEST = MAX_ID_BYTES - 10  # bytes of a path: it is an id, which may end with a number
SNIFFED = 8_000  # bytes in which git searches for a NUL to detect binary files


class RepositoryUnreadable(PAMError, OSError):
    """git is not installed, or cannot read the repository."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file that a commit changed.

    Attributes:
        kind: git's letter: A added, M modified, D deleted, R renamed, T another type.
        path: path of the file after the commit; of a deleted file, its path before.
        before: the path before a rename, else None.
    """

    kind: str
    path: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with one parent or none.

    Attributes:
        id: its full hash.
        time: time of the committer, seconds since 1970; -1 if a broken tool wrote none.
        message: the whole message.
        changes: the files that it changed.
    """

    id: str
    time: int
    message: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A file of a commit: its path, the hash of its content, and its size in bytes."""

    path: str
    blob: str
    size: int


class Repository:
    """A repository to read.

    Args:
        path: its folder, any folder below it, or a bare repository.

    Attributes:
        path: the folder in which git is started.
        git_folder: the folder in which git stores its own files: `.git`, or that of a linked worktree inside it.

    Raises:
        InvalidInput: there is no repository.
        RepositoryUnreadable: git is not installed.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise InvalidInput(f"{path} is no folder.", "a git repository", "Pass the folder that holds .git.")
        self.path = path
        self.git_folder = Path(self._line("rev-parse", "--absolute-git-dir"))

    def commit(self, revision: str) -> str:
        """Returns the full hash of the commit of a revision.

        Raises:
            InvalidInput: there is no such commit, for example in an empty repository.
        """
        done = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", check=False)
        name = done.stdout.decode().strip()
        if done.returncode or not HASH.fullmatch(name.encode()):
            raise InvalidInput(
                f"Got the revision {revision!r}, which names no commit of {self.path}.",
                "a branch, a tag or a hash",
                "Commit something first, or pass --revision.",
            )
        return name

    def has(self, commit: str) -> bool:
        """Returns whether a commit still exists."""
        return not self._run("cat-file", "-e", f"{commit}^{{commit}}", check=False).returncode

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Returns whether the history of ``newer`` contains ``older``."""
        return not self._run("merge-base", "--is-ancestor", older, newer, check=False).returncode

    def boundary(self) -> list[str]:
        """Returns the commits at which a shallow clone ends, sorted: their changes are unknown."""
        file = self.path / self._line("rev-parse", "--git-path", "shallow")
        return sorted(file.read_text().split()) if file.exists() else []

    def commits(self, tip: str, since: str | None = None) -> Iterator[Commit]:
        """Yields the commits of ``tip`` that ``since`` does not have, the newest first, without merges."""
        yield from _parsed(self._stream("log", *LOG, tip, *([f"^{since}"] if since else []), "--"))

    def ids(self, tip: str, since: str) -> list[str]:
        """Returns the hashes of the commits of ``tip`` that ``since`` does not have."""
        return self._run("rev-list", tip, f"^{since}", "--").stdout.decode().split()

    def changed_before(self, commit: str, paths: Sequence[str]) -> bool:
        """Returns whether ``commit`` or an earlier commit may have changed a file at one of these paths."""
        # a path with a line break is no line, and "\\x" may stand for bytes that are no UTF-8: git cannot be asked
        if any("\n" in path or "\\x" in path for path in paths):
            return True
        if not paths:
            return False
        given = "\n".join([commit, "--", *paths])
        return bool(
            self._run(
                "--literal-pathspecs", "rev-list", "-1", "--stdin", given=given.encode("utf-8", "replace")
            ).stdout.strip()
        )

    def renames(self, old: str, new: str) -> list[Change]:
        """Returns the files whose paths in the commits ``old`` and ``new`` differ."""
        wanted = ("-r", "-z", "-M", "-l1000", "--no-ext-diff", "--name-status", "--diff-filter=R")
        tokens = iter(self._run("diff-tree", *wanted, old, new, "--").stdout.split(b"\0"))
        return [_change(token, tokens) for token in tokens if token]

    def files(self, commit: str) -> list[File]:
        """Returns the files of a commit that may be text: no links, submodules or ignored files, and no large ones."""
        found = []
        for line in self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit).stdout.split(b"\0"):
            if line:
                about, path = line.split(b"\t", 1)
                mode, _, blob, size = about.decode().split()
                name = _path(path)
                if size == "BAD":  # older versions of git fail in a partial clone, newer ones do not
                    raise self._missing(name)
                if mode not in {SUBMODULE, LINK} and int(size) <= LARGEST and len(name.encode()) <= LONGEST:
                    found.append(File(name, blob, int(size)))
        ignored = self._ignored([file.path for file in found])
        return [file for file in found if file.path not in ignored]

    def texts(self, blobs: Sequence[str]) -> list[str | None]:
        """Returns the content of each blob, None for a binary blob."""
        if not blobs:
            return []
        answer = self._run("cat-file", "--batch", given="".join(f"{blob}\n" for blob in blobs).encode()).stdout
        texts: list[str | None] = []
        at = 0
        for blob in blobs:
            end = answer.index(b"\n", at)
            header = answer[at:end].split()
            if len(header) != 3 or header[1] != b"blob":
                raise RepositoryUnreadable(f"git has no content of {blob}.", "a whole repository", "Run git fsck.")
            content = answer[end + 1 : end + 1 + int(header[2])]
            texts.append(None if b"\0" in content[:SNIFFED] else content.decode("utf-8", "replace"))
            at = end + 2 + int(header[2])
        return texts

    def _ignored(self, paths: Iterable[str]) -> set[str]:
        """Returns the files that .gitignore lists, although they are in the repository."""
        # "./" prevents git from reading a path as a pathspec with magic, for example ":(top)a"
        given = b"".join(b"./" + path.encode("utf-8", "replace") + b"\0" for path in paths)
        if not given or self._line("rev-parse", "--is-inside-work-tree") != "true":
            return set()
        top = self._line("rev-parse", "--show-toplevel")
        done = self._run("-C", top, "check-ignore", "--no-index", "-z", "--stdin", given=given, check=False)
        return {_path(path).removeprefix("./") for path in done.stdout.split(b"\0") if path}

    def _line(self, *arguments: str) -> str:
        return self._run(*arguments).stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return ["git", *SAFE, "-C", str(self.path), *arguments]

    def _run(
        self, *arguments: str, given: bytes | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            done = subprocess.run(  # noqa: S603 - no shell; revisions and paths come after options
                self._command(arguments),
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                capture_output=True,
                env=_environment(),
                check=False,
            )
        except FileNotFoundError as error:
            raise _no_git() from error
        if check and done.returncode:
            raise self._failed(done.stderr)
        return done

    def _stream(self, *arguments: str) -> Iterator[bytes]:
        """Yields the output of git, split at NULs."""
        with tempfile.TemporaryFile() as errors:  # a full pipe without a reader would block git
            with subprocess.Popen(  # noqa: S603 - as above
                self._command(arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
            ) as git:
                assert git.stdout is not None
                rest = b""
                while piece := git.stdout.read(PIECE):
                    *whole, rest = (rest + piece).split(b"\0")
                    yield from whole
            if git.returncode:
                errors.seek(0)
                raise self._failed(errors.read())

    def _missing(self, name: str) -> PAMError:
        partial = self._run("config", "--get-regexp", r"^remote\..*\.promisor$", check=False).stdout
        return self._failed(f"fatal: the contents of {name} are missing\n".encode("utf-8", "replace") + partial)

    def _failed(self, errors: bytes) -> PAMError:
        lines = errors.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        words = next((line for line in lines if line.startswith("fatal:")), lines[0])
        if "not a git repository" in words:
            return InvalidInput(f"{self.path} is no git repository.", "one", "Pass the folder that holds .git.")
        got, whole, fix = f"git could not read {self.path}: {words}.", "a whole repository", "Try git fsck."
        if any("promisor" in line for line in lines):
            whole, fix = f"{whole}, not a partial clone", "Call git fetch --refetch --no-filter in it."
        remedy = next((line.strip() for line in lines if "--add safe.directory" in line), None)
        if remedy is not None:
            whole, fix = "a repository of this user", f"If you trust it: {remedy}"
        return RepositoryUnreadable(got, whole, fix)


def _environment() -> dict[str, str]:
    """Returns the environment of this process without variables that redirect git, for example GIT_DIR in a hook."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return environment | {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}


def _no_git() -> RepositoryUnreadable:
    return RepositoryUnreadable("There is no program git.", "git 2.31 or later", "Install it: https://git-scm.com")


def _parsed(tokens: Iterator[bytes]) -> Iterator[Commit]:
    """Yields commits parsed from git log: hash, time, message, then kind and path of each change."""
    header: tuple[bytes, bytes, bytes] | None = None
    changes: list[Change] = []
    for raw in tokens:
        token = raw.lstrip(b"\n")
        if HASH.fullmatch(token):
            if header:
                yield _commit(header, changes)
            header, changes = (token, next(tokens), next(tokens)), []
        elif STATUS.fullmatch(token):
            changes.append(_change(token, tokens))
    if header:
        yield _commit(header, changes)


def _commit(header: tuple[bytes, bytes, bytes], changes: list[Change]) -> Commit:
    name, time, message = header
    return Commit(name.decode(), int(time or -1), message.decode("utf-8", "replace"), tuple(changes))


def _change(token: bytes, tokens: Iterator[bytes]) -> Change:
    kind = chr(token.lstrip(b"\n")[0])
    if kind in "RC":
        before, path = next(tokens), next(tokens)
        return Change(kind, _path(path), _path(before) if kind == "R" else None)
    return Change(kind, _path(next(tokens)))


def _path(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
