"""After any sequence of calls the index agrees with a model in plain Python."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from engine_servers import ENGINES, NAMES, fresh_engine
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.model.noise import SAME

DIM = 4
ids = st.sampled_from([f"id{number}" for number in range(12)])
seeds = st.integers(0, 2**31)


class IndexMachine(RuleBasedStateMachine):
    backend = "faiss"

    @initialize(durable=st.booleans())
    def start(self, durable: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "index" if durable else None
        self.model: dict[str, tuple[np.ndarray, str, dict]] = {}
        self.engine = fresh_engine(self.backend) if self.backend in NAMES else None
        if self.engine:
            self.index = PredictiveAssociativeIndex(DIM, backend=self.engine)
        elif self.path:
            self.index = PredictiveAssociativeIndex.open(self.path, dim=DIM, backend=self.backend)
        else:
            self.index = PredictiveAssociativeIndex(dim=DIM, backend=self.backend)

    @rule(chosen=st.lists(ids, min_size=1, max_size=5, unique=True), seed=seeds)
    def add(self, chosen: list[str], seed: int) -> None:
        vectors = np.random.default_rng(seed).standard_normal((len(chosen), DIM)).astype(np.float32)
        metadatas = [{"seed": seed, "at": at % 2} for at in range(len(chosen))]
        assert self.index.add(vectors, chosen, [f"{id} {seed}" for id in chosen], metadatas) == chosen
        for id, vector, metadata in zip(chosen, vectors, metadatas, strict=True):
            self.model[id] = (vector, f"{id} {seed}", metadata)

    @rule(chosen=st.lists(ids, max_size=4))
    def delete(self, chosen: list[str]) -> None:
        assert self.index.delete(chosen) == len(set(chosen) & set(self.model))
        for id in chosen:
            self.model.pop(id, None)

    @rule(seed=seeds)
    def fit(self, seed: int) -> None:
        if len(self.model) >= 2:
            order = np.random.default_rng(seed).permutation(sorted(self.model)).tolist()
            self.index.fit([order], config=FitConfig(hidden=8, passes=1), progress=False)

    @rule()
    def reopen(self) -> None:
        if self.engine:
            self.index.close()
            self.index = PredictiveAssociativeIndex(backend=self.engine)
        elif self.path:
            self.index.close()
            self.index = PredictiveAssociativeIndex.open(self.path)

    @rule(overwrite=st.booleans())
    def save_and_load(self, overwrite: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(folder, overwrite=overwrite)
            copy = PredictiveAssociativeIndex.load(folder)
            self.compare(copy)
            copy.close()

    @rule(seed=seeds, k=st.integers(1, 15), at=st.sampled_from([None, 0, 1]))
    def search(self, seed: int, k: int, at: int | None) -> None:
        if not self.model:
            return
        query = np.random.default_rng(seed).standard_normal(DIM).astype(np.float32)
        hits = self.index.search(query, k=k, where=None if at is None else {"at": at})
        eligible = {id: row for id, row in self.model.items() if at is None or row[2]["at"] == at}
        scores = {
            id: float(vector @ query / np.linalg.norm(vector) / np.linalg.norm(query))
            for id, (vector, _, _) in eligible.items()
        }
        # compares scores, because hits with equal vectors may have any order
        best = sorted(scores.values(), reverse=True)[:k]
        assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-5)
        for hit in hits:
            assert hit.score == pytest.approx(scores[hit.id], abs=1e-5)
            assert (hit.text, hit.metadata) == eligible[hit.id][1:]
        if self.index.is_fitted:
            own = {  # memories equal to the query
                id
                for id, (vector, _, _) in self.model.items()
                if vector @ query > SAME * np.linalg.norm(vector) * np.linalg.norm(query)
            }
            left_out = set(self.model) - {hit.id for hit in self.index.recall(query, k=100)}
            assert left_out <= own and len(left_out) == bool(own)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        self.compare(self.index)

    def compare(self, index: PredictiveAssociativeIndex) -> None:
        assert len(index) == len(self.model)
        for record in index.get(list(self.model)):
            vector, text, metadata = self.model[record.id]
            np.testing.assert_array_equal(record.vector, vector)
            assert (record.text, record.metadata) == (text, metadata)

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.close()
            self.folder.cleanup()


@pytest.mark.parametrize("examples", [5, pytest.param(30, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", ["exact", "faiss", "faiss:hnsw", "faiss:ivf"])
def test_any_sequence_of_calls(backend, examples):
    machine = type("Machine", (IndexMachine,), {"backend": backend})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25, deadline=None))


@pytest.mark.parametrize("examples", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ENGINES)
def test_any_sequence_of_calls_in_an_engine(kind, examples):
    machine = type("Machine", (IndexMachine,), {"backend": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None))
