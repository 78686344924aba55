"""``python -m benchmarks.scaling.mentions``: names and mentions as an index grows.

Every document has a title of its own and a text of made-up words, drawn by Zipf's law, that names a few others.
Measured, in processor time: adding texts to the words index and finding mentions, bytes in the database of each, one
more document at the end, and a question. Beside it (``--automata``) the finder over the same names in memory, and two
Aho-Corasick automata, pyahocorasick and ahocorasick_rs, where they are installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever.mentions.finder import MemoryVocabulary, find
from pam_retriever.mentions.folding import words
from pam_retriever.mentions.graph import MentionGraph
from pam_retriever.mentions.source import MentionSource
from pam_retriever.mentions.store import TABLES, SQLiteMentions
from pam_retriever.store.memories import SQLiteMemories
from pam_retriever.store.sqlite_database import SQLiteDatabase
from pam_retriever.types import Bools, Float32, Int64

SYLLABLES = "ka to mi ren sol va der lin gor pa ness ti bra ul on fer ma ze qui sta".split()  # noqa: SIM905
BATCH = 10_000
WORDS, NAMED = 80, 3  # of a text


class World:
    """Titles and texts, drawn from one seed."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        syllables = np.array(SYLLABLES)
        drawn = self._random.integers(0, len(syllables), (50_000, 4))
        lengths = self._random.integers(2, 5, len(drawn))
        self._words = sorted({"".join(syllables[row[:n]]) for row, n in zip(drawn, lengths, strict=True)})
        self._random.shuffle(self._words)
        parts = self._random.integers(0, len(self._words), (count, 3))
        sizes = self._random.choice([2, 2, 3], count)
        self.titles = [
            " ".join(self._words[at].capitalize() for at in row[:n]) for row, n in zip(parts, sizes, strict=True)
        ]

    def texts(self, count: int) -> list[str]:
        """Texts that name some of the titles."""
        chances = 1 / np.arange(1, len(self._words) + 1)
        drawn = self._random.choice(len(self._words), (count, WORDS), p=chances / chances.sum())
        named = self._random.integers(0, len(self.titles), (count, NAMED))
        texts = []
        for row, names in zip(drawn, named, strict=True):
            text = [self._words[at] for at in row]
            for at, name in enumerate(names):
                text[at * 20] = self.titles[name]
            texts.append(" ".join(text) + ".")
        return texts


