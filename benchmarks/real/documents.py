"""``python -m benchmarks.real.documents FOLDER``: documents that mention each other, without experience or fit.

FOLDER (or ``PAM_DATA_DIR``/documents) contains ``hotpot.jsonl``, ``2wiki.jsonl`` and ``musique.jsonl``: one line per
question, ``{id, question, type, supporting, passages: [{id, title, text}]}``, drawn from HotpotQA's distractor setting
(Yang et al. 2018), 2WikiMultihopQA (Ho et al. 2020) and MuSiQue (Trivedi et al. 2022). All passages of a file are one
index. The measure is the mean over questions of hits / supporting at 2, 5 and 10, with bootstrap intervals.

The first half of each file's questions is for tuning (``--tune`` draws weights, and reports the best ones with each
file left out). The second half is reported. The weights of the baselines are chosen on the first halves, too.
``--cues`` asks stored passages that were never experienced after a fit on others (``documents_cues.py``), all of the
first halves.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real import documents_cues
from benchmarks.real.data import find, load_embedder
from benchmarks.real.documents_baselines import cross_links, mention_matrix, pagerank, rank_fusion
from benchmarks.real.documents_pool import Pool, Scores, read
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions import source as mention_source
from pam_retriever.mentions.edges import LEXICAL, PRIOR, WAYS, Mentioned
from pam_retriever.mentions.graph import MentionGraph, MentionRules
from pam_retriever.mentions.limits import bounded
from pam_retriever.mentions.names import NameRules
from pam_retriever.mentions.source import MentionSource
from pam_retriever.mentions.store import SQLiteMentions
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Bools, Float32, Int64

SETS = ("hotpot", "2wiki", "musique")
CUTS = (2, 5, 10)
CANDIDATES = 50  # the best of dense + BM25; their mentions are followed
DRAWS = 2000  # of the bootstrap
TUNED = 400  # weights that --tune draws


class Question:
    """One question as input for ``MentionSource``; row n is passage n - 1."""

    def __init__(self, pool: Pool, at: int) -> None:
        self._pool, self._at = pool, at
        self.text: str | None = pool.questions[at]
        self._terms = pool.words.terms[at]
        self.term_weights: Float32 = np.array([pool.words.idf[term] for term in self._terms], np.float32)

    def scores(self, rows: Int64) -> Float32:
        return self._pool.base[self._at, rows - 1].astype(np.float32)

    def holds(self, rows: Int64) -> Bools:
        sets = self._pool.words.sets
        return np.array([[term in sets[row - 1] for row in rows.tolist()] for term in self._terms], bool).reshape(
            len(self._terms), len(rows)
        )

    def part(self, words: str, rows: Int64) -> Float32:
        sets, terms = self._pool.words.sets, self._pool.words.terms_of(words)
        idf = np.array([self._pool.words.idf.get(term, self._pool.words.rarest) for term in terms], np.float32)
        held = [[term in sets[row - 1] for term in terms] for row in rows.tolist()]
        return np.array(held, np.float32).reshape(len(rows), len(terms)) @ idf / max(float(idf.sum()), 1e-9)

    def allowed(self, rows: Int64) -> Bools:
        return np.ones(len(rows), bool)


def index(pool: Pool, titles: str) -> SQLiteMentions:
    """Returns the mentions of a pool, in SQLite; ``titles`` are "metadata", "heading" (of the text) or "none"."""
    database = SQLiteDatabase()
    memories, store = database.memories, SQLiteMentions(database.connection)
    graph = MentionGraph(store, MentionRules(NameRules(headings=titles == "heading")))
    texts = [
        f"# {title}\n\n{text}" if titles == "heading" else text
        for title, text in zip(pool.titles, pool.texts, strict=True)
    ]
    metadata = [json.dumps({"title": title} if titles == "metadata" else {}) for title in pool.titles]
    vectors = np.ones((len(texts), 1), np.float32)
    new = NewMemories([f"{at:032x}" for at in range(len(texts))], vectors, texts, metadata)
    started = time.perf_counter()
    with database.transaction():
        rows = memories.upsert(new, None)
        added = time.perf_counter()
        graph.follow(rows)
    pool.seconds.update({"add": added - started, "mentions": time.perf_counter() - added})
    return store


def library(
    pool: Pool, titles: str, with_feedback: bool = False, fitted: bool = False, names: Sequence[str] | None = None
) -> Scores:
    """Returns the scores of ``recall(vector, text=)`` with default settings; -inf for passages outside its first ten.

    Args:
        pool: passages and questions.
        titles: the metadata key of the titles; "" for none.
        with_feedback: whether the index has the first half of the questions as feedback.
        fitted: whether ``fit`` weighed the sources by that feedback.
        names: of the index; None for the default.
    """
    index = PredictiveAssociativeIndex(pool.vectors.shape[1], names=names)
    metadatas: list[dict[str, Any]] = [{titles: title} for title in pool.titles] if titles else [{}] * len(pool.titles)
    index.add(pool.vectors, [str(at) for at in range(len(pool.texts))], pool.texts, metadatas)
    if with_feedback:
        training = pool.halves()[0]
        used = [[str(at) for at in pool.supporting[question]] for question in training]
        index.feedback(
            pool.question_vectors[training.start : training.stop], used, text=[pool.questions[at] for at in training]
        )
    if fitted:
        index.fit(progress=False)
    scores = np.full((len(pool.questions), len(pool.texts)), -np.inf)
    seconds = []
    for at, question in enumerate(pool.questions):
        started = time.perf_counter()
        hits = index.recall(pool.question_vectors[at], max(CUTS), text=question)
        seconds.append(time.perf_counter() - started)
        scores[at, [int(id) for id in hits.ids]] = -np.arange(len(hits), dtype=float)
    options = {", feedback": with_feedback, ", fitted": fitted, ", no names": names == ()}
    row = f"recall, {titles or 'no titles'}{''.join(option for option, on in options.items() if on)}"
    pool.seconds[row] = float(np.median(seconds))
    return scores


def follow(pool: Pool, store: SQLiteMentions, questions: Sequence[int]) -> dict[int, Mentioned]:
    """Returns the features of mentions for some questions."""
    source = MentionSource(store)
    found = {}
    started = time.perf_counter()
    for at in questions:
        best = np.argsort(-pool.base[at], kind="stable")[:CANDIDATES]
        question = Question(pool, at)
        found[at] = source.score(question, best + 1, question.scores(best + 1))
    pool.seconds["a question"] = (time.perf_counter() - started) / max(len(questions), 1)
    return found


def added(pool: Pool, mentioned: dict[int, Mentioned], weights: dict[Any, float]) -> Scores:
    """Adds the weighted features of mentions to the scores of dense + BM25."""
    scores = pool.base.copy()
    chosen = np.array([weights[way] for way in WAYS], np.float32)
    for at, found in mentioned.items():
        scores[at, found.rows - 1] += found.features @ chosen
    return scores


def recalls(pool: Pool, scores: Scores, questions: Sequence[int]) -> Scores:
    """Returns (Q, cuts) shares of the supporting passages among the first."""
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, : max(CUTS)]
    return np.array(
        [[np.isin(pool.supporting[at], ranked[at, :cut]).mean() for cut in CUTS] for at in questions], float
    )


def interval(values: Scores) -> list[list[float]]:
    """Returns the 95 % bootstrap interval of each column's mean."""
    draws = np.random.default_rng(0).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5], axis=0)
    return np.stack([low, high], axis=1).round(4).tolist()


