"""``python -m benchmarks.real.unnamed``: data without names, with and without the search for names.

Two indexes of the same memories, one with ``names=()``, get the same queries, first without feedback and then with half
of the questions, or 1,000 requests, as feedback. The data are dialogues (LoCoMo, see ``benchmarks.real.locomo``) and
tools (ToolLens, see ``benchmarks.real.use``). In the rows "named" the tools have their names as metadata, so mentions
count. Nothing is fitted. Each row has the recall at 5 and 10 of both indexes, and their largest difference of a score.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import find, load_encoder
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.locomo import FILES
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.types import Float32

KS = (5, 10)
QUESTIONS, REQUESTS = 300, 1000  # numbers for tools
NAME = re.compile(r"tool_name:([^,]*)")  # in the texts of tools


@dataclass(frozen=True)
class Data:
    """Memories, questions with the positions of their answers, and requests with the memories that they used."""

    texts: list[str]
    vectors: Float32
    metadatas: list[dict[str, Any]]
    questions: tuple[list[str], Float32, list[list[int]]]
    requests: tuple[list[str], Float32, list[list[int]]]


def dialogues(path: Path, embed: Any) -> list[Data]:
    """Returns each dialogue; every second question is a request."""
    found = []
    for conversation in read_dialogues(path):
        position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
        texts = [turn["text"] for turn in conversation.turns]
        metadatas = [{key: turn[key] for key in ("speaker", "session", "time")} for turn in conversation.turns]
        question_texts = [text for text, _, _ in conversation.questions]
        used = [sorted(position[id] for id in evidence) for _, evidence, _ in conversation.questions]
        vectors = embed(question_texts)
        halves = [(question_texts[at::2], vectors[at::2], used[at::2]) for at in (0, 1)]
        found.append(Data(texts, embed(texts), metadatas, *halves))
    return found


def tools(folder: Path, embed: Any, named: bool) -> Data:
    """Returns the tools, some of the tests, and the last requests before them."""
    memories, tests, past = (lines(folder / f"{name}.jsonl") for name in ("memories", "test", "experience"))
    position = {row["id"]: at for at, row in enumerate(memories)}
    chosen = np.sort(np.random.default_rng(0).permutation(len(tests))[:QUESTIONS]).tolist()

    def rows(some: list[dict[str, Any]]) -> tuple[list[str], Float32, list[list[int]]]:
        cues = [row["cue"] for row in some]
        return cues, embed(cues), [[position[id] for id in row["used"]] for row in some]

    texts = [row["text"] for row in memories]
    metadatas = [{"name": NAME.findall(text)[0]} if named else {} for text in texts]
    return Data(texts, embed(texts), metadatas, rows([tests[at] for at in chosen]), rows(past[-REQUESTS:]))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def compare(every: list[Data]) -> dict[str, Any]:
    """Measures recall with and without the search for names, before and after feedback."""
    result: dict[str, Any] = {}
    hits: dict[tuple[str, str], list[list[float]]] = {}
    largest = {"before feedback": 0.0, "after feedback": 0.0}
    for data in every:
        indexes = {"with": PredictiveAssociativeIndex(data.vectors.shape[1])}
        indexes["without"] = PredictiveAssociativeIndex(data.vectors.shape[1], names=())
        for index in indexes.values():
            index.add(data.vectors, [str(at) for at in range(len(data.texts))], data.texts, data.metadatas)
        for stage in largest:
            if stage == "after feedback":
                texts, vectors, used = data.requests
                for index in indexes.values():
                    index.feedback(vectors, [[str(at) for at in one] for one in used], text=texts)
            for text, vector, answers in zip(*data.questions, strict=True):
                wanted, scores = {str(at) for at in answers}, {}
                for name, index in indexes.items():
                    found = index.recall(vector, max(KS), text=text)
                    scores[name] = dict(zip(found.ids, found.scores.tolist(), strict=True))
                    row = [len(wanted & set(found.ids[:k])) / min(k, len(wanted)) for k in KS]
                    hits.setdefault((stage, name), []).append(row)
                both = scores["with"].keys() | scores["without"].keys()
                gaps = [abs(scores["with"].get(id, 0.0) - scores["without"].get(id, 0.0)) for id in both]
                largest[stage] = max([largest[stage], *gaps])
    for stage, gap in largest.items():
        means = {name: np.mean(hits[stage, name], axis=0) for name in ("with", "without")}
        result[stage] = {
            name: dict(zip([f"R@{k}" for k in KS], one.tolist(), strict=True)) for name, one in means.items()
        }
        result[stage] |= {"questions": len(hits[stage, "with"]), "largest difference of a score": gap}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locomo", type=Path, help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--use", type=Path, help="folder that contains toollens (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/unnamed", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    embed = load_encoder(arguments.embedder)
    folder = find(arguments.use, ("use",), __doc__ or "") / "toollens"
    result: dict[str, Any] = {"seed": 0, "requests": REQUESTS}
    for name, named in (("tools", False), ("tools, named", True)):
        result[name] = compare([tools(folder, embed, named)])
        print(name, json.dumps(result[name], indent=1), flush=True)
    result["dialogues"] = compare(dialogues(find(arguments.locomo, FILES, __doc__ or ""), embed))
    print(json.dumps(result["dialogues"], indent=1))
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
