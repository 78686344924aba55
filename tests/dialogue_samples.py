"""A synthetic dialogue for the tests of the adapters: answers are next to turns that share words with questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever import PredictiveAssociativeIndex, Trajectory

SESSIONS, TURNS, DIM = 12, 10, 24
PEOPLE = ("Ada", "Ben")


@dataclass(frozen=True)
class Turn:
    """One turn: its text, its session, and its position there."""

    id: str
    text: str
    session: str
    position: int


def turns() -> list[Turn]:
    """Returns twelve sessions; every third turn names an object, and the next turn answers without naming it."""
    spoken = []
    for session in range(SESSIONS):
        for position in range(TURNS):
            thing = f"thing{session}x{position // 3}"
            text = f"{PEOPLE[position % 2]}: " + (
                f"how did it go with the {thing}" if position % 3 == 0 else f"it went well on day {position} as I hoped"
            )
            spoken.append(Turn(f"{session}-{position}", text, f"session {session}", position))
    return spoken


def questions() -> list[tuple[str, set[str]]]:
    """Returns questions, and the ids of the answering turns: the turn that names the object, and the next turn."""
    return [
        (f"What came of the thing{session}x{block}?", {f"{session}-{3 * block}", f"{session}-{3 * block + 1}"})
        for session in range(SESSIONS)
        for block in range(3)
    ]


def embed(text: str) -> list[float]:
    """Returns a common direction plus noise, as for turns of similar texts, where vectors carry little information."""
    random = np.random.default_rng(sum(text.encode()) * 7919 + len(text))
    return (random.standard_normal(DIM) + 1).tolist()


def recall_at_10(found: dict[str, list[str]]) -> float:
    """Returns the mean share of the answering turns that are among the first ten hits of their question."""
    return float(np.mean([len(ids & set(found[text][:10])) / len(ids) for text, ids in questions()]))


def core() -> PredictiveAssociativeIndex:
    """Returns an index with the dialogue, without an adapter; each session was observed."""
    said = turns()
    made = PredictiveAssociativeIndex(DIM)
    made.add([embed(turn.text) for turn in said], [t.id for t in said], [t.text for t in said])
    for session in {turn.session: None for turn in said}:
        made.observe(Trajectory(ids=[turn.id for turn in said if turn.session == session]))
    return made
