"""``python -m benchmarks.real.wikispeedia``: navigation paths of people through Wikipedia.

West, Pineau and Precup, IJCAI 2009; West and Leskovec, WWW 2012. Download ``wikispeedia_paths-and-graph.tar.gz``
from https://snap.stanford.edu/data/wikispeedia.html, unpack it, and pass the folder, or set
``PAM_DATA_DIR`` to the folder that contains it as ``wikispeedia``.

Only ``articles.tsv`` and ``paths_unfinished.tsv`` are read: 24,875 walks. A click on "back" returns to the article
before, which then counts as seen again. An article is embedded by its title.

Protocol: the first 80 % of the walks by time are experience, the rest is the test. A query is a step of a test
walk; relevant are the articles within the window around it. Three columns:

    known          every article, trained on all of the experience
    unseen cue     a random fifth of the articles is removed from the experience; queries are these articles
    unseen target  the same experience; queries are the other articles, relevant are only the removed ones

"known, same index" uses the index of the last two columns, for the articles that were not removed. Next-article
prediction uses the experience of "known": the score of an article is the sum of its scores from the last three articles
of the walk, weighted 1, 1/2 and 1/3.

With ``--part tuning`` the experience is split once more, and the test walks are not used.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.baselines.counts import Counts
from benchmarks.baselines.item_knn import ItemKNN
from benchmarks.baselines.pagerank import PersonalisedPageRank
from benchmarks.baselines.ppmi import PPMI
from benchmarks.baselines.similarity import Similarity
from benchmarks.real import data
from benchmarks.real.recommenders import EASE, Markov, NearestCounts, Popularity
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience

WINDOW, TRAINING_SHARE, HIDDEN_SHARE, QUERIES, DEPTH = 3, 0.8, 0.2, 3_000, 20
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """One navigation path: its start (Unix seconds), and its articles, as positions in the list of titles."""

    time: int
    articles: tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """A step of a test walk, and the articles within the window around it."""

    cue: int
    relevant: frozenset[int]


@dataclass(frozen=True)
class Column:
    """A column of the result table: the training experience, and the test queries."""

    name: str
    training: list[Walk]
    queries: list[Query]

    @property
    def cues(self) -> Rows:
        """Returns (Q,) the articles that are queries."""
        return np.array([query.cue for query in self.queries], np.int64)


def find_folder(given: Path | None) -> Path:
    return data.find(given, ("wikispeedia", "wikispeedia_paths-and-graph"), __doc__ or "")


def read(folder: Path) -> tuple[list[str], list[Walk]]:
    """Returns the titles of all articles, and the walks in order of time.

    Raises:
        SystemExit: a file is missing, or names an article that is not in the list.
    """
    titles = [unquote(line) for line in _lines(folder / "articles.tsv") if line != "Article_Name"]
    position = {title: at for at, title in enumerate(titles)}
    walks = []
    for number, line in enumerate(_lines(folder / "paths_unfinished.tsv"), start=1):
        columns = line.split("\t")
        if len(columns) != 6 or not columns[1].isdigit():
            sys.exit(f"paths_unfinished.tsv: path {number} is {line[:80]!r}; expected 6 columns, the second a time.")
        clicked = [unquote(name) for name in columns[3].split(";")]
        unknown = [name for name in clicked if name != "<" and name not in position]
        if unknown:
            sys.exit(f"paths_unfinished.tsv: path {number} names {unknown[:3]}, which are not in articles.tsv.")
        walks.append(Walk(int(columns[1]), tuple(position[name] for name in _seen(clicked))))
    return titles, sorted(walks, key=lambda walk: walk.time)


def split(walks: list[Walk], share: float = TRAINING_SHARE) -> tuple[list[Walk], list[Walk]]:
    """Returns experience and test, split by time."""
    at = int(share * len(walks))
    return walks[:at], walks[at:]


def hide(walks: list[Walk], hidden: set[int]) -> list[Walk]:
    """Returns the walks without the hidden articles; the neighbours of a hidden article become adjacent."""
    return [Walk(walk.time, tuple(a for a in walk.articles if a not in hidden)) for walk in walks]


def make_columns(articles: int, training: list[Walk], test: list[Walk], seed: int = 0) -> list[Column]:
    """Returns the three columns of the protocol, and the column "known, same index"."""
    random = np.random.default_rng(seed)
    hidden = set(random.permutation(articles)[: int(HIDDEN_SHARE * articles)].tolist())
    every, known = set(range(articles)), set(range(articles)) - hidden
    rest = hide(training, hidden)
    return [
        Column("known", training, draw_queries(test, every, every, random)),
        Column("unseen cue", rest, draw_queries(test, hidden, every, random)),
        Column("unseen target", rest, draw_queries(test, known, hidden, random)),
        Column("known, same index", rest, draw_queries(test, known, known, random)),
    ]


def draw_queries(walks: list[Walk], cues: set[int], targets: set[int], random: np.random.Generator) -> list[Query]:
    """Returns at most 3,000 steps whose article is in ``cues`` and whose window contains one of ``targets``."""
    found = []
    for walk in walks:
        for at, cue in enumerate(walk.articles):
            around = set(walk.articles[max(0, at - WINDOW) : at + WINDOW + 1]) - {cue}
            if cue in cues and around & targets:
                found.append(Query(cue, frozenset(around & targets)))
    return [found[at] for at in random.permutation(len(found))[:QUERIES]]


def recall_at(ranked: Rows, queries: list[Query], depth: int = DEPTH) -> npt.NDArray[np.float64]:
    """Returns recall@``depth`` of each ranking, (Q,); ``ranked`` is (Q, at least depth)."""
    return np.array(
        [
            len(query.relevant.intersection(row)) / len(query.relevant)
            for query, row in zip(queries, ranked[:, :depth].tolist(), strict=True)
        ]
    )


def rank(scores: npt.NDArray[np.float32], cues: Rows, depth: int = DEPTH, seed: int = 0) -> Rows:
    """Returns (Q, depth) best columns of ``scores`` (Q, N), best first, without the cue; ties in random order."""
    ties = np.random.default_rng(seed).random(scores.shape)
    order = np.lexsort((ties, -scores), axis=1)
    return order[order != cues[:, None]].reshape(len(cues), -1)[:, :depth]


def measure(column: Column, score: Callable[[Rows], npt.NDArray[np.float32]], batch: int = 500) -> float:
    """Returns R@20 of a method that gives (Q, N) scores for (Q,) cues."""
    cues = column.cues
    ranked = [rank(score(cues[at : at + batch]), cues[at : at + batch]) for at in range(0, len(cues), batch)]
    return float(recall_at(np.concatenate(ranked), column.queries).mean())


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        sys.exit(f"{path} is missing.\n{__doc__}")
    return [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def _seen(clicked: list[str]) -> list[str]:
    """Returns the displayed articles in order; "<" displays the previous article again."""
    trail: list[str] = []
    seen = []
    for name in clicked:
        if name != "<":
            trail.append(name)
        elif len(trail) > 1:
            trail.pop()
        seen.append(trail[-1])
    return seen


def experience_of(walks: list[Walk]) -> Experience:
    """Returns the walks as input for the library and the baselines."""
    lengths = [len(walk.articles) for walk in walks]
    states = np.array([article for walk in walks for article in walk.articles], np.int64)
    position = np.concatenate([np.arange(length) for length in lengths])
    return Experience(states, np.repeat(np.arange(len(walks)), lengths), position)


def baselines() -> dict[str, Any]:
    """Returns new baselines by name; each has ``fit`` and ``scores`` of ``benchmarks.baselines.base``."""
    return {
        "cosine": Similarity(),
        "popularity": Popularity(),
        "counts": Counts(),
        "PPMI": PPMI(),
        "item-kNN": ItemKNN(),
        "PageRank": PersonalisedPageRank(),
        "5 nearest articles' counts": NearestCounts(),
        "EASE": EASE(),
        "Markov": Markov(),
    }


class Recall:
    """The library's recall as a scorer: memories outside of the first 200 hits score 0.

    Args:
        index: fitted on the walks.
    """

    def __init__(self, index: PredictiveAssociativeIndex) -> None:
        self._index = index

    def scores(self, cues: Rows) -> npt.NDArray[np.float32]:
        found = np.full((len(cues), len(self._index)), -1.0, np.float32)
        for at, hits in enumerate(self._index.recall([str(cue) for cue in cues], k=200)):
            found[at, [int(hit.id) for hit in hits]] = [hit.score for hit in hits]
        return found


def fit_index(titles: list[str], vectors: npt.NDArray[np.float32], walks: list[Walk], seed: int) -> tuple[Any, float]:
    """Returns an index of all articles, fitted on ``walks``, with default settings except the window."""
    started = time.perf_counter()
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    index.add(vectors, [str(at) for at in range(len(titles))], titles)
    index.fit([list(map(str, walk.articles)) for walk in walks if len(walk.articles) > 1], window=WINDOW, seed=seed)
    return index, time.perf_counter() - started


def draw_steps(test: list[Walk], seed: int) -> list[tuple[Walk, int]]:
    """Draws random walks, and steps in them; the next click after each step is to be predicted."""
    steps = [(walk, at) for walk in test for at in range(1, len(walk.articles))]
    return [steps[at] for at in np.random.default_rng(seed).permutation(len(steps))[:QUERIES]]


def next_article(test: list[Walk], score: Callable[[Rows], npt.NDArray[np.float32]], seed: int = 0) -> dict[str, float]:
    """Measures how well a scorer of single articles predicts the next click, from the last three articles."""
    drawn = draw_steps(test, seed)
    cues = sorted({article for walk, at in drawn for article in walk.articles[max(0, at - 3) : at]})
    position = {cue: row for row, cue in enumerate(cues)}
    answers = np.concatenate([score(np.array(cues[at : at + 500])) for at in range(0, len(cues), 500)])
    length = np.abs(answers).sum(axis=1, keepdims=True)
    answers = answers / np.where(length > 0, length, 1)  # every cue has the same weight
    ranked = []
    for walk, at in drawn:
        last = walk.articles[max(0, at - 3) : at][::-1]
        total = sum(answers[position[cue]] / distance for distance, cue in enumerate(last, start=1))
        ranked.append(rank(total[None], np.array([last[0]]))[0])  # the current article is no answer
    return evaluate_next(drawn, ranked)


def evaluate_next(steps: list[tuple[Walk, int]], ranked: list[Rows]) -> dict[str, float]:
    """Returns hit rate and MRR among the first 20 for the article that was clicked next."""
    found = [np.flatnonzero(rows == walk.articles[at]) for (walk, at), rows in zip(steps, ranked, strict=True)]
    reciprocal = [1 / (positions[0] + 1) if len(positions) else 0 for positions in found]
    return {"HR@20": float(np.mean([len(positions) for positions in found])), "MRR@20": float(np.mean(reciprocal))}


def compare(
    titles: list[str],
    vectors: npt.NDArray[np.float32],
    training: list[Walk],
    test: list[Walk],
    seed: int,
    library: bool = True,
) -> dict[str, Any]:
    """Measures and prints the columns and the next article, for the baselines and for the library."""
    columns = make_columns(len(titles), training, test, seed)
    table: dict[str, dict[str, float]] = {}
    following: dict[str, dict[str, float]] = {}
    seconds = []
    for same_experience in (columns[:1], columns[1:]):
        experience = experience_of(same_experience[0].training)
        scorers: dict[str, Any] = baselines()
        for scorer in scorers.values():
            scorer.fit(experience, vectors, WINDOW)
        if library:
            index, taken = fit_index(titles, vectors, same_experience[0].training, seed)
            seconds.append(taken)
            scorers["this library"] = Recall(index)
        for name, scorer in scorers.items():
            for column in same_experience:
                table.setdefault(name, {})[column.name] = measure(column, scorer.scores)
            if same_experience[0] is columns[0]:
                following[name] = next_article(test, scorer.scores, seed)
    print(report.table(list(table), _turned(table), digits=3))
    print(report.table(list(following), _turned(following), digits=3))
    return {
        "queries": {column.name: len(column.queries) for column in columns},
        "seconds_to_add_and_fit": seconds,
        "R@20": table,
        "next_article": following,
    }


def parser_of(description: str | None, name: str) -> argparse.ArgumentParser:
    """Returns a parser of the arguments that all benchmarks of walks have; ``name`` is that of the raw file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--part", choices=("reported", "tuning"), default="reported")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is hidden, the queries and the fits")
    parser.add_argument("--name", default=name)
    return parser


