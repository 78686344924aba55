"""After a fit on little experience, a cue that was never experienced is answered at least as well as before."""

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex

DIM, TOPICS, SIZE = 32, 60, 4


def topics(random: np.random.Generator) -> np.ndarray:
    """Returns memories (topics, 4, d) that look alike within their topic."""
    middle = random.standard_normal((TOPICS, 1, DIM))
    return (middle + 0.8 * random.standard_normal((TOPICS, SIZE, DIM))).astype(np.float32)


def filled(vectors: np.ndarray) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors.reshape(-1, DIM), [str(at) for at in range(vectors.size // DIM)])
    return index


def found(index: PredictiveAssociativeIndex, cues: np.ndarray, relevant: list[set[int]], k: int) -> float:
    answers = index.recall_many([str(cue) for cue in cues], k=k)
    pairs = zip(answers, relevant, strict=True)
    return float(np.mean([len({int(id) for id in hits.ids} & wanted) / len(wanted) for hits, wanted in pairs]))


@pytest.mark.parametrize("length", [2, 4])
@pytest.mark.parametrize("given", [4, 20])
def test_where_experience_says_nothing_new_a_new_cue_is_answered_by_similarity(given, length):
    """Each trajectory is of one topic; those of other topics are new, and only their looks say what they belong to."""
    random = np.random.default_rng(given + length)
    index = filled(topics(random))
    numbers = np.arange(TOPICS * SIZE).reshape(TOPICS, SIZE)
    for kin in numbers[:given]:
        index.observe([str(one) for one in random.permutation(kin)[:length]])
    cues = numbers[given:].ravel()
    relevant = [set(numbers[cue // SIZE].tolist()) - {int(cue)} for cue in cues]
    before = found(index, cues, relevant, 3)
    index.fit(progress=False)
    assert before > 0.7
    assert found(index, cues, relevant, 3) > before - 0.01


@pytest.mark.parametrize("trajectories", [40, 400])
def test_where_experience_carries_over_a_new_cue_profits_from_it(trajectories):
    """Sets of four from four topics each: a new memory belongs with what those of its topic were met with."""
    random = np.random.default_rng(0)
    vectors = topics(random)
    index = filled(vectors)
    numbers = np.arange(TOPICS * SIZE).reshape(-1, 4, SIZE)  # (15, 4 topics, 4 of each)
    for _ in range(trajectories):  # of 400, each memory is in several
        kit = numbers[random.integers(len(numbers))]
        index.observe([str(one) for one in kit[np.arange(4), random.integers(3, size=4)]])
    cues = numbers[:, :, 3].ravel()  # never met
    relevant = [set(numbers[at // 4, np.arange(4) != at % 4, :3].ravel().tolist()) for at in range(len(cues))]
    before = found(index, cues, relevant, 12)
    index.fit(progress=False)
    assert found(index, cues, relevant, 12) > before + 0.2
