"""``python -m benchmarks.real.locomo``: find the turns that answer a question, in long dialogues.

LoCoMo (Maharana et al., ACL 2024; CC BY-NC 4.0, so it is not in this repository): take
``data/locomo10.json`` from https://github.com/snap-research/locomo and pass its path, or set
``PAM_DATA_DIR`` to the folder that holds it.

Each conversation is an index, each of its dated sessions a trajectory. Questions and evidence are
never trained on. The weights of mode "hybrid" were chosen on the first two conversations; the others
are what to read.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import find, load_embedder
from pam_retriever import PredictiveAssociativeIndex

FILES = ("locomo10.json", "locomo5.json", "locomo/locomo10.json", "locomo/locomo5.json")
TUNED_ON = 2
DEPTHS = (5, 10, 20)
MODES = ("similarity", "hybrid", "association", "specific")


@dataclass(frozen=True)
class Conversation:
    """Turns as events, and the answerable questions with the ids of their evidence turns."""

    name: str
    turns: list[dict[str, Any]]
    questions: list[tuple[str, set[str], int]]


def read(path: Path) -> list[Conversation]:
    """Reads the conversations; questions of categories 1 to 4 that name evidence that is there."""
    conversations = []
    for found in json.loads(path.read_text("utf-8")):
        turns = []
        number = 1
        while f"session_{number}_date_time" in found["conversation"]:
            date = found["conversation"][f"session_{number}_date_time"]
            for at, turn in enumerate(found["conversation"].get(f"session_{number}", [])):
                text = f"{turn['speaker']}: {turn['text']}"
                turns.append({"id": turn["dia_id"], "text": text, "session": number, "time": at, "date": date})
            number += 1
        there = {turn["id"] for turn in turns}
        questions = []
        for asked in found["qa"]:
            named = set(re.findall(r"D\d+:\d+", " ".join(asked.get("evidence", [])))) & there
            if asked["category"] in (1, 2, 3, 4) and named:
                questions.append((asked["question"], named, asked["category"]))
        conversations.append(Conversation(found["sample_id"], turns, questions))
    return conversations


def measure(conversation: Conversation, embedder: Any, seed: int) -> dict[str, Any]:
    vectors = embedder.encode([turn["text"] for turn in conversation.turns], show_progress_bar=False)
    asked = embedder.encode([question for question, _, _ in conversation.questions], show_progress_bar=False)
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    index.add(
        vectors,
        [turn["id"] for turn in conversation.turns],
        [turn["text"] for turn in conversation.turns],
        [{"session": turn["session"], "time": turn["time"]} for turn in conversation.turns],
    )
    fitted = index.fit(group_by="session", order_by="time", seed=seed)
    recalls, milliseconds = {}, {}
    for mode in MODES:
        started = time.perf_counter()
        answers = index.recall(asked, k=max(DEPTHS), mode=mode)
        milliseconds[mode] = 1e3 * (time.perf_counter() - started) / len(asked)
        recalls[mode] = [
            [len(evidence & {hit.id for hit in hits[:depth]}) / len(evidence) for depth in DEPTHS]
            for hits, (_, evidence, _) in zip(answers, conversation.questions, strict=True)
        ]
    return {
        "conversation": conversation.name,
        "turns": len(conversation.turns),
        "questions": len(conversation.questions),
        "fit_seconds": fitted.seconds,
        "milliseconds_a_question": milliseconds,
        "recalls": recalls,
    }


def summarise(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Means over all questions, and a bootstrap interval of the gain of hybrid over similarity."""
    columns = {}
    for mode in MODES:
        every = np.concatenate([run["recalls"][mode] for run in runs])
        columns[mode] = {f"R@{depth}": float(mean) for depth, mean in zip(DEPTHS, every.mean(0), strict=True)}
    gains = np.concatenate([np.subtract(run["recalls"]["hybrid"], run["recalls"]["similarity"]) for run in runs])
    random = np.random.default_rng(0)
    means = gains[random.integers(0, len(gains), (2000, len(gains)))].mean(1)
    for name, quantile in (("gain, low 95 %", 0.025), ("gain, high 95 %", 0.975)):
        ends = np.quantile(means, quantile, axis=0)
        columns[name] = {f"R@{depth}": float(end) for depth, end in zip(DEPTHS, ends, strict=True)}
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="locomo10.json; else it is looked for in PAM_DATA_DIR")
    parser.add_argument("--model", help="a sentence-transformers model (all-MiniLM-L6-v2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path, help="only write the turns as JSONL for the command line, and stop")
    parser.add_argument("--name", default="real/locomo")
    arguments = parser.parse_args()
    conversations = read(find(arguments.file, FILES, __doc__ or ""))
    if arguments.export:
        lines = [
            json.dumps({**turn, "id": f"{c.name}/{turn['id']}", "session": f"{c.name}/{turn['session']}"})
            for c in conversations
            for turn in c.turns
        ]
        arguments.export.write_text("\n".join(lines) + "\n", "utf-8")
        return
    embedder = load_embedder(arguments.model)
    runs = []
    for conversation in conversations:
        runs.append(measure(conversation, embedder, arguments.seed))
        print(f"{conversation.name}: {runs[-1]['turns']} turns, fitted in {runs[-1]['fit_seconds']:.1f} s")
    split = {"tuned on": runs[:TUNED_ON], "reported": runs[TUNED_ON:]}
    summary = {name: summarise(part) for name, part in split.items() if part}
    for name, columns in summary.items():
        print(f"\n{name}: {sum(run['questions'] for run in split[name])} questions")
        print(report.table([f"R@{depth}" for depth in DEPTHS], columns, digits=3))
    for run in runs:
        run["recalls"] = {mode: np.mean(values, axis=0).tolist() for mode, values in run["recalls"].items()}
    result = {
        "seed": arguments.seed,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "summary": summary,
        "runs": runs,
    }
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
