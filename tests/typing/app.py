"""A small application over the public names: mypy and pyright, both strict, find nothing in it."""

# pyright: strict

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pam_retriever import (
    Channels,
    Evidence,
    FitConfig,
    FitReport,
    Hit,
    Imagination,
    InvalidInput,
    PAMError,
    PredictiveAssociativeIndex,
    Record,
    Trajectory,
    read_parquet,
)


@dataclass(frozen=True)
class Turn:
    """One turn of a dialogue."""

    id: str
    text: str
    session: str
    second: float


class Memory:
    """A memory of dialogues, where a question recalls the turns near similar turns."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.index = PredictiveAssociativeIndex.open(folder, dim=dim)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.index.close()

    def store(self, turns: Sequence[Turn], vectors: npt.NDArray[np.float32]) -> list[str]:
        added: list[str] = self.index.add(
            vectors,
            ids=[turn.id for turn in turns],
            texts=[turn.text for turn in turns],
            metadatas=[{"session": turn.session, "second": turn.second} for turn in turns],
        )
        ids = [turn.id for turn in turns]
        self.index.observe(Trajectory(ids=ids, timestamps=[turn.second for turn in turns], id=turns[0].session))
        return added

    def learn(self) -> FitReport:
        report = self.index.fit(window=3, config=FitConfig(hidden=8, passes=1), seed=1, progress=False)
        print(report.steps + 1, report.losses[-1] / 2, report.device.upper(), report.coverage.is_integer())
        return report

    def learn_from_a_file(self, path: Path) -> FitReport:
        return self.index.fit(read_parquet(path, "session", ids="turn"), progress=False)

    def near(self, vector: npt.NDArray[np.float32]) -> list[tuple[str, float]]:
        hits = self.index.search(vector, k=3, where={"session": {"$ne": "today"}})
        scores: npt.NDArray[np.float32] = hits.scores
        return list(zip(hits.ids, scores.tolist(), strict=True))

    def around(self, turn: Turn) -> Iterator[str]:
        hits = self.index.recall(turn.id, k=4, explain=True, hops=2, where={"second": {"$gt": 1.0}})
        best: Hit = hits[0]
        for hit in (best, *hits[1:]):
            yield f"{hit.score:.3f} {hit.text or '?'} {', '.join(describe(hit))} {hit.metadata.get('session')}"

    def many(self, ids: list[str], vectors: npt.NDArray[np.float32]) -> list[list[str]]:
        by_id = [hits.ids for hits in self.index.recall(ids, k=2)]
        by_vector = [[hit.id for hit in hits] for hits in self.index.recall_many(vectors, k=2, faithful=True)]
        by_look = [hits.ids for hits in self.index.search_many(vectors, k=2)]
        alike = [hits.ids for hits in self.index.search(ids, k=2)]
        return by_id + by_vector + by_look + alike

    def asked(self, question: str, questions: list[str]) -> tuple[list[str | None], list[list[str | None]]]:
        one = self.index.recall(text=question, k=2, mode="hybrid").texts
        return one, [hits.texts for hits in self.index.recall(text=questions, k=2)]

    def guess(self, turn: Turn) -> float:
        imagination: Imagination = self.index.imagine(turn.id)
        points: npt.NDArray[np.float32] = imagination.sample(4, seed=2)
        beside: list[Imagination] = self.index.imagine([turn.id, turn.id])
        return float(points.sum()) + imagination.spread + beside[0].distance + beside[0].nearest[0].score

    def specific(self, turn: Turn) -> list[Hit]:
        hits = self.index.recall(turn.id, channels=Channels(similarity=1.0, mutual=0.5), decay=3600.0, min_score=0.1)
        return sorted(hits, key=lambda hit: hit.score)

    def forget(self, turns: Sequence[Turn]) -> int:
        self.index.set_capacity(1_000)
        return self.index.delete([turn.id for turn in turns]) + self.index.prune(keep=500)

    def read(self, ids: list[str]) -> dict[str, Record]:
        records = {record.id: record for record in self.index.get(ids, missing_ok=True)}
        assert all(record in self.index.find({"session": "today"}) for record in records.values())
        return records


def describe(hit: Hit) -> Iterator[str]:
    occasions: tuple[Evidence, ...] = hit.evidence or ()
    for evidence in occasions:
        yield f"{evidence.trajectory}[{evidence.cue_position} -> {evidence.hit_position}]"


def refused(index: PredictiveAssociativeIndex) -> str:
    try:
        index.recall("nobody")
    except InvalidInput as error:
        return str(error)
    except PAMError:
        raise
    return ""


def again(path: Path) -> int:
    """Runs batches and single queries of a copy, each with its type."""
    index = PredictiveAssociativeIndex.load(path)
    index.save(path.with_name("copy"), overwrite=True)
    with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
        return len(reader) + len(index) + int("a" in reader) + int(reader.is_fitted) + (index.dim or 0)