def part_of(walks: list[Walk], part: str) -> tuple[list[Walk], list[Walk]]:
    """Returns experience and test; for the part "tuning" the experience is split once more."""
    training, test = split(walks)
    return split(training) if part == "tuning" else (training, test)


def embed(texts: list[str], model: str | None) -> npt.NDArray[np.float32]:
    """Returns the vectors (n, d) of texts or titles."""
    plain = [text.replace("_", " ") for text in texts]
    vectors: npt.NDArray[np.float32] = data.load_embedder(model).encode(
        plain, normalize_embeddings=True, show_progress_bar=False
    )
    return vectors


def main() -> None:
    parser = parser_of(__doc__, "real/wikispeedia")
    parser.add_argument("--baselines", action="store_true", help="measure only the baselines")
    arguments = parser.parse_args()
    titles, walks = read(find_folder(arguments.folder))
    training, test = part_of(walks, arguments.part)
    vectors = embed(titles, arguments.model)
    found = compare(titles, vectors, training, test, arguments.seed, library=not arguments.baselines)
    result = {
        "seed": arguments.seed,
        "part": arguments.part,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "walks": {"training": len(training), "test": len(test)},
        **found,
    }
    print(f"\nwritten to {report.write(arguments.name, result)}")


def _turned(table: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Returns the table with rows and columns swapped."""
    names = next(iter(table.values()))
    return {name: {row: values[name] for row, values in table.items()} for name in names}


if __name__ == "__main__":
    main()
