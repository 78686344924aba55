"""``python -m benchmarks.real.scripts FILE...``: words of languages without spaces between words.

Each FILE is one of Debian's translations of package descriptions, ``Translation-ja.bz2`` and so on, from
``dists/bookworm/main/i18n/`` of any mirror (their licences are those of the packages: for evaluation only). The short
description, without Latin letters and digits, asks for the long description of the same package. Only words count.
"""

from __future__ import annotations

import argparse
import bz2
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks import report
from pam_retriever.mentions.scripts import is_unspaced
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mixture.words import BM25, WordIndex
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.storing import NewMemories

Ask = Callable[[str], np.ndarray]

QUESTIONS = {
    "ja": "{}とは何ですか。どうやって使いますか。",
    "zh_CN": "请问,{}是什么,怎么用",
    "ko": "{} 무엇 입니까? 어떻게 씁니까?",
}
LATIN = re.compile(r"[A-Za-z0-9]+")


def read(file: Path, most: int) -> list[tuple[str, str]]:
    """Returns pairs of a short and a long description, without duplicates, in random order."""
    found = {}
    for block in bz2.decompress(file.read_bytes()).decode().split("\n\n"):
        described = re.search(r"Description-\w+: (.*?)\n((?: .*\n?)+)", block)
        if described is None:
            continue
        short = LATIN.sub(" ", described[1]).strip()
        long = " ".join(re.sub(r"^ \.?", "", line) for line in described[2].split("\n"))
        if is_unspaced(short) and is_unspaced(long) and long not in found.values():
            found.setdefault(short, long)
    pairs = sorted(found.items())
    random.Random(0).shuffle(pairs)
    return pairs[:most]


def library(texts: list[str]) -> Ask:
    """Returns a function from a question to the BM25 of each text, by the library."""
    database = SQLiteDatabase()
    with database.transaction():
        vectors = np.ones((len(texts), 1), np.float32)
        ids = [str(at) for at in range(len(texts))]
        database.memories.upsert(NewMemories(ids, vectors, texts, ["{}"] * len(texts)), None)
    lexicon = Lexicon(database)
    return lambda question: lexicon.scores(lexicon.terms(question))[1:]


def by_pieces(pieces: Callable[[str], list[str]]) -> Callable[[list[str]], Ask]:
    """The same with other words: ``pieces`` cuts a run of letters. Question words count."""

    def words(text: str) -> list[str]:
        return [piece for run in re.findall(r"\w+", text) for piece in pieces(run)]

    def make(texts: list[str]) -> Ask:
        index = BM25([(WordIndex.of([words(text) for text in texts]), 1.0)])
        return lambda question: index.scores(words(question))

    return make


WAYS: dict[str, Callable[[list[str]], Ask]] = {
    "whole runs, as until format 2": by_pieces(lambda run: [run]),
    "letters": by_pieces(list),
    "pairs": by_pieces(lambda run: [run[at : at + 2] for at in range(max(1, len(run) - 1))]),
    "library": library,
}


def places(pairs: list[tuple[str, str]], ask: Ask, question: str) -> np.ndarray:
    """Returns the place (Q,) of each right text, from 0; ties count half."""
    found = np.empty(len(pairs))
    for at, (short, _) in enumerate(pairs):
        scores = ask(question.format(short))
        right = scores[at]
        found[at] = (scores > right).sum() + ((scores == right).sum() - 1) / 2
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="Translation-ja.bz2 and others")
    parser.add_argument("--most", type=int, default=3000, help="packages per file (default: 3000)")
    parser.add_argument("--name", default="real/scripts", help="of the raw file (default: real/scripts)")
    arguments = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    for file in arguments.files:
        language = file.stem.removeprefix("Translation-")
        pairs = read(file, arguments.most)
        forms = {"": "{}", ", as a question": QUESTIONS.get(language, "{}")}
        for name, make in WAYS.items():
            ask = make([long for _, long in pairs])
            row = {"texts": float(len(pairs))}
            for form, question in forms.items():
                at = places(pairs, ask, question)
                row |= {f"R@1{form}": float((at < 1).mean()), f"R@10{form}": float((at < 10).mean())}
            table[f"{language}, {name}"] = row
    print(report.table(list(next(iter(table.values()))), table, digits=3))
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, 'ways': table})}")


if __name__ == "__main__":
    main()
