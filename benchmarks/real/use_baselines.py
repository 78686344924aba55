"""Simple methods for tasks of use, each with strong settings.

``q`` is a request, ``p`` a past request, and ``Y[p, m]`` is 1 if ``p`` used the item ``m``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from benchmarks.real.use_tasks import Requests, Scores, Task
from benchmarks.real.use_words import splitter
from pam_retriever.retrieval.mixture.words import BM25, WordIndex

NEAREST = 30
HALF_LIVES = (20, 200, 1000)
RECENCY_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
RIDGES = (0.1, 0.3, 1.0)
LARGEST_KERNEL = 17_000  # largest number of requests, for which the kernel matrix takes 1.2 GB
HELD_OUT = 0.2


def scores(task: Task, fitted: bool = True) -> dict[str, Scores]:
    """Returns (Q, N) scores by the name of the method; ``fitted`` is False to leave out kernel ridge."""
    found = _plain(task, task.experience, task.tests)
    life, weight = _best_recency(task)
    found[f"kNN + .3 cosine + {weight} recency {life}"] = found[SUM] + weight * scaled(found[f"recency {life}"])
    if fitted and len(task.experience) <= LARGEST_KERNEL:
        found["kernel ridge"] = kernel_ridge(task, task.experience, task.tests, _best_ridge(task))
    if (task.cues >= 0).any():
        found |= _together(task)
    return found


SUM = "dense + lexical kNN + .3 cosine"


def _plain(task: Task, past: Requests, requests: Requests) -> dict[str, Scores]:
    used = matrix(past, len(task.texts))
    cosine = requests.vectors @ task.vectors.T
    split = splitter()
    words = [split(text) for text in requests.texts]
    own = BM25([(WordIndex.of([split(text) for text in task.texts]), 1.0)])
    found = {"cosine": cosine, "BM25": np.stack([own.scores(row) for row in words])}
    found["popularity"] = _for_all(used.sum(axis=0), len(requests))
    age = np.arange(len(past))[::-1]
    for life in HALF_LIVES:
        found[f"recency {life}"] = _for_all(used.T @ (0.5 ** (age / life)), len(requests))
    dense = requests.vectors @ past.vectors.T
    past_words = BM25([(WordIndex.of([split(text) for text in past.texts]), 1.0)])
    lexical = np.stack([past_words.scores(row) for row in words])
    found["dense kNN"] = nearest(dense, used, lambda value: np.exp(10 * (value - value.max(axis=1, keepdims=True))))
    found["lexical kNN"] = nearest(lexical, used, lambda value: value)
    found["dense + lexical kNN"] = scaled(found["dense kNN"]) + scaled(found["lexical kNN"])
    found[SUM] = found["dense + lexical kNN"] + 0.3 * scaled(cosine)
    means = used.T @ past.vectors
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    found["mean request"] = requests.vectors @ means.T
    return found


def matrix(past: Requests, things: int) -> sparse.csr_array:
    """Returns the uses of each request, (P, N)."""
    rows = np.repeat(np.arange(len(past)), [len(used) for used in past.used])
    columns = np.array([one for used in past.used for one in used], np.int64)
    return sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), (len(past), things))


def scaled(values: Scores) -> Scores:
    """Returns each row divided by its largest value."""
    return values / np.maximum(values.max(axis=1, keepdims=True), 1e-9)


def nearest(likeness: Scores, used: sparse.csr_array, weigh: object) -> Scores:
    """Returns the weighted sum of the uses of the 30 nearest past requests."""
    n = min(NEAREST, likeness.shape[1])
    top = np.argpartition(-likeness, n - 1, axis=1)[:, :n]
    weights = weigh(np.take_along_axis(likeness, top, axis=1))  # type: ignore[operator]
    rows = np.repeat(np.arange(len(likeness)), n)
    return (sparse.csr_array((weights.ravel(), (rows, top.ravel())), likeness.shape) @ used).toarray()


def kernel_ridge(task: Task, past: Requests, requests: Requests, ridge: float) -> Scores:
    """Predicts items from requests by kernel ridge regression; the kernel is half dense, half TF-IDF."""
    among, across = _kernel(past, past), _kernel(requests, past)
    among[np.diag_indices_from(among)] += np.float32(ridge)
    factor = linalg.cho_factor(among, lower=True, overwrite_a=True, check_finite=False)
    weights = linalg.cho_solve(factor, matrix(past, len(task.texts)).toarray(), check_finite=False)
    return across @ weights


def _kernel(left: Requests, right: Requests) -> Scores:
    split = splitter()
    words = [set(split(text)) for text in right.texts]
    position = {word: at for at, word in enumerate(sorted(set().union(*words)))}
    frequency = np.zeros(len(position))
    for row in words:
        frequency[[position[word] for word in row]] += 1
    idf = np.log((len(words) + 1) / (frequency + 0.5))

    def table(texts: list[str]) -> sparse.csr_array:
        rows, columns = [], []
        for at, text in enumerate(texts):
            present = [position[word] for word in set(split(text)) if word in position]
            rows += [at] * len(present)
            columns += present
        values = sparse.csr_array((idf[columns], (rows, columns)), (len(texts), len(position)), dtype=np.float32)
        norms = np.sqrt((values * values).sum(axis=1))
        return sparse.diags_array(1 / np.maximum(norms, 1e-9)).astype(np.float32) @ values

    lexical = (table(left.texts) @ table(right.texts).T).toarray()
    return np.exp(2 * (0.5 * (left.vectors @ right.vectors.T) + 0.5 * lexical - 1)).astype(np.float32)


def _held_out(task: Task) -> tuple[Requests, Requests]:
    """Splits experience; the last fifth, at most 500 requests, is held out."""
    total = len(task.experience)
    cut = round(total * (1 - HELD_OUT))
    return task.experience.take(np.arange(cut)), task.experience.take(np.arange(cut, total)[:TUNED])


TUNED = 500


def _recall(values: Scores, requests: Requests) -> float:
    top = np.argsort(-values, axis=1, kind="stable")[:, :5].tolist()
    return float(
        np.mean(
            [len(set(row) & set(used)) / min(5, len(set(used))) for row, used in zip(top, requests.used, strict=True)]
        )
    )


def _best_recency(task: Task) -> tuple[int, float]:
    past, requests = _held_out(task)
    found = _plain(task, past, requests)
    worth = {
        (life, weight): _recall(found[SUM] + weight * scaled(found[f"recency {life}"]), requests)
        for life in HALF_LIVES
        for weight in RECENCY_WEIGHTS
    }
    return max(worth, key=worth.__getitem__)


def _best_ridge(task: Task) -> float:
    past, requests = _held_out(task)
    past = past.take(np.arange(max(0, len(past) - 3000), len(past)))
    return max(RIDGES, key=lambda ridge: _recall(kernel_ridge(task, past, requests, ridge), requests))


def _together(task: Task) -> dict[str, Scores]:
    """Returns co-use counts with a stored cue, their cosine, and those of its five most similar items."""
    used = matrix(task.experience, len(task.texts))
    counts = (used.T @ used).toarray()
    total = np.diag(counts).copy()
    near = np.argsort(-(task.vectors[task.cues] @ task.vectors.T), axis=1)[:, :5]
    cosine = counts / np.sqrt(np.maximum(np.outer(total, total), 1))
    return {
        "used together": counts[task.cues],
        "used together, cosine": cosine[task.cues],
        "used with the five nearest": counts[near].sum(axis=1),
        "used together, cosine + .3 similarity": scaled(cosine[task.cues])
        + 0.3 * scaled(task.vectors[task.cues] @ task.vectors.T),
    }


def _for_all(values: npt.NDArray[np.floating], questions: int) -> Scores:
    return np.broadcast_to(np.asarray(values, np.float32).ravel(), (questions, np.asarray(values).size))
