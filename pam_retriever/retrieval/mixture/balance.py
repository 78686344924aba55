"""Before ``fit``: how far the words and vectors of memories, and past requests, are to be trusted in this index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.history import FirstUses, History
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, ask_of, join, parts
from pam_retriever.retrieval.mixture.influence import OF_APPEARANCE, OF_USE
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import (
    Evidence,
    Mixture,
    Priors,
    kinds_of_evidence,
    uninfluenced,
)
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.words import Field
from pam_retriever.types import Float32, Int64

SPREAD = 0.25  # how much the factors differ between data sets (benchmarks/priors/fit_balance.py)
FEWEST = 16  # past requests; with fewer both factors are 1
GROWTH = 2**0.5  # between two estimates, of the number of past requests
LATEST = 1000  # past requests that an estimate reads
QUESTIONS = 16  # past requests that it asks, in each of its three parts

EvidenceFrom = Callable[[Corpus, RequestLog], Evidence]


@dataclass(frozen=True)
class Balance:
    """Two factors for the priors of a question. Past requests that are asked again say how large they are.

    Attributes:
        appearance: the factor of the words, vectors, names and times of the memories.
        use: the factor of past requests. A request that is made again keeps its weight.
    """

    appearance: float = 1.0
    use: float = 1.0

    @classmethod
    def of(cls, log: RequestLog, corpus: Corpus, priors: Priors, evidence_of: EvidenceFrom) -> Balance:
        """Estimates the factors from the past requests; see ``asked_again``."""
        return cls.fit(asked_again(log, corpus, priors, evidence_of))

    @classmethod
    def fit(cls, choices: Choices | None, spread: float = SPREAD) -> Balance:
        """Returns the factors with the highest posterior probability, if ``spread`` is their prior deviation from 1."""
        if choices is None:
            return cls()
        ridge = np.full(2, 1 / (spread**2 * float(choices.weight.sum())))
        appearance, use = np.maximum(logit.fit(choices, np.ones(2), ridge), 0).tolist()
        return cls(appearance, use)

    def apply(self, features: tuple[str, ...], weights: Float32) -> Mixture:
        """Returns the mixture before ``fit`` for weights (3, F): those of a question are multiplied by the factors."""
        factors = np.array([self.appearance, self.use, 1.0], np.float32)[kinds_of_evidence(features)]
        balanced: Float32 = weights.copy()
        balanced[0] *= factors
        return Mixture(features, balanced, uninfluenced=uninfluenced(features, weights) * factors)


def asked_again(log: RequestLog, corpus: Corpus, priors: Priors, evidence_of: EvidenceFrom) -> Choices | None:
    """Returns past requests as questions after earlier ones, with their scores by appearance and by past use.

    Only the first requests are read, and the memories up to the last one that these name. So the result stays the same
    until the log has grown by ``GROWTH``.

    Args:
        log: past requests.
        corpus: the memories.
        priors: the weights of both scores.
        evidence_of: makes the evidence of some memories and requests.
    """
    count = requests_read(len(log))
    at = np.arange(max(0, count - LATEST), count)
    uses = log.uses.take(at)
    if not len(uses.rows):
        return None
    memories = EarlierMemories(corpus, int(uses.rows.max()) + 1)
    found = _asked(History(log.vectors[at], log.words_of(at), uses, memories), memories, priors, evidence_of)
    return join(found).choices if found else None


def requests_read(count: int) -> int:
    """Returns how many of ``count`` past requests an estimate reads: the last of a geometric series, or 0."""
    if count < FEWEST:
        return 0
    steps = int(np.log(count / FEWEST) / np.log(GROWTH) + 1e-9)
    return round(FEWEST * GROWTH**steps)


def _asked(
    history: History, memories: EarlierMemories, priors: Priors, evidence_of: EvidenceFrom
) -> list[HeldOutQuestions]:
    """Returns held-out questions with two features: the scores by appearance and by past use, as the priors say."""
    random, found = np.random.default_rng(0), []
    for part, (known, held) in enumerate(parts(len(history), history.timed, 0)):
        log = history.log(known)
        evidence = evidence_of(memories, log)
        first_uses = FirstUses.of(history, evidence.used, held, random)
        weights = priors.at(evidence.features, len(log))
        both = np.stack([weights[0], uninfluenced(evidence.features, weights)], axis=1)
        kinds = kinds_of_evidence(evidence.features)
        questions = ask_of(history, evidence, held, first_uses, random, part, QUESTIONS)
        for kind, asked in islice(questions, 2):  # the requests, and the same with some memories hidden
            if kind == 0 and len(asked) and asked.influence is not None:
                choices, influence = asked.choices, asked.influence[asked.choices.question]
                scores = []
                for at, column in enumerate((OF_APPEARANCE, OF_USE, OF_USE)):
                    of = choices.features[:, kinds == at] @ both[kinds == at]
                    scores.append(of[:, 0] * influence[:, column] + of[:, 1] * (1 - influence[:, column]))
                scored = replace(choices, features=np.stack(scores[:2], axis=1), offset=choices.offset + scores[2])
                found.append(replace(asked, choices=scored))
    return found


class EarlierMemories(Corpus):
    """The first memories of a corpus. Later memories, and all links, mentions and times, change nothing here.

    Args:
        corpus: all memories.
        n: the number of the first ones, at least 1.
    """

    def __init__(self, corpus: Corpus, n: int) -> None:
        rows = corpus.rows[:n]
        super().__init__(corpus.view, Lexicon(corpus.view.database, int(rows[-1])))
        self.rows = rows
        none = np.empty(0, np.int64)
        self._links = CooccurrenceGraph(none, none, none)
        self._earlier_names = _EarlierWords(corpus.names, n)

    def nearest(self, vectors: Float32, n: int, allowed: Rows | None = None) -> list[Int64]:
        return super().nearest(vectors, n, self.rows if allowed is None else allowed)

    def mentioning(self) -> None:
        return None

    @property
    def names(self) -> Field:
        return self._earlier_names


class _EarlierWords:
    """The words of the first ``n`` memories."""

    def __init__(self, words: Field, n: int) -> None:
        self._words, self._n = words, n

    @property
    def lengths(self) -> Float32:
        return self._words.lengths[: self._n]

    @property
    def version(self) -> object:
        return self._words.version

    def counts(self, word: str) -> tuple[Int64, Float32]:
        rows, counts = self._words.counts(word)
        return rows[rows < self._n], counts[rows < self._n]
