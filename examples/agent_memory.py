"""An agent that remembers two users: it stores each turn, recalls before it answers, learns by itself, and forgets.

    python examples/agent_memory.py                # a short dialogue from this file
    python examples/agent_memory.py events.jsonl   # your dialogue, one turn per line: text, session, speaker

It needs the extra ``text``, whose embedder needs no network. ``python -m benchmarks.real.locomo --export events.jsonl``
writes the LoCoMo dialogues in this format.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pam_retriever import PredictiveAssociativeIndex

FIT_AFTER = 20  # number of turns
START = datetime(2023, 5, 1, 9, tzinfo=timezone.utc)
TURNS = [
    ("Ann", "The cellar stairs were wet again this morning."),
    ("Ann", "I slipped, and my wrist is in plaster for four weeks."),
    ("Ben", "My bicycle has a flat tyre."),
    ("Ben", "The shop says the tube costs nine euros."),
    ("Ann", "The landlord finally answered about the pipe."),
    ("Ann", "A plumber comes on Thursday between eight and ten."),
    ("Ben", "I booked the early train to the coast."),
    ("Ben", "My locker at the station has the code 4711."),
    ("Ann", "The plumber found a hole behind the washing machine."),
    ("Ann", "It is mended, and the stairs are dry."),
    ("Ben", "The sea was too cold to swim."),
    ("Ben", "So I read a whole novel on the beach."),
]
DIALOGUE = [{"speaker": who, "session": f"day {at // 4}", "text": text} for at, (who, text) in enumerate(TURNS)]


def play(memory: PredictiveAssociativeIndex, turns: list[dict[str, Any]]) -> Counter[str]:
    """Reads the turns in order, as an agent. Before it answers a turn, it recalls helpful turns of the same user."""
    counts: Counter[str] = Counter()
    for at, turn in enumerate(turns):
        user, text = str(turn["speaker"]), str(turn["text"])
        # only memories of this user; before the first turn there are none
        hits = memory.recall(text=text, k=3, where={"user": user})
        assert all(hit.metadata["user"] == user for hit in hits)
        counts["asked"] += 1
        counts["found"] += bool(hits)
        # each user has a separate session, which links this turn to the user's previous turns
        session = f"{user}, {turn['session']}"
        when = START + timedelta(minutes=at)
        memory.append(session, text=text, id=f"turn {at}", metadata={"user": user}, timestamp=when)
    return counts


def main() -> None:
    turns = DIALOGUE
    if len(sys.argv) == 2:
        lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
        turns = [json.loads(line) for line in lines if line.strip()]
    users = list(dict.fromkeys(str(turn["speaker"]) for turn in turns))
    with tempfile.TemporaryDirectory() as folder:
        with PredictiveAssociativeIndex.open(Path(folder) / "memory", embedder="default") as memory:
            memory.auto_fit(min(FIT_AFTER, len(turns) // 2))  # learns by itself, in the background
            began = time.perf_counter()
            counts = play(memory, turns)
            print(f"{counts['asked']} turns, {counts['found']} with something found before the answer, ", end="")
            print(f"{1000 * (time.perf_counter() - began) / len(turns):.0f} ms a turn")

            question, user = "What happened when the cellar stairs were wet?", users[0]
            hits = memory.recall(text=question, k=3, where={"user": user}, explain=True)
            print(f"\n{question} ({user})")
            for hit in hits:
                print(f"  {hit.score:5.2f}  {hit.text}")
            # similar questions find the turns that served this one; ``feedback_where`` limits them to the same user
            memory.feedback(question, used=[hits[0].id], metadata={"user": user})
            again = memory.recall(
                text="Why were the stairs wet?", k=3, where={"user": user}, feedback_where={"user": user}
            )
            assert hits[0].id in again.ids
            memory.fit(background=True).result()

            gone, secret = users[1], next(str(turn["text"]) for turn in turns if turn["speaker"] == users[1])
            print(f"\n{memory.erase(where={'user': gone})}")
            memory.delete_feedback(where={"user": gone})
            assert not memory.find({"user": gone})
            assert not memory.recall(text=secret, where={"user": gone})
            assert all(gone not in one.id for one in memory.trajectories())
        held = [path for path in Path(folder).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert not held  # no file contains the secret
        with PredictiveAssociativeIndex.open(Path(folder) / "memory", embedder="default") as memory:
            print(f"\n{gone} is forgotten: {len(memory)} memories are left, of {users[0]}")


if __name__ == "__main__":
    main()
