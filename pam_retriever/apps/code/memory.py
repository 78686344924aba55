"""Queries to a code memory: the files that a change needs, with the commits as reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from pam_retriever.apps.code.learning import COMMIT, FILE, state_of
from pam_retriever.apps.code.texts import path_words, subject
from pam_retriever.embedding import Embedder
from pam_retriever.errors import InvalidInput
from pam_retriever.experience.feedback import Feedback
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import Float32, Hits
from pam_retriever.validation import check_count

REASONS = 3  # commits per file in an answer
DEPTH = 50  # hits of each changed file that are summed


@dataclass(frozen=True)
class Reason:
    """A commit that supports a file.

    Attributes:
        commit: the hash.
        subject: the first line of its message.
        date: as ISO 8601, or None.
        likeness: cosine similarity to the question; None for a query by files.
    """

    commit: str
    subject: str
    date: str | None
    likeness: float | None


@dataclass(frozen=True)
class FileHit:
    """A file that a change may need.

    Attributes:
        path: the current path.
        score: the sort key.
        commits: number of commits that changed the file, or that changed it together with the given files.
        reasons: the best of these commits; none for a file that is found only by its path and contents.
    """

    path: str
    score: float
    commits: int
    reasons: tuple[Reason, ...]

    def to_dict(self) -> dict[str, object]:
        """A dict that JSON can hold."""
        return asdict(self)


class CodeMemory:
    """A query interface to an index from ``pam-retriever git``.

    Args:
        index: an open or loaded index.
        embedder: the embedder of the index.

    Raises:
        InvalidInput: the index is no code memory.
    """

    def __init__(self, index: PredictiveAssociativeIndex, embedder: Embedder) -> None:
        if state_of(index) is None:
            raise InvalidInput(
                "The index is no code memory.", "an index that `pam-retriever git` made", "Run pam-retriever git."
            )
        self._index, self._embedder = index, embedder

    def recall(self, question: str, k: int = 10, where: Mapping[str, object] | None = None) -> list[FileHit]:
        """Returns the files that a described change needs, best first, each with similar past commits.

        Args:
            question: for example the first line of a commit message.
            k: number of files, at most.
            where: metadata filter; files have the key ``path``.

        Raises:
            InvalidInput: an argument is invalid.
        """
        if not isinstance(question, str) or not question.strip():
            raise InvalidInput(f"Got the question {question!r}.", "words", "Describe the change.")
        vector, hits = self._ask(question, check_count("k", k), where)
        if not self._commits:
            return [self._hit(hit.id, hit.score, [], None) for hit in hits]
        likeness = self._vectors @ (vector / np.linalg.norm(vector))
        fit = likeness + _share_of_words(question, [commit.text or "" for commit in self._commits])
        found = []
        for hit in hits:
            mine = self._changing.get(hit.id, [])
            found.append(self._hit(hit.id, hit.score, sorted(mine, key=lambda at: -fit[at]), likeness))
        return found

    def changed_with(self, paths: Sequence[str], k: int = 10) -> list[FileHit]:
        """Returns the files that usually change together with the given files, best first, each with common commits.

        The score has two parts of equal weight: default recall, which covers similar and recent files, and the share of
        a file's commits that also changed the other file, which covers files that always change together.

        Args:
            paths: paths of files in the repository.
            k: number of files, at most.

        Raises:
            InvalidInput: there are no paths, or a path is not in the index.
        """
        if isinstance(paths, str) or not paths:
            raise InvalidInput(f"Got the paths {paths!r}.", "a list of one or more", "Name the files that changed.")
        count, ids = check_count("k", k), list(dict.fromkeys(self._id(path) for path in paths))
        scores: dict[str, float] = {}
        depth = DEPTH + len(ids) + count
        for id, hits in zip(ids, self._index.recall_many(ids, k=depth, where=_files(None)), strict=True):
            shares = self._shares(id)
            recalled = {hit.id: hit.score for hit in hits} if shares.keys() - {id} else self._by_path(id, hits, depth)
            for source in (recalled, shares):
                for other, score in source.items():
                    scores[other] = scores.get(other, 0.0) + score / len(ids)
        ranked = sorted((id for id in scores if id not in ids), key=lambda id: -scores[id])[:count]
        commits = {at for id in ids for at in self._changing.get(id, [])}
        found = []
        for id in ranked:
            both = [at for at in self._changing.get(id, []) if at in commits]
            found.append(self._hit(id, scores[id], both[::-1], None))
        return found

    def _ask(self, question: str, k: int, where: Mapping[str, object] | None) -> tuple[Float32, Hits]:
        """Returns the vector of a question, and its hits by default recall."""
        vector = np.asarray(self._embedder.queries([question]), np.float32)[0]
        return vector, self._index.recall(vector, k=k, text=question, where=_files(where))

    def _by_path(self, id: str, known: Hits, k: int) -> dict[str, float]:
        """Returns scores for a file without common commits: scores of ``known``, plus scores by words of its path."""
        found: dict[str, float] = {}
        for hits in (known, self._ask(path_words(self._paths[id]), k, None)[1]):
            others = [hit for hit in hits if hit.id != id]
            best = max([hit.score for hit in others if hit.score > 0], default=1.0)
            for hit in others:
                found[hit.id] = found.get(hit.id, 0.0) + hit.score / best / 2
        return found

    def _hit(self, id: str, score: float, commits: list[int], likeness: Float32 | None) -> FileHit:
        reasons = tuple(
            _reason(self._commits[at], None if likeness is None else float(likeness[at])) for at in commits[:REASONS]
        )
        return FileHit(self._paths[id], float(score), len(commits), reasons)

    def _shares(self, id: str) -> dict[str, float]:
        """Returns other file -> the share of this file's commits that changed it, with one pseudo-commit added."""
        mine = self._changing.get(id, [])
        together = Counter(other for at in mine for other in self._commits[at].used)
        return {other: count / (len(mine) + 1) for other, count in together.items()}

    def _id(self, path: str) -> str:
        name = str(path).replace("\\", "/").removeprefix("./")
        id = self._ids.get(name)
        if id is None:
            near = get_close_matches(name, self._ids, 3, 0.5)
            raise InvalidInput(
                f"Got the path {path!r}, which is not in the index.",
                "a file of the repository, from its root" + (f", such as {', '.join(near)}" if near else ""),
                "Run `pam-retriever git` after a commit that adds it.",
            )
        return id

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {record.id: str(record.metadata["path"]) for record in self._index.find({"kind": FILE})}

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {path: id for id, path in self._paths.items()}

    @cached_property
    def _commits(self) -> list[Feedback]:
        """Returns the commits from the oldest to the newest."""
        return sorted(self._index.feedbacks({"kind": COMMIT}), key=lambda one: one.timestamp or 0.0)

    @cached_property
    def _vectors(self) -> Float32:
        vectors = np.stack([commit.vector for commit in self._commits])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    @cached_property
    def _changing(self) -> dict[str, list[int]]:
        """Returns for each file the positions of its commits."""
        found: dict[str, list[int]] = {}
        for at, commit in enumerate(self._commits):
            for id in commit.used:
                found.setdefault(id, []).append(at)
        return found


def _files(where: Mapping[str, object] | None) -> dict[str, object]:
    kind: dict[str, object] = {"kind": FILE}
    return {"$and": [kind, dict(where)]} if where else kind


def _reason(commit: Feedback, likeness: float | None) -> Reason:
    date = None if commit.timestamp is None else datetime.fromtimestamp(commit.timestamp, timezone.utc).isoformat()
    return Reason(commit.id, subject(commit.text or ""), date, likeness)


def _share_of_words(question: str, messages: list[str]) -> Float32:
    """Returns the share (n,) of the question's words in each message, with more weight for rare words."""
    wanted = set(path_words(question).split())
    has = np.array([[word in words for word in wanted] for words in (set(path_words(m).split()) for m in messages)])
    weights = np.log1p(len(messages) / (1 + has.sum(axis=0)))
    shares: Float32 = (has @ weights / max(float(weights.sum()), 1e-9)).astype(np.float32)
    return shares
