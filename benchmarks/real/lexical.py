"""``python -m benchmarks.real.lexical``: quality and speed of SQLite FTS5 and bm25s.

Quality is measured on LoCoMo's turns (see ``benchmarks.real.locomo`` for the file), without the words of neighbouring
turns. Speed is measured on ``--texts`` copies of the same turns, each with two unique words: indexing all of them, and
single queries. bm25s cannot add one text; it indexes all texts again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import bm25s
import numpy as np
import Stemmer

from benchmarks import report
from benchmarks.real.data import find
from benchmarks.real.dialogue import Conversation, evaluate, read
from benchmarks.real.locomo import FILES
from pam_retriever.mentions.stop_words import STOP_WORDS
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.storing import NewMemories

Ask = Callable[[str, int], np.ndarray]


def fts5_own_ranking(documents: SQLiteDatabase) -> Ask:
    """Ranks by FTS5's bm25() over the words that the library looks up."""
    lexicon = Lexicon(documents)

    def ask(text: str, n: int) -> np.ndarray:
        words = " OR ".join(f'"{term}"' for term in lexicon.terms(text))
        found = documents.connection._sqlite.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?", [f"text : ({words})", n]
        )
        return np.array([row for (row,) in found], np.int64) - 1

    return ask


def library(documents: SQLiteDatabase) -> Ask:
    """Ranks by BM25 over FTS5's postings, with the library's scores but without the neighbours' words."""
    lexicon = Lexicon(documents)

    def ask(text: str, n: int) -> np.ndarray:
        rows, none = lexicon.terms(text), np.empty(0, np.int64)
        best = lexicon.best(rows, n, None)
        return best[np.argsort(-lexicon.score(rows, best, none, none), kind="stable")] - 1

    return ask


def store(texts: list[str]) -> SQLiteDatabase:
    documents = SQLiteDatabase()
    with documents.transaction():
        vectors = np.ones((len(texts), 1), np.float32)
        new = NewMemories([str(at) for at in range(len(texts))], vectors, texts, ["{}"] * len(texts))
        documents.memories.upsert(new, None)
    return documents


def with_bm25s(texts: list[str], stop: bool) -> Ask:
    """Ranks by bm25s with its defaults, or with this library's stop words and Porter stems."""
    options = {"stopwords": STOP_WORDS.split(), "stemmer": Stemmer.Stemmer("porter")} if stop else {"stopwords": "en"}
    scorer = bm25s.BM25()
    scorer.index(bm25s.tokenize(texts, show_progress=False, **options), show_progress=False)

    def ask(text: str, n: int) -> np.ndarray:
        terms = bm25s.tokenize([text], return_ids=False, show_progress=False, **options)[0]
        in_vocabulary = [term for term in terms if term in scorer.vocab_dict]
        scores = scorer.get_scores(in_vocabulary) if in_vocabulary else np.zeros(len(texts))
        best = np.argpartition(-scores, n - 1)[:n]
        return best[np.argsort(-scores[best], kind="stable")]

    return ask


WAYS: dict[str, Callable[[list[str]], Ask]] = {
    "FTS5, its own bm25()": lambda texts: fts5_own_ranking(store(texts)),
    "FTS5's postings, scored by the library": lambda texts: library(store(texts)),
    "bm25s": lambda texts: with_bm25s(texts, stop=False),
    "bm25s, question words out, stemmed": lambda texts: with_bm25s(texts, stop=True),
}


def quality(conversations: list[Conversation], make: Callable[[list[str]], Ask]) -> float:
    """Returns R@10 over all questions."""
    judged = []
    for conversation in conversations:
        ask = make([turn["text"] for turn in conversation.turns])
        found = [ask(question, 20)[:20] for question, _, _ in conversation.questions]
        ranked = np.array([[*row, *[-1] * (20 - len(row))] for row in found])
        judged.append(evaluate(ranked, conversation)[:, 1])
    return float(np.concatenate(judged).mean())


def speed(texts: list[str], questions: list[str], make: Callable[[list[str]], Ask]) -> dict[str, float]:
    started = time.perf_counter()
    ask = make(texts)
    indexed = time.perf_counter() - started
    taken = []
    for repeated in range(2):  # the first round fills the caches
        taken.append([])
        for question in questions:
            started = time.perf_counter()
            ask(question, 100)
            taken[repeated].append(1e3 * (time.perf_counter() - started))
    return {
        "index seconds": indexed,
        "p50 ms, first": float(np.median(taken[0])),
        "p50 ms, again": float(np.median(taken[1])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--name", default="real/lexical")
    arguments = parser.parse_args()
    conversations = read(find(arguments.file, FILES, __doc__ or ""))
    random = np.random.default_rng(0)
    turns = [turn["text"] for conversation in conversations for turn in conversation.turns]
    own = random.integers(0, arguments.texts, (arguments.texts, 2))
    texts = [f"{turns[at % len(turns)]} w{a} w{b}" for at, (a, b) in enumerate(own)]
    questions = [question for conversation in conversations for question, _, _ in conversation.questions][::16]
    table = {
        name: {"R@10": quality(conversations, make), **speed(texts, questions, make)} for name, make in WAYS.items()
    }
    print(report.table(list(next(iter(table.values()))), table, digits=3))
    print(f"\nwritten to {report.write(arguments.name, {'texts': arguments.texts, 'seed': 0, 'ways': table})}")


if __name__ == "__main__":
    main()
