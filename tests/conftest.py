"""A small planted world whose answers are known: who met whom is decided here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex

DIM, WINDOW = 16, 2
TINY = FitConfig(hidden=64, passes=150)


@dataclass(frozen=True)
class Planted:
    """20 outings of 10 random vectors; nothing looks like what it was experienced with."""

    vectors: np.ndarray
    ids: list[str]
    outings: list[list[str]]

    def associates(self, id: str, window: int = WINDOW) -> set[str]:
        outing = next(outing for outing in self.outings if id in outing)
        at = outing.index(id)
        return set(outing[max(0, at - window) : at + window + 1]) - {id}


@pytest.fixture(scope="session")
def planted() -> Planted:
    vectors = np.random.default_rng(5).standard_normal((200, DIM)).astype(np.float32)
    ids = [f"m{number:03}" for number in range(200)]
    return Planted(vectors, ids, [ids[start : start + 10] for start in range(0, 200, 10)])


def new_index(planted: Planted, **options: str) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM, **options)
    metadatas = [{"number": number, "parity": "odd" if number % 2 else "even"} for number in range(200)]
    index.add(planted.vectors, planted.ids, texts=[f"text of {id}" for id in planted.ids], metadatas=metadatas)
    return index


@pytest.fixture
def index(planted: Planted) -> PredictiveAssociativeIndex:
    """Filled, not fitted."""
    return new_index(planted)


@pytest.fixture(scope="session")
def fitted(planted: Planted) -> PredictiveAssociativeIndex:
    """Filled and fitted. Shared: tests must not change it."""
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    return index
