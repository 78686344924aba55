"""A strong baseline: retrieval from a dialogue without learning.

Every method is a family of settings. Each setting is a function from a prepared conversation to scores (Q, N). The
setting is chosen only on the tuning conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product

import bm25s
import numpy as np
import numpy.typing as npt
import Stemmer

from benchmarks.real.dialogue import Conversation, Scores, rank
from pam_retriever.mentions.stop_words import STOP_WORDS

Float32 = npt.NDArray[np.float32]
Family = dict[str, Callable[["Prepared"], Scores]]


class Prepared:
    """A conversation with its embeddings, and data that several methods share.

    Args:
        conversation: the dialogue.
        turns: (N, d) embeddings at unit length.
        windows: (N, d) embeddings of each turn with the one before and the one after.
        questions: (Q, d).
    """

    def __init__(self, conversation: Conversation, turns: Float32, windows: Float32, questions: Float32) -> None:
        self.conversation, self.turns, self.questions = conversation, turns, questions
        self.cosine: Scores = (questions @ turns.T).astype(float)
        self.window_cosine: Scores = (questions @ windows.T).astype(float)
        self._lexical: dict[tuple[int, str], Scores] = {}

    def bm25(self, window: int = 0, stop: str = "en") -> Scores:
        """Returns BM25 scaled to [0, 1]; with a window, a turn counts twice and each neighbour once.

        Args:
            window: number of turns before and after.
            stop: "en" is bm25s's own list of stop words, without stemming, its default; "questions" is this library's
                list of question words, with Porter stems.
        """
        key = window, stop
        if key not in self._lexical:
            texts = [turn["text"] for turn in self.conversation.turns]
            near = self.conversation.near(window)
            documents = [
                " ".join([text, *([text, *(texts[at] for at in np.flatnonzero(near[n]))] if window else [])])
                for n, text in enumerate(texts)
            ]
            options = {"stopwords": "en"}
            if stop == "questions":
                options = {"stopwords": STOP_WORDS.split(), "stemmer": Stemmer.Stemmer("porter")}
            scorer = bm25s.BM25()
            scorer.index(bm25s.tokenize(documents, show_progress=False, **options), show_progress=False)
            scores = []
            for question, _, _ in self.conversation.questions:
                # a question with only stop words has no words left
                terms = bm25s.tokenize([question], return_ids=False, show_progress=False, **options)[0]
                in_vocabulary = [term for term in terms if term in scorer.vocab_dict]
                scores.append(scorer.get_scores(in_vocabulary) if in_vocabulary else np.zeros(len(texts)))
            raw = np.array(scores, float)
            self._lexical[key] = raw / np.maximum(raw.max(axis=1, keepdims=True), 1e-9)
        return self._lexical[key]

    @cached_property
    def named(self) -> Scores:
        """Returns (Q, N) with 1 where the question names the speaker of the turn."""
        return np.array(
            [
                [float(turn["speaker"].lower() in question.lower()) for turn in self.conversation.turns]
                for question, _, _ in self.conversation.questions
            ]
        )

    def smooth(self, scores: Scores, share: float, window: int) -> Scores:
        """Adds to each score a share of the mean score of the turn's neighbours."""
        near = self.conversation.near(window)
        return scores + share * scores @ near / np.maximum(near.sum(axis=0), 1)


def families() -> dict[str, Family]:
    """Returns the baselines by name, each with its settings."""
    return {
        "BM25 (bm25s)": {"": lambda p: p.bm25()},
        "BM25, question words out, stemmed": {"": lambda p: p.bm25(0, "questions")},
        "dense cosine": {"": lambda p: p.cosine},
        "BM25 + dense, rank fusion": {"": lambda p: _fuse_ranks(p.bm25(), p.cosine)},
        "BM25 + dense, weighted": {f"{a}": _weighted(0, a, "en") for a in (0.5, 1, 2, 4)},
        "sentence window, equal budget": {f"{w}": _sentence_window(w) for w in (1, 2)},
        "embedding of 3-turn window": {"": lambda p: p.window_cosine},
        "BM25 over turns with context": {f"{w}": _context(w, "en") for w in (1, 2)},
        "temporal graph from dense hits": {f"{n} {a}": _graph(n, a) for n, a in product((5, 20), (0.3, 1.0))},
        "PageRank from dense hits": {f"{n} {d}": _pagerank(n, d) for n, d in product((5, 20), (0.3, 0.5, 0.85))},
        "BM25 + dense, smoothed": dict(_smoothed(0, "en")),
        "context hybrid, smoothed": {k: v for w in (1, 2) for k, v in _smoothed(w, "en")},
        "context hybrid, smoothed, question words out": {k: v for w in (1, 2) for k, v in _smoothed(w, "questions")},
        "the same, and the speaker's name": {
            f"{key}, name {bonus}": _with_name(score, bonus)
            for w in (1, 2)
            for key, score in _smoothed(w, "questions")
            for bonus in (0.2, 0.4)
        },
    }


