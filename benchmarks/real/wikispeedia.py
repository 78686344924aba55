"""Wikispeedia: navigation paths through Wikipedia, as people clicked them (loader and protocol).

West, Pineau and Precup, IJCAI 2009; West and Leskovec, WWW 2012. Take ``wikispeedia_paths-and-graph.tar.gz``
from https://snap.stanford.edu/data/wikispeedia.html, unpack it, and pass the folder, or set
``PAM_DATA_DIR`` to the folder that holds it as ``wikispeedia``.

Only ``articles.tsv`` and ``paths_unfinished.tsv`` are read: 24,875 walks. A click on "back" returns to the
article before, which is then seen again. An article is embedded by its title.

Protocol: the first 80 % of the walks by time are experience, the rest is the test. A query is a step of a test
walk; relevant are the articles within the window there. Three columns:

    known          every article, trained on all of the experience
    unseen cue     a random fifth of the articles is taken out of the experience; queries are those
    unseen target  the same experience; queries are the other articles, relevant only what was taken out

"known, same index" asks the index of the last two columns about what it was left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from benchmarks.real import data

WINDOW, TRAINING_SHARE, HIDDEN_SHARE, QUERIES, DEPTH = 3, 0.8, 0.2, 3_000, 20
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Walk:
    """One navigation path: when it began (Unix seconds), and its articles, as places in the list of titles."""

    time: int
    articles: tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """A step of a test walk, and what lies within the window around it."""

    cue: int
    relevant: frozenset[int]


@dataclass(frozen=True)
class Column:
    """What is experienced, and what is then asked."""

    name: str
    training: list[Walk]
    queries: list[Query]

    @property
    def cues(self) -> Rows:
        """(Q,) the articles that are asked about."""
        return np.array([query.cue for query in self.queries], np.int64)


def find_folder(given: Path | None) -> Path:
    return data.find(given, ("wikispeedia", "wikispeedia_paths-and-graph"), __doc__ or "")


def read(folder: Path) -> tuple[list[str], list[Walk]]:
    """The titles of all articles, and the walks in order of time.

    Raises:
        SystemExit: a file is missing, or names an article that is not in the list.
    """
    titles = [unquote(line) for line in _lines(folder / "articles.tsv") if line != "Article_Name"]
    place = {title: at for at, title in enumerate(titles)}
    walks = []
    for number, line in enumerate(_lines(folder / "paths_unfinished.tsv"), start=1):
        columns = line.split("\t")
        if len(columns) != 6 or not columns[1].isdigit():
            sys.exit(f"paths_unfinished.tsv: path {number} is {line[:80]!r}; expected 6 columns, the second a time.")
        clicked = [unquote(name) for name in columns[3].split(";")]
        unknown = [name for name in clicked if name != "<" and name not in place]
        if unknown:
            sys.exit(f"paths_unfinished.tsv: path {number} names {unknown[:3]}, which are not in articles.tsv.")
        walks.append(Walk(int(columns[1]), tuple(place[name] for name in _seen(clicked))))
    return titles, sorted(walks, key=lambda walk: walk.time)


def split(walks: list[Walk], share: float = TRAINING_SHARE) -> tuple[list[Walk], list[Walk]]:
    """Experience and test, by time."""
    at = int(share * len(walks))
    return walks[:at], walks[at:]


def hide(walks: list[Walk], hidden: set[int]) -> list[Walk]:
    """The walks without the hidden articles; what was around one is then adjacent."""
    return [Walk(walk.time, tuple(a for a in walk.articles if a not in hidden)) for walk in walks]


def make_columns(articles: int, training: list[Walk], test: list[Walk], seed: int = 0) -> list[Column]:
    """The three columns of the protocol, and "known" for the index of the last two."""
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
    """At most 3,000 steps whose article is in ``cues``, and that have something of ``targets`` around them."""
    found = []
    for walk in walks:
        for at, cue in enumerate(walk.articles):
            around = set(walk.articles[max(0, at - WINDOW) : at + WINDOW + 1]) - {cue}
            if cue in cues and around & targets:
                found.append(Query(cue, frozenset(around & targets)))
    return [found[at] for at in random.permutation(len(found))[:QUERIES]]


def recall_at(ranked: Rows, queries: list[Query], depth: int = DEPTH) -> npt.NDArray[np.float64]:
    """(Q,) the share of what is relevant to each query among the first ``depth`` of ``ranked`` (Q, at least depth)."""
    return np.array(
        [
            len(query.relevant.intersection(row)) / len(query.relevant)
            for query, row in zip(queries, ranked[:, :depth].tolist(), strict=True)
        ]
    )


def rank(scores: npt.NDArray[np.float32], cues: Rows, depth: int = DEPTH, seed: int = 0) -> Rows:
    """(Q, depth) the best columns of ``scores`` (Q, N), best first; the cue is left out, ties fall at random."""
    ties = np.random.default_rng(seed).random(scores.shape)
    order = np.lexsort((ties, -scores), axis=1)
    return order[order != cues[:, None]].reshape(len(cues), -1)[:, :depth]


def measure(column: Column, score: Callable[[Rows], npt.NDArray[np.float32]], batch: int = 500) -> float:
    """R@20 of a method that gives (Q, N) scores for (Q,) cues."""
    cues = column.cues
    ranked = [rank(score(cues[at : at + batch]), cues[at : at + batch]) for at in range(0, len(cues), batch)]
    return float(recall_at(np.concatenate(ranked), column.queries).mean())


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        sys.exit(f"{path} is missing.\n{__doc__}")
    return [line for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def _seen(clicked: list[str]) -> list[str]:
    """The articles on the screen, in order: "<" shows again the one from which the current one was reached."""
    trail: list[str] = []
    seen = []
    for name in clicked:
        if name != "<":
            trail.append(name)
        elif len(trail) > 1:
            trail.pop()
        seen.append(trail[-1])
    return seen
