"""A vector near a memory is a noisy copy of it, or a question: the direction of the difference tells which."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from pam_retriever import FitConfig, IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.model.keys import unit
from pam_retriever.model.noise import MOST, NUMBERS, directions_of_differences, is_noise, pack, unpack

DIM, FLAT, COUNT = 96, 12, 240
CONFIG = FitConfig(hidden=32, passes=4)


def _texts(random, count):
    """Vectors that vary in 12 of 96 directions, as embeddings of texts vary in few."""
    basis = np.linalg.qr(np.random.default_rng(9).standard_normal((DIM, FLAT)))[0]
    return unit((random.standard_normal((count, FLAT)) @ basis.T).astype(np.float32))


def _near(memories, random, share=0.5):
    """Questions: vectors of the same kind, each near one memory."""
    return unit(memories + share * _texts(random, len(memories)))


def _copies(memories, random, share=0.5):
    """Noisy copies: noise in every direction."""
    return unit(memories + (share * random.standard_normal(memories.shape) / np.sqrt(DIM)).astype(np.float32))


@pytest.fixture
def memories():
    return _texts(np.random.default_rng(0), COUNT)


@pytest.fixture
def index(memories):
    made = PredictiveAssociativeIndex(DIM)
    made.add(memories, [str(at) for at in range(COUNT)])
    # what is experienced together does not look alike
    for start in range(0, COUNT, 4):
        made.observe([str(at) for at in range(start, start + 4)])
    made.fit(window=3, config=CONFIG, progress=False, seed=0)
    return made


def _nearest(queries, memories):
    return memories[(queries @ memories.T).argmax(axis=1)]


def test_the_directions_are_orthonormal_and_few(memories):
    directions = unpack(directions_of_differences(memories, np.random.default_rng(1)), DIM)
    assert directions.shape[0] == DIM and 1 <= directions.shape[1] <= min(MOST, FLAT)
    np.testing.assert_allclose(directions.T @ directions, np.eye(directions.shape[1]), atol=2e-3)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 1.2])
def test_noise_of_any_length_is_recognised_and_another_text_is_not(memories, share):
    random = np.random.default_rng(2)
    directions = unpack(directions_of_differences(memories, random), DIM)
    copies, questions = _copies(memories, random, share), _near(memories, random, share)
    assert is_noise(copies, _nearest(copies, memories), directions).mean() > 0.95
    # the directions are 5 of the 12 in which texts differ, so a tenth of the texts differ mostly in the others
    assert is_noise(questions, _nearest(questions, memories), directions).mean() < 0.15


def test_data_that_vary_in_every_direction_say_nothing_against_noise():
    random = np.random.default_rng(3)
    memories = unit(random.standard_normal((COUNT, DIM)).astype(np.float32))
    directions = unpack(directions_of_differences(memories[: COUNT // 2], random), DIM)
    others = memories[COUNT // 2 :]
    assert is_noise(others, _nearest(others, memories[: COUNT // 2]), directions).mean() > 0.8


def test_few_or_equal_memories_and_one_dimension_have_no_directions():
    random = np.random.default_rng(4)
    assert directions_of_differences(_texts(random, 5), random) is None
    assert directions_of_differences(np.ones((50, DIM), np.float32), random) is None
    assert directions_of_differences(random.standard_normal((50, 1)).astype(np.float32), random) is None
    assert directions_of_differences(np.empty((0, DIM), np.float32), random) is None


def test_after_a_fit_a_question_finds_what_it_is_near_to_and_a_noisy_copy_what_happened_with_it(index, memories):
    random = np.random.default_rng(5)
    questions, copies = _near(memories, random), _copies(memories, random)
    nearest = (questions @ memories.T).argmax(axis=1)
    found = np.mean([str(at) in hits.ids for at, hits in zip(nearest, index.recall(questions, k=5), strict=True)])
    assert found > 0.95  # a vector store finds all
    together = [
        {str(start + other) for other in range(4)} - {str(at)} <= set(hits.ids)
        for at, hits in enumerate(index.recall(copies, k=5))
        for start in [at // 4 * 4]
    ]
    assert np.mean(together) > 0.95


def test_a_reopened_index_recognises_noise_as_before(index, memories, tmp_path):
    questions = _near(memories, np.random.default_rng(6))[:20]
    before = [hits.to_dicts() for hits in index.recall(questions, k=5)]
    index.save(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index") as again:
        assert [hits.to_dicts() for hits in again.recall(questions, k=5)] == before


def test_the_report_of_a_fit_can_be_written_as_json(index):
    report = index.fit(config=CONFIG, progress=False)
    assert json.loads(json.dumps(asdict(report.calibration)))["directions"] == report.calibration.directions
    assert hash(report.calibration) == hash(index._store.calibration)


@pytest.mark.parametrize("damaged", ["", "#", pack(np.zeros((DIM + 1, 1), np.float32)), pack(np.full((DIM, 1), 7.0))])
def test_damaged_directions_are_refused(index, tmp_path, damaged):
    with pytest.raises(ValueError):  # noqa: PT011
        unpack(damaged, DIM)
    index.save(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index") as opened, opened._store.database.transaction():
        settings = opened._store.database.settings
        model = settings.get("model")
        settings.set("model", model | {"trust": model["trust"] | {"directions": damaged}})
    with pytest.raises(IndexFormatError, match="calibration"):
        PredictiveAssociativeIndex.open(tmp_path / "index")


def test_directions_of_a_huge_dimension_cannot_be_claimed():
    with pytest.raises(ValueError, match="directions"):
        unpack(pack(np.zeros((DIM, NUMBERS // DIM + 1), np.float32)), DIM)


@pytest.mark.parametrize("dim", [768, 3072, NUMBERS + 1])
def test_directions_of_long_vectors_fit_into_a_value_of_an_engine_and_tell_noise(dim):
    random = np.random.default_rng(7)
    basis = np.linalg.qr(random.standard_normal((dim, FLAT)))[0]
    memories, others = unit((random.standard_normal((2, 60, FLAT)) @ basis.T).astype(np.float32))
    packed = directions_of_differences(memories, random)
    if dim > NUMBERS:
        assert packed is None
        return
    assert len(packed) <= 32_768
    directions = unpack(packed, dim)
    copies = unit(memories + (random.standard_normal(memories.shape) / np.sqrt(dim)).astype(np.float32))
    assert is_noise(copies, _nearest(copies, memories), directions).mean() > 0.9
    assert is_noise(others, _nearest(others, memories), directions).mean() < 0.15
