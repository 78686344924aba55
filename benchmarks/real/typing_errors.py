"""``python -m benchmarks.real.typing_errors``: questions with typing errors, in dialogues and documents.

Each question is asked as it is, and with an error in one and in two of its words of five letters or more: a letter too
many, one missing, a wrong one, or two swapped, drawn with seed 0. Before a fit, with default settings; "corrected" is
recall as it is, "as typed" has the terms of the question alone. The data are those of ``benchmarks.real.locomo`` (its
dialogues from the third on) and ``benchmarks.real.documents`` (the second halves); settings were chosen on the rest.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.metrics import top
from benchmarks.real import documents, documents_pool, locomo
from benchmarks.real.data import find, load_encoder
from benchmarks.real.dialogue import read
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.evaluation import Evaluation, evaluate_rankings, interval
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.types import Float32

ERRORS = (0, 1, 2)  # words with an error in a question
KS = (5, 10)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Data = tuple[str, PredictiveAssociativeIndex, Float32, list[str], list[set[str]]]
"""Name, index, the vectors of its memories in order, questions, and the ids of what answers each."""


def mistyped(question: str, errors: int, draws: random.Random) -> str:
    """Returns a question with a typing error in some of its words of five letters or more."""
    words = question.split()
    long = [at for at, word in enumerate(words) if len(re.sub(r"\W", "", word)) >= 5]
    for at in draws.sample(long, min(errors, len(long))):
        word, where = words[at], draws.randrange(1, len(words[at]) - 2)
        head, tail = word[:where], word[where:]
        changed = [
            head + tail[1] + tail[0] + tail[2:],
            head + tail[1:],
            head + tail[0] + tail,
            head + draws.choice(LETTERS) + tail[1:],
        ]
        words[at] = draws.choice(changed)
    return " ".join(words)


def dialogues(embed: Callable[[list[str]], Float32], most: int) -> list[Data]:
    """Returns the dialogues that nothing was chosen on."""
    found = []
    for one in read(find(None, locomo.FILES, __doc__ or ""))[locomo.TUNED_ON :][:most]:
        vectors = embed([turn["text"] for turn in one.turns])
        questions, wanted = [question for question, _, _ in one.questions], [used for _, used, _ in one.questions]
        found.append((one.name, locomo.index_of(one, vectors), vectors, questions, wanted))
    return found


def passages(embed: Callable[[list[str]], Float32], most: int) -> list[Data]:
    """Returns the documents with the second halves of their questions."""
    found = []
    for name in documents.SETS[:most]:
        path = find(None, (f"documents/{name}.jsonl",), __doc__ or "")
        pool = documents_pool.read(path, embed)
        index = PredictiveAssociativeIndex(pool.vectors.shape[1])
        ids = [str(at) for at in range(len(pool.texts))]
        index.add(pool.vectors, ids, pool.texts, [{"title": title} for title in pool.titles])
        asked = pool.halves()[1]
        wanted = [{str(one) for one in pool.supporting[at]} for at in asked]
        found.append((name, index, pool.vectors, [pool.questions[at] for at in asked], wanted))
    return found


def ask(data: Data, questions: Sequence[str], vectors: Float32) -> dict[str, Evaluation]:
    """Returns recall of the answers by cosine, and by default recall without and with the correction."""
    _, index, stored, _, wanted = data
    ids = [one.id for one in index.find()]
    ranked = {"cosine": [[ids[at] for at in row] for row in top(vectors @ stored.T, max(KS)).tolist()]}
    corrected = Lexicon.asked
    for name, terms in {"as typed": Lexicon.terms, "corrected": corrected}.items():
        Lexicon.asked = terms  # type: ignore[method-assign]
        try:
            ranked[name] = [
                index.recall(one, max(KS), text=text).ids for text, one in zip(questions, vectors, strict=True)
            ]
        finally:
            Lexicon.asked = corrected  # type: ignore[method-assign]
    return {name: evaluate_rankings(found, wanted, ks=KS) for name, found in ranked.items()}


def summary(found: dict[str, list[Evaluation]]) -> dict[str, Any]:
    """Returns R@k of each method, and what the correction brings, question by question."""
    result: dict[str, Any] = {}
    for k in KS:
        of_each = {
            name: np.concatenate([one.per_question[f"recall@{k}"] for one in parts]) for name, parts in found.items()
        }
        row: dict[str, Any] = {name: round(float(values.mean()), 4) for name, values in of_each.items()}
        gain = of_each["corrected"] - of_each["as typed"]
        result[f"R@{k}"] = {**row, "gain": vars(interval(gain)), "changed": int(np.count_nonzero(gain))}
    return result


def show(name: str, row: dict[str, Any]) -> None:
    for measure, one in row.items():
        gain = one["gain"]
        methods = ", ".join(f"{method} {one[method]:.3f}" for method in ("cosine", "as typed", "corrected"))
        print(
            f"{name}, {measure}: {methods}; gain {gain['mean']:.3f} [{gain['low']:.3f}, {gain['high']:.3f}]", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=10, help="largest number of dialogues, and of sets of documents")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/typing-errors", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    embed = load_encoder(arguments.embedder)
    results: dict[str, Any] = {}
    groups = {"LoCoMo": dialogues(embed, arguments.most)}
    groups |= {one[0]: [one] for one in passages(embed, arguments.most)}
    for group, members in groups.items():
        for errors in ERRORS:
            draws = random.Random(0)
            found: dict[str, list[Evaluation]] = {}
            for data in members:
                questions = [mistyped(question, errors, draws) for question in data[3]]
                for name, one in ask(data, questions, embed(questions)).items():
                    found.setdefault(name, []).append(one)
            results[f"{group}, {errors}"] = row = summary(found)
            show(f"{group}, {errors} errors", row)
    print(f"written to {report.write(arguments.name, {'seed': 0, 'questions': results})}")


if __name__ == "__main__":
    main()
