"""``python -m benchmarks.real.pages FOLDER``: manual pages that name each other, asked by what they do.

FOLDER contains manual pages (``man2/fork.2.gz``), for example Debian's packages ``manpages`` and ``manpages-dev``,
unpacked by ``dpkg-deb -x``. The question is the purpose of a page ("create a child process"). The answer is this page,
and then those of its section "SEE ALSO", which is taken out of the texts. The other methods see the same texts. Linux'
pages chose the limits of mentions (``mentions/limits.py``, ``mentions/source.py``); those of PostgreSQL were asked when
they were chosen.
"""

from __future__ import annotations

import argparse
import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import load_encoder
from benchmarks.real.scripts import library as by_words
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.evaluation import evaluate_rankings, interval
from pam_retriever.types import Float32

CUTS = (2, 5, 10)
MOST_RELEVANT, LONGEST, EMBEDDED = 10, 6000, 1500  # pages; characters of a text, and of its beginning that is embedded
FONTS = (".B", ".I", ".BR", ".IR", ".RB", ".RI", ".BI", ".IB", ".SS", ".SM")  # lines whose words are text
LEFT_OUT = ("NAME", "SEE ALSO", "COLOPHON", "AUTHORS", "AUTHOR")
REFERENCE = re.compile(r"([\w.+-]+) ?\((\d)\)")


@dataclass(frozen=True)
class Page:
    """A manual page: its name such as "fork(2)", its purpose, its text, and the pages that it says to see also."""

    id: str
    purpose: str
    text: str
    also: list[str]


def read(path: Path) -> Page | None:
    """Reads a page; None for a reference to another page, or without a purpose."""
    named = re.fullmatch(r"(.+)\.(\d)\w*\.gz", path.name)
    raw = gzip.decompress(path.read_bytes()).decode(errors="replace")
    if path.is_symlink() or raw.lstrip().startswith(".so ") or not named:
        return None
    parts: dict[str, list[str]] = {}
    part = ""
    for line in raw.split("\n"):
        if line.startswith(".SH"):
            part = line[3:].strip().strip('"').upper()
        else:
            parts.setdefault(part, []).append(_plain(line))
    called, _, purpose = " ".join(parts.get("NAME", [])).strip().partition(" - ")
    also = [f"{name}({section})" for name, section in REFERENCE.findall(" ".join(parts.get("SEE ALSO", [])))]
    body = [" ".join(lines) for name, lines in parts.items() if name and name not in LEFT_OUT]
    text = "\n".join([f"{called} - {purpose}", *body])[:LONGEST]
    return Page(f"{named[1]}({named[2]})", purpose.strip(), text, also) if purpose.strip() else None


def _plain(line: str) -> str:
    """Returns the words of a line of roff."""
    if line.startswith((".", "'")):
        macro, _, rest = line.partition(" ")
        if macro not in FONTS:
            return ""
        if len(macro) == 3 and macro not in (".SS", ".SM"):  # fonts in turns, without spaces between them
            rest = "".join(re.findall(r'"[^"]*"|\S+', rest)).replace('"', "")
            rest = re.sub(r"(\w)\((\d)\)", r"\1 (\2)", rest)
        line = rest
    line = re.sub(r"\\f.|\\&|\\%", "", line)
    return line.replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")


def run(pages: list[Page], embed: Any) -> dict[str, Any]:
    """Asks for the pages with two others to see also; returns R@1 of the page itself, and R@k of all right pages."""
    ids = [page.id for page in pages]
    there = set(ids)
    asked = {
        page.id: [page.id, *(one for one in dict.fromkeys(page.also) if one in there - {page.id})] for page in pages
    }
    chosen = [page for page in pages if len(asked[page.id]) > 2]
    questions, relevant = [page.purpose for page in chosen], [asked[page.id][:MOST_RELEVANT] for page in chosen]
    texts, vectors = [page.text for page in pages], embed([page.text[:EMBEDDED] for page in pages])
    queries = embed(questions)
    cosine, ask = queries @ vectors.T, by_words(texts)
    words = np.stack([ask(question) for question in questions])
    fused = cosine / cosine.max(axis=1, keepdims=True) + words / np.maximum(words.max(axis=1, keepdims=True), 1e-9)
    ranked = {name: _ranked(ids, scores) for name, scores in (("cosine", cosine), ("BM25", words), ("sum", fused))}
    titles = [{"title": id} for id in ids]
    for name, names in (("library", {}), ("library, without names", {"names": ()})):
        index = PredictiveAssociativeIndex(vectors.shape[1], **names)
        index.add(vectors, ids, texts, titles)
        ranked[name] = [hits.ids for hits in index.recall_many(queries, texts=questions, k=max(CUTS))]
    return {
        "pages": len(pages),
        "questions": len(questions),
        **{name: _measured(one, relevant) for name, one in ranked.items()},
    }


def _ranked(ids: list[str], scores: Float32) -> list[list[str]]:
    best = np.argsort(-scores, axis=1, kind="stable")[:, : max(CUTS)]
    return [[ids[at] for at in row] for row in best.tolist()]


def _measured(ranked: list[list[str]], relevant: list[list[str]]) -> dict[str, Any]:
    first = np.array([hits[0] == one[0] for hits, one in zip(ranked, relevant, strict=True)], float)
    found = evaluate_rankings(ranked, [set(one) for one in relevant], ks=CUTS)
    return {"page first": vars(interval(first)), **{f"R@{k}": vars(found[f"recall@{k}"]) for k in CUTS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="contains manual pages, at any depth")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/pages", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.rglob("man[1-9]*/*.gz"))
    pages = list({page.id: page for path in paths if (page := read(path))}.values())
    if len(pages) < 2:
        raise SystemExit(f"{arguments.folder} has {len(pages)} manual pages. Expected files such as man2/fork.2.gz.")
    found = run(pages, load_encoder(arguments.embedder))
    columns = {
        key: {name: row[key]["mean"] for name, row in found.items() if isinstance(row, dict)}
        for key in ("page first", *(f"R@{k}" for k in CUTS))
    }
    print(report.table([name for name, row in found.items() if isinstance(row, dict)], columns, digits=3))
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, **found})}")


if __name__ == "__main__":
    main()
