"""LoCoMo's dialogues: memories, questions, and the scoring of answers."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
METRICS = ("R@5", "R@10", "R@20", "MRR", "nDCG@10", "session@5")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}


@dataclass(frozen=True)
class Conversation:
    """Turns as events, and the answerable questions with the ids of their evidence turns."""

    name: str
    turns: list[dict[str, Any]]
    questions: list[tuple[str, set[str], int]]

    @property
    def sessions(self) -> npt.NDArray[np.int64]:
        """Returns the session of each turn, (N,)."""
        return np.array([turn["session"] for turn in self.turns])

    def relevant(self) -> npt.NDArray[np.bool_]:
        """Returns (Q, N) whether each turn is evidence."""
        ids = np.array([turn["id"] for turn in self.turns])
        return np.array([np.isin(ids, list(evidence)) for _, evidence, _ in self.questions])

    def near(self, window: int) -> Scores:
        """Returns an (N, N) matrix: 1 if two turns are at most ``window`` positions apart in one session, else 0."""
        at, sessions = np.arange(len(self.turns)), self.sessions
        distance = np.abs(at[:, None] - at)
        return ((distance > 0) & (distance <= window) & (sessions[:, None] == sessions)).astype(float)


def read(path: Path) -> list[Conversation]:
    """Reads the conversations; keeps questions of categories 1 to 4 whose evidence exists."""
    try:
        return [_conversation(found) for found in json.loads(path.read_text("utf-8"))]
    except (KeyError, TypeError, ValueError) as error:
        sys.exit(f"{path} is not LoCoMo's locomo10.json ({type(error).__name__}: {error}).")


def _conversation(found: dict[str, Any]) -> Conversation:
    turns = []
    number = 1
    while f"session_{number}_date_time" in found["conversation"]:
        date = found["conversation"][f"session_{number}_date_time"]
        for at, turn in enumerate(found["conversation"].get(f"session_{number}", [])):
            text = f"{turn['speaker']}: {turn['text']}"
            turns.append(
                {
                    "id": turn["dia_id"],
                    "text": text,
                    "speaker": turn["speaker"],
                    "session": number,
                    "time": at,
                    "date": date,
                }
            )
        number += 1
    there = {turn["id"] for turn in turns}
    questions = []
    for question in found["qa"]:
        named = set(re.findall(r"D\d+:\d+", " ".join(question.get("evidence", [])))) & there
        if question["category"] in CATEGORIES and named:
            questions.append((question["question"], named, question["category"]))
    return Conversation(found["sample_id"], turns, questions)


def evaluate(ranked: npt.NDArray[np.int64], conversation: Conversation) -> Scores:
    """Returns (Q, 6) METRICS of rankings (Q, depth) of turns; -1 fills a ranking after its end."""
    relevant, sessions = conversation.relevant(), conversation.sessions
    found = np.take_along_axis(relevant, np.maximum(ranked, 0), axis=1) & (ranked >= 0)
    count = relevant.sum(axis=1)
    columns = [found[:, :depth].sum(axis=1) / count for depth in (5, 10, 20)]
    columns.append(np.where(found.any(axis=1), 1 / (found.argmax(axis=1) + 1), 0))
    discount = 1 / np.log2(np.arange(2, 12))
    ideal = np.cumsum(discount)[np.minimum(count, 10) - 1]
    columns.append((found[:, :10] * discount[: found[:, :10].shape[1]]).sum(axis=1) / ideal)
    in_session = [
        bool(_first(sessions[row[row >= 0]].tolist(), 5) & set(sessions[evidence].tolist()))
        for row, evidence in zip(ranked, relevant, strict=True)
    ]
    return np.stack([*columns, np.array(in_session, float)], axis=1)


def _first(values: list[int], count: int) -> set[int]:
    """Returns the first ``count`` distinct values: the rank of a session is the rank of its best turn."""
    seen: set[int] = set()
    for value in values:
        seen.add(value)
        if len(seen) == count:
            break
    return seen


def rank(scores: Scores) -> npt.NDArray[np.int64]:
    """Returns (Q, N) turns by falling score."""
    return np.argsort(-scores, axis=1, kind="stable")


def interval(values: Scores, draws: int = 2000, seed: int = 0) -> tuple[Scores, Scores]:
    """Returns the 95 % bootstrap interval of the mean over the first axis."""
    random = np.random.default_rng(seed)
    means = np.stack([values[random.integers(0, len(values), len(values))].mean(axis=0) for _ in range(draws)])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high