def chosen(pools: dict[str, Pool], name: str, make: Callable[[str, float], Scores], settings: Sequence[float]) -> Any:
    """Returns the best setting on the first halves of all files, and its scores."""
    tried = {}
    for setting in settings:
        scores = {key: make(key, setting) for key in pools}
        tried[setting] = scores, np.mean([recalls(p, scores[k], p.halves()[0]).mean() for k, p in pools.items()])
    best = max(tried, key=lambda setting: tried[setting][1])
    return f"{name} {best}", tried[best][0]


def rows_of(pools: dict[str, Pool]) -> dict[str, dict[str, Scores]]:
    """Returns the scores of every method on every file."""
    stores = {
        name: {titles: index(pool, titles) for titles in ("none", "heading", "metadata")}
        for name, pool in pools.items()
    }
    shared = {name: mention_matrix(pool, stores[name]["metadata"], True) for name, pool in pools.items()}
    named = {name: mention_matrix(pool, stores[name]["metadata"], False) for name, pool in pools.items()}
    found = {
        titles: {name: follow(pool, stores[name][titles], range(len(pool.questions))) for name, pool in pools.items()}
        for titles in ("none", "heading", "metadata")
    }

    limited = {
        titles: {
            name: {at: bounded(one, Question(pools[name], at)) for at, one in several.items()}
            for name, several in by_name.items()
        }
        for titles, by_name in found.items()
    }

    def with_mentions(titles: str, *ways: str) -> dict[str, Scores]:
        weights = {way: PRIOR[way] if way in ways or not ways else 0.0 for way in WAYS}
        mentioned = found[titles] if ways else limited[titles]
        return {name: added(pool, mentioned[name], weights) for name, pool in pools.items()}

    return {
        "dense": {name: pool.cosine for name, pool in pools.items()},
        "BM25": {name: pool.words.scores for name, pool in pools.items()},
        "dense + BM25, rank fusion": {name: rank_fusion(pool) for name, pool in pools.items()},
        "dense + BM25": {name: pool.base for name, pool in pools.items()},
        **dict(
            [
                chosen(
                    pools,
                    "cross-links by shared names",
                    lambda k, s: cross_links(pools[k], shared[k], s),
                    (0.1, 0.2, 0.4, 0.8),
                ),
                chosen(
                    pools,
                    "PageRank over mentions",
                    lambda k, d: pagerank(pools[k], named[k], d),
                    (0.15, 0.3, 0.5, 0.85),
                ),
            ]
        ),
        "+ whom the question names": with_mentions("metadata", "asked"),
        "+ names, both ways": with_mentions("metadata", "asked", "names", "named by", "second step"),
        "+ mentions": with_mentions("metadata"),
        "library, recall(vector, text=)": {name: library(pool, "title") for name, pool in pools.items()},
        "library, titles that are no names": {name: library(pool, "other") for name, pool in pools.items()},
        "library, first half as feedback": {name: library(pool, "title", True) for name, pool in pools.items()},
        "library, first half as feedback, fitted": {
            name: library(pool, "title", True, True) for name, pool in pools.items()
        },
        "library, titles taken away": {name: library(pool, "") for name, pool in pools.items()},
        "library, titles taken away, names=()": {name: library(pool, "", names=()) for name, pool in pools.items()},
        "+ mentions, titles are headings": with_mentions("heading"),
        "+ mentions, titles taken away": with_mentions("none"),
    }


