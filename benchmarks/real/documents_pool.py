"""The passages and questions of ``benchmarks.real.documents``, with their cosines and BM25."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import bm25s
import numpy as np
import numpy.typing as npt
import Stemmer

from pam_retriever.mentions.edges import LEXICAL
from pam_retriever.mentions.stop_words import STOP_WORDS
from pam_retriever.types import Float32

Scores = npt.NDArray[np.float64]


@dataclass
class Pool:
    """The passages and questions of one file.

    Attributes:
        titles: titles of the passages.
        texts: texts of the passages.
        questions: the original texts.
        supporting: positions of the passages that each question needs.
        vectors: (N, d) unit embeddings of the texts.
        question_vectors: (Q, d) unit embeddings of the questions.
    """

    titles: list[str]
    texts: list[str]
    questions: list[str]
    supporting: list[list[int]]
    vectors: Float32
    question_vectors: Float32
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def cosine(self) -> Scores:
        return (self.question_vectors @ self.vectors.T).astype(float)

    @cached_property
    def words(self) -> Words:
        return Words(self.texts, self.questions)

    @cached_property
    def base(self) -> Scores:
        return self.cosine + LEXICAL * self.words.scaled

    def halves(self) -> tuple[range, range]:
        middle = len(self.questions) // 2
        return range(middle), range(middle, len(self.questions))


class Words:
    """BM25 with this library's stop words and constants, and the terms of each text."""

    def __init__(self, texts: list[str], questions: list[str]) -> None:
        self._stemmer = Stemmer.Stemmer("porter")
        tokens = self._tokens(texts)
        self.sets = [set(terms) for terms in tokens]
        scorer = bm25s.BM25(k1=1.2, b=0.75)
        scorer.index(tokens, show_progress=False)
        self.terms = [
            [term for term in dict.fromkeys(one) if term in scorer.vocab_dict] for one in self._tokens(questions)
        ]
        self.scores = np.array([scorer.get_scores(one) if one else np.zeros(len(texts)) for one in self.terms], float)
        self.scaled: Scores = self.scores / np.maximum(self.scores.max(axis=1, keepdims=True), 1e-9)
        count: dict[str, int] = {}
        for terms in self.sets:
            for term in terms:
                count[term] = count.get(term, 0) + 1
        self.idf = {term: float(np.log1p((len(texts) - n + 0.5) / (n + 0.5))) for term, n in count.items()}
        self.rarest = float(np.log1p((len(texts) + 0.5) / 0.5))  # the idf of a term that no text has

    def terms_of(self, text: str) -> list[str]:
        """Returns the distinct terms of a text, also those that no passage has."""
        return list(dict.fromkeys(self._tokens([text])[0]))

    def _tokens(self, texts: list[str]) -> list[list[str]]:
        stop_words = STOP_WORDS.split()
        return bm25s.tokenize(texts, return_ids=False, show_progress=False, stopwords=stop_words, stemmer=self._stemmer)


def read(path: Path, encode: Callable[[list[str]], Float32]) -> Pool:
    """Reads the passages of all questions of a file into one pool."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    passages: dict[str, dict[str, str]] = {}
    for line in lines:
        for passage in line["passages"]:
            passages.setdefault(passage["id"], passage)
    position = {id: at for at, id in enumerate(passages)}
    texts = [passage["text"] for passage in passages.values()]
    questions = [line["question"] for line in lines]
    return Pool(
        [passage["title"] for passage in passages.values()],
        texts,
        questions,
        [[position[id] for id in line["supporting"]] for line in lines],
        encode(texts),
        encode(questions),
    )
