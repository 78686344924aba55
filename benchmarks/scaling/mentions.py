"""``python -m benchmarks.scaling.mentions``: names and mentions as an index grows.

Every document has its own title, and a text of made-up words, drawn by Zipf's law, that mentions a few other titles.
Measured in processor time are: adding texts without names and with them, one more document at the end, and a query to
either, in turns; and the bytes in the database of each. ``--automata`` also measures the finder over the same names in
memory, and two Aho-Corasick automata, pyahocorasick and ahocorasick_rs, if they are installed.
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
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.finder import find
from pam_retriever.mentions.folding import words
from pam_retriever.mentions.store import TABLES
from pam_retriever.mentions.vocabulary import MemoryVocabulary
from pam_retriever.store.sqlite.database import SQLiteDatabase

SYLLABLES = "ka to mi ren sol va der lin gor pa ness ti bra ul on fer ma ze qui sta".split()  # noqa: SIM905
BATCH = 10_000
DIM, QUESTIONS = 8, 120  # length of the vectors, which are noise; queries per index, of which the first 20 are warm-up
WORDS, NAMED = 80, 3  # words per text, names among them


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
        """Returns texts that name some of the titles."""
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


def grow(world: World, folder: Path) -> dict[str, Any]:
    """Adds all documents in batches to an index without names and to one with them, and queries both."""
    count, seconds = len(world.titles), {"words": 0.0, "with names": 0.0}
    with (
        PredictiveAssociativeIndex.open(folder / "words", DIM, "faiss:flat", names=()) as plain,
        PredictiveAssociativeIndex.open(folder / "names", DIM, "faiss:flat") as named,
    ):
        indexes = {"words": plain, "with names": named}
        for start in range(0, count, BATCH):
            texts = world.texts(min(BATCH, count - start))
            for name, index in indexes.items():
                took = time.process_time()
                _add(index, world.titles[start : start + len(texts)], texts, start)
                seconds[name] += time.process_time() - took
        took = time.process_time()
        named.recall(np.ones(DIM), text="who was first?")  # searches the documents that were added in bulk
        seconds["with names"] += time.process_time() - took
        one: dict[str, list[float]] = {name: [] for name in indexes}
        for extra in range(20):
            text = world.texts(1)
            for name, index in indexes.items():
                took = time.process_time()
                _add(index, [f"{world.titles[extra]} again"], text, count + extra)
                one[name].append(time.process_time() - took)
        milliseconds = _ask(world, indexes)
        database = named._store.database
        assert isinstance(database, SQLiteDatabase)
        fetch = database.connection.fetch
        found, sizes = fetch("SELECT count(*), sum(number < 0) FROM mentions")[0], _bytes(fetch)
    mine = sum(sizes.get(name, 0) for name in (*TABLES, *INDEXES))
    return {
        "documents": count,
        "mentions": found[0],
        "of these phrases": found[1],
        "seconds": seconds,
        "mentions, times of words": (seconds["with names"] - seconds["words"]) / seconds["words"],
        "one more document, p50 ms": {name: 1e3 * float(np.median(values)) for name, values in one.items()},
        "recall, p50 ms": {name: 1e3 * float(np.median(values)) for name, values in milliseconds.items()},
        "recall, times of words": float(np.median(milliseconds["with names"]) / np.median(milliseconds["words"])),
        "bytes": sizes,
        "bytes a mention": sum(sizes.get(name, 0) for name in ("mentions", "mentions_of_name")) / max(found[0], 1),
        "bytes a mention, names and all": mine / max(found[0], 1),
        "memory, MB": _memory(),
    }


def _ask(world: World, indexes: dict[str, PredictiveAssociativeIndex]) -> dict[str, list[float]]:
    """Returns the processor seconds of each query, in turns; the first 20 do not count."""
    random = np.random.default_rng(1)
    taken: dict[str, list[float]] = {name: [] for name in indexes}
    for _ in range(QUESTIONS):
        vector, title = random.standard_normal(DIM), world.titles[int(random.integers(len(world.titles)))]
        for name, index in indexes.items():
            took = time.process_time()
            index.recall(vector, text=f"who knows {title}?")
            taken[name].append(time.process_time() - took)
    return {name: values[20:] for name, values in taken.items()}


INDEXES = ("mentions_of_name", "called_of_memory", "sqlite_autoindex_names_1")


def _add(index: PredictiveAssociativeIndex, titles: list[str], texts: list[str], start: int) -> None:
    vectors = np.random.default_rng(start).standard_normal((len(texts), DIM)).astype(np.float32)
    ids = [f"{start + at:032x}" for at in range(len(texts))]
    index.add(vectors, ids, texts, [{"title": title} for title in titles])


def _bytes(fetch: Callable[..., list[Any]]) -> dict[str, int]:
    """Returns the bytes of each table and index; empty if SQLite was built without ``dbstat``."""
    if not fetch("SELECT 1 FROM pragma_compile_options WHERE compile_options = 'ENABLE_DBSTAT_VTAB'"):
        return {}
    return dict(fetch("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))


def automata(world: World) -> dict[str, Any]:
    """Builds each of the three finders over all titles, and searches 5,000 texts."""
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
    """Puts two spaces between words, so that matches of neighbouring names share no space."""
    return f" {'  '.join(words(text))} "


def _dictionary(names: list[str]) -> Callable[[list[str]], Iterator[Any]]:
    vocabulary = MemoryVocabulary({name: at for at, name in enumerate(names)})
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
    """Returns the MB that this process uses now."""
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
            result["grown"].append(grow(world, Path(folder)))
        print(json.dumps(result["grown"][-1], indent=1), flush=True)
        if arguments.automata:
            result["automata"][count] = automata(world)
            print(json.dumps(result["automata"][count], indent=1), flush=True)
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