BASES = (
    "dense cosine",
    "BM25 (bm25s)",
    "BM25 + dense, weighted",
    "BM25 + dense, smoothed",
    "context hybrid, smoothed, question words out",
)


def _weighted(window: int, share: float, stop: str) -> Callable[[Prepared], Scores]:
    return lambda p: p.bm25(window, stop) + share * p.cosine


def _context(window: int, stop: str) -> Callable[[Prepared], Scores]:
    return lambda p: p.bm25(window, stop)


def _smoothed(window: int, stop: str) -> Iterator[tuple[str, Callable[[Prepared], Scores]]]:
    def make(share: float, dense: str, smoothing: float, reach: int) -> Callable[[Prepared], Scores]:
        def score(p: Prepared) -> Scores:
            return p.smooth(p.bm25(window, stop) + share * getattr(p, dense), smoothing, reach)

        return score

    for share, dense, smoothing, reach in product(
        (1, 2), ("cosine", "window_cosine"), (0.3, 0.6), (2,) if window else (1, 2)
    ):
        yield f"context {window}, {share} {dense}, {smoothing} of {reach}", make(share, dense, smoothing, reach)


def _with_name(score: Callable[[Prepared], Scores], bonus: float) -> Callable[[Prepared], Scores]:
    return lambda p: score(p) + bonus * p.named


def _fuse_ranks(*parts: Scores) -> Scores:
    """Returns the settings of reciprocal rank fusion (Cormack 2009), k = 60."""
    return sum((1 / (61 + np.argsort(rank(part), axis=1)) for part in parts), np.zeros_like(parts[0]))


def _sentence_window(window: int) -> Callable[[Prepared], Scores]:
    """Inserts the neighbours of each dense hit into the ranking; they count towards the depth."""

    def score(p: Prepared) -> Scores:
        near = p.conversation.near(window)
        scores = np.zeros_like(p.cosine)
        for at, order in enumerate(rank(p.cosine)):
            listed = [turn for hit in order for turn in (hit, *np.flatnonzero(near[hit]))]
            unique = np.array(list(dict.fromkeys(listed)))
            scores[at, unique] = -np.arange(len(unique))
        return scores

    return score


def _hits(p: Prepared, count: int) -> Scores:
    """Returns the cosines of the ``count`` nearest turns, 0 for the others, (Q, N); each row is scaled to sum 1."""
    nearest = np.where(np.argsort(rank(p.cosine), axis=1) < count, np.maximum(p.cosine, 0), 0)
    return nearest / np.maximum(nearest.sum(axis=1, keepdims=True), 1e-9)


def _graph(count: int, share: float) -> Callable[[Prepared], Scores]:
    """Adds the neighbours of the nearest turns to cosine, by 1 / distance within five turns."""

    def score(p: Prepared) -> Scores:
        links = sum((p.conversation.near(w) for w in range(1, 6)), np.zeros((len(p.turns),) * 2)) / 5
        reached = _hits(p, count) @ links
        return p.cosine + share * reached / np.maximum(reached.max(axis=1, keepdims=True), 1e-9)

    return score


def _pagerank(count: int, damping: float) -> Callable[[Prepared], Scores]:
    """Returns personalised PageRank on the temporal graph, restarting at the dense hits (HippoRAG's mechanism)."""

    def score(p: Prepared) -> Scores:
        links = p.conversation.near(2)
        step = links / np.maximum(links.sum(axis=1, keepdims=True), 1)
        start = _hits(p, count)
        mass = start
        for _ in range(30):
            mass = (1 - damping) * start + damping * mass @ step
        return mass + 1e-6 * p.cosine  # turns that the walk does not reach follow, ordered by cosine

    return score
