"""Reads a repository into an index: files become memories, commits become feedback and experience.

The index has one more memory, ``STATE``, which records the last commit that was read. One transaction writes it
together with the files. So after a kill, the next run continues from the stored files, without losses or duplicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import groupby
from typing import TypedDict

import numpy as np

from pam_retriever.apps.code.repository import Change, Commit, Repository
from pam_retriever.apps.code.texts import file_text, message_text
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import Float32, Metadata, Record, Trajectory
from pam_retriever.validation import check_count

STATE = "git:repository"
FILE, COMMIT, REPOSITORY = "file", "commit", "repository"  # kinds of memories, in the metadata
MOST_FILES = 20  # per commit; a larger commit tells little about each file, and is not learnt
BATCH = 500  # files whose contents are in memory together
LATEST = 2**37  # seconds; a later time comes from a wrong clock


class Settings(TypedDict):
    """The rules that select commits: the largest number of files, and the end of a shallow clone."""

    most_files: int
    shallow: list[str]


@dataclass
class LearningReport:
    """The report of a run.

    Attributes:
        head: the commit of the files in the index.
        commits: number of commits learnt in this run.
        giant: number of commits skipped because they change too many files.
        empty: number of commits skipped because none of their files exists today.
        forgotten: number of commits deleted because the history was rewritten.
        added, changed, renamed, removed: numbers of files.
        rewritten: whether the history was rewritten since the last run.
        shallow: whether the repository has only a part of its history.
        seconds: wall-clock time.
    """

    head: str
    commits: int = 0
    giant: int = 0
    empty: int = 0
    forgotten: int = 0
    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    rewritten: bool = False
    shallow: bool = False
    seconds: float = 0.0

    def __str__(self) -> str:
        files = (
            f"{counted(self.added, 'file')} added, {self.changed:,} changed, {self.renamed:,} renamed, "
            f"{self.removed:,} removed"
        )
        left = f"{self.giant:,} giant and {self.empty:,} empty ones left out"
        rewritten = (
            f"; the history was rewritten, {counted(self.forgotten, 'commit')} forgotten" if self.rewritten else ""
        )
        shallow = "; the clone is shallow: older commits are not in it" if self.shallow else ""
        return f"{counted(self.commits, 'commit')} learnt, {left}; {files}; at {self.head[:12]}{rewritten}{shallow}"


@dataclass(frozen=True)
class NewCommit:
    """A commit to store: its message, and the ids of the changed files."""

    id: str
    time: datetime | None
    message: str
    used: list[str]


Progress = Callable[[list[list[NewCommit]]], Iterable[list[NewCommit]]]


def state_of(index: PredictiveAssociativeIndex) -> dict[str, object] | None:
    """Returns the stored state of an index; None if it is no code memory."""
    found = index.get([STATE], missing_ok=True)
    state = found[0].metadata if found else {}
    return dict(state) if state.get("kind") == REPOSITORY else None


def learn(
    index: PredictiveAssociativeIndex,
    repository: Repository,
    revision: str = "HEAD",
    most_files: int = MOST_FILES,
    progress: Progress = iter,
) -> LearningReport:
    """Updates an index to a revision of a repository; does not read known commits again.

    Args:
        index: an index with an embedder; new, or from an earlier run.
        repository: the repository to read.
        revision: a branch, a tag or a hash.
        most_files: a commit that changes more files is skipped.
        progress: wraps the batches of commits, as tqdm does.

    Raises:
        InvalidInput: the index has other contents, or belongs to another repository.
    """
    began = time.perf_counter()
    state = state_of(index)
    if state is None and len(index):
        raise InvalidInput(
            "The index has memories that are not files of a repository.", "a new index", "Pass a folder."
        )
    boundary = repository.boundary()
    report = LearningReport(repository.commit(revision), shallow=bool(boundary))
    settings: Settings = {"most_files": check_count("most_files", most_files), "shallow": boundary}
    past = _past(repository, state, report.head, settings)
    report.rewritten = past.rewritten
    if not past.since == past.files_at == report.head:
        _learn(index, repository, past, settings, report, progress)
    report.seconds = time.perf_counter() - began
    return report


@dataclass(frozen=True)
class _Past:
    """The part of the history that an index knows.

    Attributes:
        since: the last known commit; None to read the history from its beginning.
        files_at: the commit of the stored files, if it still exists.
        linear: whether the history continues from ``since``.
        gone: known commits that are no longer in the history.
        rewritten: whether the history was rewritten.
    """

    since: str | None = None
    files_at: str | None = None
    linear: bool = True
    gone: tuple[str, ...] = ()
    rewritten: bool = False


def _past(repository: Repository, state: dict[str, object] | None, tip: str, settings: Settings) -> _Past:
    if state is None:
        return _Past()
    head, files_at = (str(state[name]) if state.get(name) else None for name in ("head", "files_at"))
    files_at = files_at if files_at and repository.has(files_at) else None
    if head is None:
        return _Past(None, files_at, linear=False)
    if not repository.has(head):
        if state.get("path") != str(repository.path.resolve()):
            raise InvalidInput(
                f"The index is of {state.get('path')}; {repository.path} has not its commit {head[:12]}.",
                "the same repository, or a new index",
                "Pass another INDEX.",
            )
        return _Past(None, files_at, linear=False, rewritten=True)
    linear = repository.is_ancestor(head, tip)
    if any(state.get(name) != value for name, value in settings.items()):
        return _Past(None, files_at, linear=False, rewritten=not linear)
    return _Past(head, files_at, linear, () if linear else tuple(repository.ids(head, tip)), not linear)


def _learn(
    index: PredictiveAssociativeIndex,
    repository: Repository,
    past: _Past,
    settings: Settings,
    report: LearningReport,
    progress: Progress,
) -> None:
    tip, since = report.head, past.since
    commits = list(repository.commits(tip, since))
    files = _Files(index, repository, tip)
    renames = _renames(repository, past, tip, commits)
    files.follow(renames)
    if since is not None and (
        repository.changed_before(since, files.new_paths())
        or (not past.linear and (any(renames) or _moved(commits) or _moved(repository.commits(since, tip))))
    ):
        # a path that had a file before has one again, or a rename is gone or new, so older commits are of other files
        since, commits = None, list(repository.commits(tip))
    record = {"kind": REPOSITORY, "path": str(repository.path.resolve()), **settings}
    files.store({**record, "head": since, "files_at": tip}, report)
    there: set[str] = set()
    vectors: dict[str, Float32] = {}
    if since is None:
        vectors = _forget(index, report)
    elif past.gone:
        report.forgotten = index.delete_feedback(list(past.gone))
        index.delete_trajectory(list(past.gone))
    if since is not None and since != past.files_at:  # an earlier run was interrupted
        there = {one.id for one in index.feedbacks({"kind": COMMIT})}
    new_commits = [one for one in _new_commits(commits, files.ids, settings, report) if one.id not in there][::-1]
    for batch in progress([new_commits[at : at + BATCH] for at in range(0, len(new_commits), BATCH)]):
        store(index, batch, vectors)
        report.commits += len(batch)
    index.update(STATE, metadata={**record, "head": tip, "files_at": tip})


def _forget(index: PredictiveAssociativeIndex, report: LearningReport) -> dict[str, Float32]:
    """Deletes the stored commits before the history is read again; returns the vectors of their messages."""
    vectors = {one.text: one.vector for one in index.feedbacks({"kind": COMMIT}) if one.text is not None}
    report.forgotten = index.delete_feedback(where={"kind": COMMIT})
    index.delete_trajectory(where={"kind": FILE})
    return vectors


def _moved(commits: Iterable[Commit]) -> bool:
    return any(change.before is not None for commit in commits for change in commit.changes)


def _renames(repository: Repository, past: _Past, tip: str, commits: list[Commit]) -> list[list[Change]]:
    """Returns the renames since the index read the files, commit by commit."""
    if past.files_at in {None, tip}:
        return []
    if past.linear and past.files_at == past.since:
        return [[change for change in commit.changes if change.before] for commit in reversed(commits)]
    return [repository.renames(str(past.files_at), tip)]


class _Files:
    """The files of a commit, and their memories.

    A renamed file keeps the id of its memory: the metadata have its current path.
    """

    def __init__(self, index: PredictiveAssociativeIndex, repository: Repository, tip: str) -> None:
        self._index, self._repository, self._files = index, repository, repository.files(tip)
        self._stored: dict[str, Record] = {record.id: record for record in index.find({"kind": FILE})}
        self.ids = {str(record.metadata["path"]): id for id, record in self._stored.items()}
        self._origins: dict[str, list[str]] = {}  # path of a moved file without a memory -> its earlier paths

    def follow(self, renames: list[list[Change]]) -> None:
        """Moves the memory of a file to its new path. Two files of one commit may swap paths."""
        for together in renames:
            unknown = [(change.before, change.path) for change in together if change.before not in self.ids]
            self._origins |= {
                path: [*self._origins.pop(before, []), before] for before, path in unknown if before is not None
            }
            self.ids |= {change.path: self.ids.pop(change.before) for change in together if change.before in self.ids}

    def new_paths(self) -> list[str]:
        """Returns the paths of text files at which the index has no file, and where files without a memory were before.

        The index never has a binary or an ignored file, but such a file may become one that it has.
        """
        known = {str(record.metadata["path"]) for record in self._stored.values()}
        new = [path for path in self._contents[1] if path not in known]
        return [*new, *(before for path in new for before in self._origins.get(path, []))]

    def store(self, state: dict[str, object], report: LearningReport) -> None:
        """Updates the memories to the files of the commit, and stores ``state`` in the same transaction.

        If files are removed and the run is killed, the next run reads the history from its beginning.
        """
        unchanged, texts = self._contents
        now = {file.path: file for file in self._files if file.path in unchanged or file.path in texts}
        gone = set(self._stored) - {self.ids[path] for path in now if path in self.ids}
        self.ids = {path: self.ids.get(path) or self._new_id(path) for path in now}
        about = f"The git repository {self._repository.path.resolve().name}, {counted(len(now), 'file')}"
        rows: list[tuple[str, str, Metadata]] = [(STATE, about, {**state, "head": None} if gone else state)]
        for path, text in texts.items():
            before, blob = self._stored.get(self.ids[path]), now[path].blob
            report.added += before is None
            report.renamed += before is not None and before.metadata["path"] != path
            report.changed += before is not None and before.metadata["blob"] != blob
            rows.append(
                (self.ids[path], file_text(path, text), {"kind": FILE, "path": path, "name": path, "blob": blob})
            )
        self._index.add(
            ids=[row[0] for row in rows], texts=[row[1] for row in rows], metadatas=[row[2] for row in rows]
        )
        if gone:
            self._leave_out(gone)
            report.removed = self._index.delete(sorted(gone))

    def _leave_out(self, gone: set[str]) -> None:
        """Stores commits without the files that are to be removed: a deleted memory leaves a gap, which is one step.

        Later commits are stored again, too, because the latest commits of a file count more.
        """
        commits = self._index.trajectories()
        first = next((at for at, commit in enumerate(commits) if _splits(commit.ids, gone)), len(commits))
        left = [(one.id, [id for id in one.ids if id not in gone]) for one in commits]
        alone = [commit for commit, ids in left[:first] if len(ids) < 2]
        self._index.delete_trajectory([*alone, *(commit for commit, _ in left[first:])])
        self._index.observe_many([Trajectory(ids=ids, id=commit) for commit, ids in left[first:] if len(ids) > 1])

    @cached_property
    def _contents(self) -> tuple[set[str], dict[str, str]]:
        """The paths of unchanged files, and the other text files with their contents, after ``follow``."""
        stored = {
            (path, self._stored[id].metadata["path"], self._stored[id].metadata["blob"])
            for path, id in self.ids.items()
        }
        unchanged = {file.path for file in self._files if (file.path, file.path, file.blob) in stored}
        new = [file for file in self._files if file.path not in unchanged]
        texts: dict[str, str] = {}
        for at in range(0, len(new), BATCH):
            some = new[at : at + BATCH]
            read = self._repository.texts([file.blob for file in some])
            texts |= {file.path: text for file, text in zip(some, read, strict=True) if text is not None}
        return unchanged, texts

    def _new_id(self, path: str) -> str:
        """Returns the path as id, with a number if a file that was moved to another path still has this id."""
        taken = {*self._stored, *self.ids.values(), STATE}
        id, number = path, 2
        while id in taken:
            id, number = f"{path}#{number}", number + 1
        return id


def _splits(ids: Sequence[str], gone: set[str]) -> bool:
    """Returns whether any of the ids that are ``gone`` stands between two others."""
    left = [at for at, id in enumerate(ids) if id not in gone]
    return bool(left) and left[-1] - left[0] >= len(left)


def _new_commits(
    commits: list[Commit], ids: dict[str, str], settings: Settings, report: LearningReport
) -> Iterator[NewCommit]:
    """Yields commits for the current files, the newest first. Renames since the commit map old paths to new ones."""
    today: dict[str, str] = {}  # path at the time -> current path
    for commit in commits:
        paths = [today.get(change.path, change.path) for change in commit.changes if change.kind != "D"]
        used = list(dict.fromkeys(ids[path] for path in paths if path in ids))
        today |= {
            change.before: today.get(change.path, change.path) for change in commit.changes if change.before is not None
        }
        message = message_text(commit.message)
        if commit.id in settings["shallow"]:
            continue
        if len(commit.changes) > settings["most_files"]:
            report.giant += 1
        elif not used or not message:
            report.empty += 1
        else:
            when = datetime.fromtimestamp(commit.time, timezone.utc) if 0 <= commit.time < LATEST else None
            yield NewCommit(commit.id, when, message, used)


def store(index: PredictiveAssociativeIndex, new_commits: list[NewCommit], vectors: dict[str, Float32]) -> None:
    """Stores commits, experience first: if the feedback of a commit is stored, its experience is, too.

    Args:
        index: an index with an embedder.
        new_commits: commits in order of time.
        vectors: vectors of messages that are already embedded.
    """
    index.observe_many([Trajectory(ids=commit.used, id=commit.id) for commit in new_commits if len(commit.used) > 1])
    for known, together in groupby(new_commits, lambda commit: commit.message in vectors):  # recent ones count more
        some = list(together)
        messages = [commit.message for commit in some]
        index.feedback(
            np.stack([vectors[message] for message in messages]) if known else messages,
            [commit.used for commit in some],
            text=messages if known else None,
            metadata=[{"kind": COMMIT} for _ in some],
            timestamp=[commit.time for commit in some],
            id=[commit.id for commit in some],
        )