def tune(pools: dict[str, Pool]) -> dict[str, Any]:
    """Draws random weights; returns the best on the first halves of all files, and of all but each file."""
    random = np.random.default_rng(0)
    found = {name: follow(pool, index(pool, "metadata"), pool.halves()[0]) for name, pool in pools.items()}
    tried = []
    for _ in range(TUNED):
        weights = {way: round(float(PRIOR[way] * random.uniform(0, 2)), 3) for way in WAYS}
        result = [recalls(p, added(p, found[k], weights), p.halves()[0]).mean(axis=0) for k, p in pools.items()]
        tried.append((weights, np.array(result)))
    shipped = np.array([recalls(p, added(p, found[k], PRIOR), p.halves()[0]).mean(axis=0) for k, p in pools.items()])
    best = max(tried, key=lambda one: float(one[1].mean()))
    left_out = {}
    for at, name in enumerate(pools):
        others = [one for one in range(len(pools)) if one != at]
        weights, result = max(tried, key=lambda one: float(one[1][others].mean()))
        left_out[name] = {"weights": weights, "result": result[at].round(4).tolist(), "shipped": shipped[at].tolist()}
    return {"best": best[0], "best result": best[1].tolist(), "shipped": shipped.tolist(), "left out": left_out}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data (default: PAM_DATA_DIR/documents)")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--embeddings", type=Path, default=Path(tempfile.gettempdir()) / "pam-documents")
    parser.add_argument("--tune", action="store_true", help="only choose weights, on the first half of the questions")
    parser.add_argument("--cues", action="store_true", help="only ask stored passages without experience, after a fit")
    parser.add_argument("--name", default="real/documents")
    arguments = parser.parse_args()
    folder = find(arguments.folder, ["documents"], __doc__ or "")
    encode = cached_encoder(arguments.embedder, arguments.embeddings)
    pools = {name: read(folder / f"{name}.jsonl", encode) for name in SETS}
    constants = {key: getattr(mention_source, key) for key in ("SEEDS", "POWER", "LEFT", "TEMPERATURE")}
    result: dict[str, Any] = {
        "seed": 0,
        "prior": PRIOR,
        "constants": {"LEXICAL": LEXICAL, **constants},
        "candidates": CANDIDATES,
    }
    if arguments.cues:
        found = {name: documents_cues.measure(pool, result["seed"]) for name, pool in pools.items()}
        print(json.dumps(found, indent=1))
        print(
            f"written to {report.write(f'{arguments.name}-cues', {'seed': result['seed'], 'half': 'first', **found})}"
        )
        return
    if arguments.tune:
        result["tuning"] = tune(pools)
        print(json.dumps(result["tuning"], indent=1))
        print(f"written to {report.write(f'{arguments.name}-tuning', result)}")
        return
    rows = rows_of(pools)
    reported: dict[str, Any] = {}
    for method, scores in rows.items():
        values = {name: recalls(pool, scores[name], pool.halves()[1]) for name, pool in pools.items()}
        reported[method] = {
            name: {"R@2/5/10": one.mean(axis=0).round(4).tolist(), "intervals": interval(one)}
            for name, one in values.items()
        }
    columns = {
        f"{name} R@{cut}": {method: reported[method][name]["R@2/5/10"][at] for method in rows}
        for name in SETS
        for at, cut in enumerate(CUTS)
    }
    print(report.table(list(rows), columns, digits=3))
    result |= {"half": "second", "reported": reported, "seconds": {name: pool.seconds for name, pool in pools.items()}}
    print(f"\nwritten to {report.write(arguments.name, result)}")


def cached_encoder(name: str | None, folder: Path) -> Callable[[list[str]], Float32]:
    """Returns an embedder that stores its vectors in a folder, one file per list of texts."""
    model: list[Any] = []

    def encode(texts: list[str]) -> Float32:
        key = blake2b("\x00".join([name or "", *texts]).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        path = folder / f"{key}.npy"
        if not path.exists():
            if not model:
                model.append(load_embedder(name))
            folder.mkdir(parents=True, exist_ok=True)
            np.save(path, model[0].encode(texts, normalize_embeddings=True, batch_size=64).astype(np.float32))
        vectors: Float32 = np.load(path)
        return vectors

    return encode


if __name__ == "__main__":
    main()
