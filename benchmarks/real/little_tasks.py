"""Tasks with little experience: some trajectories, and cues that were in none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real import documents_pool, wikispeedia
from benchmarks.real.data import Encode
from benchmarks.real.dialogue import Conversation
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.locomo import TUNED_ON
from benchmarks.worlds import paper
from pam_retriever.types import Float32

CUES, REQUESTS, EXPERIENCES = 400, 400, 600  # largest numbers of cues, of requests as queries, and of trajectories
WINDOW = 5  # the default of ``fit``
TUNING_WORLD = 7


@dataclass(frozen=True)
class Little:
    """Memories, ``given`` trajectories of them, and queries.

    Attributes:
        texts: texts of the memories; empty for none.
        vectors: (N, d).
        given: trajectories to learn from, each some positions of memories.
        cues: memories that are in no trajectory, each with the memories that it is later experienced with.
        questions: requests in words, each with the memories that it uses.
        request_vectors: (Q, d) of the requests.
        window: the window of ``fit``.
    """

    texts: list[str]
    vectors: Float32
    given: list[list[int]]
    cues: list[tuple[int, frozenset[int]]]
    questions: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    request_vectors: Float32 | None = None
    window: int = WINDOW


def documents(path: Path, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields the passages of multi-hop questions: those of a question are a trajectory. Tuning half only, two folds."""
    pool = documents_pool.read(path, encode)
    tuning = np.random.default_rng(0).permutation(len(pool.halves()[0]))
    half = len(tuning) // 2
    for size in sizes:
        for given, later in ((tuning[:half], tuning[half:]), (tuning[half:], tuning[:half])):
            if size <= len(given):
                sets = [pool.supporting[at] for at in given[:size]]
                after = [pool.supporting[at] for at in later]
                questions = [(pool.questions[at], frozenset(pool.supporting[at])) for at in later]
                yield (
                    size,
                    Little(
                        pool.texts, pool.vectors, sets, _together(sets, after), questions, pool.question_vectors[later]
                    ),
                )


def requests(folder: Path, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields a task of use: what a request used is a trajectory. Learns from before the last fifth of experience."""
    texts, position = [], {}
    for at, row in enumerate(_lines(folder / "memories.jsonl")):
        texts.append(row["text"])
        position[row["id"]] = at
    rows = [(row["cue"], [position[id] for id in row["used"]]) for row in _lines(folder / "experience.jsonl")]
    cut = int(0.8 * len(rows))
    before = [used for _, used in rows[:cut] if len(set(used)) > 1][-EXPERIENCES:]
    after = [row for row in rows[cut:] if len(set(row[1])) > 1]
    after = [after[at] for at in np.sort(np.random.default_rng(0).permutation(len(after))[:REQUESTS])]
    vectors, request_vectors = encode(texts), encode([cue for cue, _ in after])
    for size in sizes:
        given = before[-size:]
        cues = _together(given, [used for _, used in after])
        yield (
            size,
            Little(texts, vectors, given, cues, [(cue, frozenset(used)) for cue, used in after], request_vectors),
        )


def dialogues(path: Path, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields the two tuning dialogues: sessions are trajectories, and cues are turns of later sessions."""
    for one in read_dialogues(path)[:TUNED_ON]:
        yield from _dialogue(one, encode, sizes)


def _dialogue(one: Conversation, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    texts = [turn["text"] for turn in one.turns]
    position = {turn["id"]: at for at, turn in enumerate(one.turns)}
    vectors, request_vectors = encode(texts), encode([question for question, _, _ in one.questions])
    sessions = [np.flatnonzero(one.sessions == number).tolist() for number in np.unique(one.sessions)]
    questions = [(question, frozenset(position[id] for id in found)) for question, found, _ in one.questions]
    for size in sizes:
        if size < len(sessions):
            cues = _around(sessions[:size], sessions[size:], WINDOW)
            yield size, Little(texts, vectors, sessions[:size], cues, questions, request_vectors)


def together(path: Path, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields the two tuning dialogues as one set of memories; ``sizes`` are sessions of each."""
    for size in sizes:
        parts = [one for _, one in dialogues(path, encode, [size])]
        starts = np.cumsum([0, *(len(one.texts) for one in parts)]).tolist()
        vectors = np.concatenate([one.vectors for one in parts])
        request_vectors = encode([text for one in parts for text, _ in one.questions])
        given, cues, questions, texts = [], [], [], []
        for one, start in zip(parts, starts, strict=False):
            texts += one.texts
            given += [[at + start for at in steps] for steps in one.given]
            cues += [(cue + start, frozenset(at + start for at in found)) for cue, found in one.cues]
            questions += [(text, frozenset(at + start for at in found)) for text, found in one.questions]
        yield size, Little(texts, vectors, given, cues, questions, request_vectors)


def walks(folder: Path, encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields Wikispeedia's walks; cues are articles of the tuning walks that the given walks did not visit."""
    titles, every = wikispeedia.read(folder)
    before, after = wikispeedia.split(wikispeedia.split(every)[0])
    texts = [title.replace("_", " ") for title in titles]
    vectors, later = encode(texts), [list(walk.articles) for walk in after]
    for size in sizes:
        given = [list(walk.articles) for walk in before if len(set(walk.articles)) > 1][-size:]
        yield size, Little(texts, vectors, given, _around(given, later, wikispeedia.WINDOW), window=wikispeedia.WINDOW)


def world(_path: None, _encode: Encode, sizes: Sequence[int]) -> Iterator[tuple[int, Little]]:
    """Yields the paper's world of the tuning seed with 100 trajectories."""
    built = paper.build(TUNING_WORLD, 100)
    trajectories = built.trajectories.tolist()
    for size in sizes:
        if size < len(trajectories):
            given = trajectories[:size]
            yield size, Little([], built.states, given, _around(given, trajectories[size:], WINDOW))


def _together(given: list[list[int]], later: list[list[int]]) -> list[tuple[int, frozenset[int]]]:
    """Returns each memory of ``later`` sets that is in no given one, with the others of its set."""
    experienced = {one for used in given for one in used}
    found = [(one, frozenset(used) - {one}) for used in later for one in dict.fromkeys(used) if one not in experienced]
    return _some([(cue, wanted) for cue, wanted in found if wanted])


def _around(given: list[list[int]], later: list[list[int]], window: int) -> list[tuple[int, frozenset[int]]]:
    """Returns each step of ``later`` trajectories whose memory is in no given one, with those within the window."""
    experienced = {one for steps in given for one in steps}
    found = [
        (cue, frozenset(steps[max(0, at - window) : at + window + 1]) - {cue})
        for steps in later
        for at, cue in enumerate(steps)
        if cue not in experienced
    ]
    return _some([(cue, wanted) for cue, wanted in found if wanted])


def _some(cues: list[tuple[int, frozenset[int]]]) -> list[tuple[int, frozenset[int]]]:
    chosen = np.sort(np.random.default_rng(0).permutation(len(cues))[:CUES])
    return [cues[at] for at in chosen]


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
