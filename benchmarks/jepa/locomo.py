"""LoCoMo turns as composite states of text, speaker and date, against text alone.

The protocol is the same as in ``benchmarks.real.locomo``: each conversation is an index, and its sessions are the
trajectories. Training never sees questions or evidence. The first two conversations are for tuning.
"""

from __future__ import annotations

import calendar
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.jepa.setup import JOINT, WINDOW
from benchmarks.real.data import find, load_embedder
from benchmarks.real.dialogue import Conversation, read
from benchmarks.real.locomo import FILES
from benchmarks.real.locomo import __doc__ as source
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.jepa import CompositeEncoder, JointTrainer, Modality, OutwardPredictor
from pam_retriever.types import Float32

DEPTHS = (5, 10, 20)
MODES = ("similarity", "hybrid", "association", "specific")
TUNED_ON = 2
WEIGHTS = ({"speaker": 0.03, "date": 0.03}, {"speaker": 0.1, "date": 0.1}, {"speaker": 0.3, "date": 0.3})


def turns_as_states(file: Path | None, passes: int, device: str, cache: Path | None) -> dict[str, Any]:
    recalls: dict[str, list[list[list[float]]]] = {}
    conversations = read(find(file, FILES, source or ""))
    for conversation, (texts, question_texts) in zip(conversations, embed(conversations, cache), strict=True):
        speakers = [turn["text"].split(":", 1)[0] for turn in conversation.turns]
        dates = [seconds(turn["date"]) for turn in conversation.turns]
        moments = [{"text": t, "speaker": s, "date": d} for t, s, d in zip(texts, speakers, dates, strict=True)]
        names = sorted(set(speakers))
        plain = [{"text": one} for one in question_texts]
        named = [
            {"text": one, **speaker(q, names)}
            for one, (q, _, _) in zip(question_texts, conversation.questions, strict=True)
        ]
        ids = [turn["id"] for turn in conversation.turns]
        sessions = np.array([turn["session"] for turn in conversation.turns])
        groups = [[i for i, s in zip(ids, sessions, strict=True) if s == one] for one in np.unique(sessions)]
        groups = [group for group in groups if len(group) > 1]
        answers: dict[str, Any] = {}

        index = PredictiveAssociativeIndex(dim=texts.shape[1])
        index.add(texts, ids)
        index.fit(groups, device=device)
        ask(answers, "text alone", index, question_texts)
        kinds = {
            "text": Modality.vector(texts.shape[1], precomputed=True),
            "speaker": Modality.category(names),
            "date": Modality.time(),
        }
        for weights in WEIGHTS:
            encoder = CompositeEncoder(kinds, fusion="concatenate", weights=weights)
            index = PredictiveAssociativeIndex(encoder=encoder)
            index.add(moments, ids)
            index.fit(groups, device=device)
            name = f"composite, weights {weights['speaker']}"
            ask(answers, name, index, plain)
            ask(answers, f"{name}, speaker asked", index, named)
        encoder = CompositeEncoder(kinds, dim=texts.shape[1])
        trainer = JointTrainer(encoder, OutwardPredictor(encoder.dim), config=replace(JOINT, passes=passes))
        position = {id: at for at, id in enumerate(ids)}
        steps = np.array([position[id] for group in groups for id in group])
        lengths = [len(group) for group in groups]
        experience = Experience(
            steps, np.repeat(np.arange(len(groups)), lengths), np.concatenate([np.arange(n) for n in lengths])
        )
        trainer.fit(moments, experience, window=WINDOW, device=device)
        index = PredictiveAssociativeIndex(encoder=trainer.target)
        index.add(moments, ids)
        index.fit(groups, device=device)
        ask(answers, "composite, trained encoder", index, named)
        for name, hits_of_all in answers.items():
            recalls.setdefault(name, []).append(
                [
                    [len(evidence & set(hits[:depth])) / len(evidence) for depth in DEPTHS]
                    for hits, (_, evidence, _) in zip(hits_of_all, conversation.questions, strict=True)
                ]
            )
    tables = {}
    for split, part in (("tuned on", slice(TUNED_ON)), ("reported", slice(TUNED_ON, None))):
        columns = {}
        for name, runs in recalls.items():
            mean = np.concatenate(runs[part]).mean(0)
            columns[name] = {f"R@{depth}": float(value) for depth, value in zip(DEPTHS, mean, strict=True)}
        tables[split] = columns
    reported = {name: np.concatenate(runs[TUNED_ON:]) for name, runs in recalls.items()}
    return {
        "columns": tables["reported"],
        "tuned on": tables["tuned on"],
        "gain over text alone, 95 %": {name: gain(values, reported, name) for name, values in reported.items()},
        "rows": [f"R@{depth}" for depth in DEPTHS],
        "questions": len(next(iter(reported.values()))),
    }


def embed(conversations: list[Conversation], cache: Path | None) -> list[tuple[Float32, Float32]]:
    """Returns embeddings of turns and questions; reads them from the file ``cache`` if it exists."""
    if cache is not None and cache.exists():
        with np.load(cache) as file:
            return [(file[f"t{at}"], file[f"q{at}"]) for at in range(len(conversations))]
    embedder = load_embedder(None)
    parts = [
        tuple(
            embedder.encode(texts, normalize_embeddings=True, show_progress_bar=False) for texts in (turns, questions)
        )
        for turns, questions in (
            ([turn["text"] for turn in c.turns], [question for question, _, _ in c.questions]) for c in conversations
        )
    ]
    if cache is not None:
        np.savez(
            cache, **{f"{kind}{at}": p for at, part in enumerate(parts) for kind, p in zip("tq", part, strict=True)}
        )
    return [(turns, questions) for turns, questions in parts]


def ask(answers: dict[str, Any], name: str, index: PredictiveAssociativeIndex, cues: Float32 | list[Any]) -> None:
    for mode in MODES:
        found = index.recall_many(cues, k=max(DEPTHS), mode=mode)
        answers[f"{name}: {mode}"] = [[hit.id for hit in hits] for hits in found]


def gain(values: Float32, reported: dict[str, Float32], name: str) -> dict[str, list[float]]:
    """Returns a bootstrap interval of the gain over text alone in the same mode."""
    difference = values - reported[f"text alone: {name.rsplit(': ', 1)[1]}"]
    random = np.random.default_rng(0)
    means = difference[random.integers(0, len(difference), (2000, len(difference)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return {f"R@{depth}": [float(a), float(b)] for depth, a, b in zip(DEPTHS, low, high, strict=True)}


def speaker(question: str, names: list[str]) -> dict[str, str]:
    """Returns the speaker whose name is in a question, if there is exactly one."""
    found = [name for name in names if name in question]
    return {"speaker": found[0]} if len(found) == 1 else {}


def seconds(date: str) -> float:
    """Returns the seconds of a date such as "1:56 pm on 8 May, 2023"."""
    return float(calendar.timegm(time.strptime(date, "%I:%M %p on %d %B, %Y")))