class Asked:
    """A question without looks: every memory scores the same."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.term_weights: Float32 = np.empty(0, np.float32)

    def scores(self, rows: Int64) -> Float32:
        return np.full(len(rows), 0.5, np.float32)

    def holds(self, rows: Int64) -> Bools:
        return np.empty((0, len(rows)), bool)

    def allowed(self, rows: Int64) -> Bools:
        return np.ones(len(rows), bool)


def grow(world: World, path: Path) -> dict[str, Any]:
    """Adds all documents in batches and asks."""
    count = len(world.titles)
    database = SQLiteDatabase(path)
    memories, store = database.memories, SQLiteMentions(database.connection, lambda: count)
    graph = MentionGraph(store)
    seconds = {"words": 0.0, "mentions": 0.0}
    for start in range(0, count, BATCH):
        many = min(BATCH, count - start)
        texts, took = world.texts(many), time.process_time()
        with database.transaction():
            rows = _add(memories, world.titles[start : start + many], texts, start)
            seconds["words"] += time.process_time() - took
            took = time.process_time()
            graph.follow(rows)
            seconds["mentions"] += time.process_time() - took
    found = database.connection.fetch("SELECT count(*), sum(number < 0) FROM mentions")[0]
    one = []
    for extra in range(20):
        with database.transaction():
            rows = _add(memories, [f"{world.titles[extra]} again"], world.texts(1), count + extra)
            took = time.process_time()
            graph.follow(rows)
            one.append(time.process_time() - took)
    source, random, asked = MentionSource(store), np.random.default_rng(1), []
    for _ in range(200):
        rows = random.choice(count, 50, replace=False).astype(np.int64) + 1
        question = Asked(f"who knows {world.titles[int(random.integers(count))]}?")
        took = time.process_time()
        source.score(question, rows, np.full(50, 0.5, np.float32))
        asked.append(time.process_time() - took)
    sizes = _bytes(database)
    mine = sum(sizes.get(name, 0) for name in (*TABLES, *INDEXES))
    database.close()
    return {
        "documents": count,
        "mentions": found[0],
        "of these phrases": found[1],
        "seconds": seconds,
        "one more document, p50 ms": 1e3 * float(np.median(one)),
        "a question, p50 ms": 1e3 * float(np.median(asked)),
        "bytes": sizes,
        "bytes a mention": sum(sizes.get(name, 0) for name in ("mentions", "mentions_of_name")) / max(found[0], 1),
        "bytes a mention, names and all": mine / max(found[0], 1),
    }


INDEXES = ("mentions_of_name", "called_of_memory", "sqlite_autoindex_names_1")


def _add(memories: SQLiteMemories, titles: list[str], texts: list[str], start: int) -> Int64:
    metadata = [json.dumps({"title": title}) for title in titles]
    vectors = np.ones((len(texts), 1), np.float32)
    return memories.upsert([f"{start + at:032x}" for at in range(len(texts))], texts, metadata, vectors, None)


def _bytes(database: SQLiteDatabase) -> dict[str, int]:
    """Bytes of each table and index; empty where SQLite was built without ``dbstat``."""
    fetch = database.connection.fetch
    if not fetch("SELECT 1 FROM pragma_compile_options WHERE compile_options = 'ENABLE_DBSTAT_VTAB'"):
        return {}
    return dict(fetch("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))


def automata(world: World) -> dict[str, Any]:
    """Building over all titles, and finding in 5,000 texts, by three ways."""
    names, texts = list(dict.fromkeys(" ".join(words(title)) for title in world.titles)), world.texts(5000)
    result: dict[str, Any] = {}
    for name, build in (("dictionary", _dictionary), ("pyahocorasick", _pyahocorasick), ("ahocorasick_rs", _rust)):
        before, took = _memory(), time.process_time()
        try:
            scan = build(names)
        except ModuleNotFoundError as error:
            result[name] = str(error)
            continue
        built, grown, took = time.process_time() - took, _memory() - before, time.process_time()
        found = sum(len(list(one)) for one in scan(texts))
        result[name] = {"build s": built, "MB": grown, "5,000 texts s": time.process_time() - took, "found": found}
        del scan
    return result


def _padded(text: str) -> str:
    """Two spaces between words, so that neighbours can both have theirs."""
    return f" {'  '.join(words(text))} "


def _dictionary(names: list[str]) -> Callable[[list[str]], Iterator[Any]]:
    vocabulary = MemoryVocabulary(names)
    return lambda texts: iter(find(texts, vocabulary))


def _pyahocorasick(names: list[str]) -> Callable[[list[str]], Iterator[Any]]:
    module = importlib.import_module("ahocorasick")
    automaton = module.Automaton(module.STORE_INTS)
    for at, name in enumerate(names):
        automaton.add_word(_padded(name), at)
    automaton.make_automaton()
    return lambda texts: (automaton.iter_long(_padded(text)) for text in texts)


def _rust(names: list[str]) -> Callable[[list[str]], Iterator[Any]]:
    module = importlib.import_module("ahocorasick_rs")
    automaton = module.AhoCorasick(
        [_padded(name) for name in names], matchkind=module.MatchKind.LeftmostLongest, store_patterns=False
    )
    return lambda texts: (automaton.find_matches_as_indexes(_padded(text)) for text in texts)


def _memory() -> float:
    """MB that this process holds now."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * 4096 / 1e6 if status.exists() else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--automata", action="store_true")
    parser.add_argument("--name", default="scaling/mentions")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"seed": 0, "grown": [], "automata": {}}
    for count in arguments.documents:
        world = World(count)
        with tempfile.TemporaryDirectory() as folder:
            result["grown"].append(grow(world, Path(folder) / "memories.sqlite"))
        print(json.dumps(result["grown"][-1], indent=1), flush=True)
        if arguments.automata:
            result["automata"][count] = automata(world)
            print(json.dumps(result["automata"][count], indent=1), flush=True)
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
