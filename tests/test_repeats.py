"""Repeats: what a trajectory says about candidates that are among its last steps."""

from __future__ import annotations

from math import log, log1p

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.repeats import Repeats
from pam_retriever.retrieval.sequences.steps import LONGEST, LastSteps

MEMORIES = 4
# -1 is a step that is not stored; a trajectory has at most ten steps, the newest first
TRAJECTORIES = st.lists(st.lists(st.integers(-1, MEMORIES - 1), max_size=LONGEST), min_size=1, max_size=3)


def plain(steps: list[int], candidate: int) -> dict[str, float]:
    """Returns the features of one candidate, in plain Python."""
    rows = steps + [-1] * (LONGEST - len(steps))
    newest = [at for at in range(LONGEST) if at == 0 or (rows[at] == rows[0] != -1)]
    before_first = rows[newest[-1] + 1] if newest[-1] + 1 < LONGEST else -1
    returned = any(at >= 2 for at in newest)
    returns = sum(rows[at] == rows[at - 2] != -1 for at in range(2, LONGEST))
    there, parent = candidate in rows[1:] and candidate != rows[0], candidate == before_first
    return {
        "again": candidate == rows[0],
        "there": there,
        "one_back": candidate == rows[1],
        "two_back": candidate == rows[2],
        "parent": parent,
        "taken": any(at > 0 and rows[at - 1] == candidate for at in newest),
        "there:returned": there and returned,
        "one_back:returned": candidate == rows[1] and returned,
        "parent:returned": parent and returned,
        "parent:returns": parent * log1p(returns),
        "parent:late": parent * log(max(len(steps), 1)),
    }


@given(TRAJECTORIES)
def test_features_are_as_in_plain_python(trajectories):
    rows = np.array([steps + [-1] * (LONGEST - len(steps)) for steps in trajectories])
    lengths = np.array([len(steps) for steps in trajectories])
    steps = LastSteps(rows, np.zeros((*rows.shape, 1), np.float32), lengths)
    columns = Repeats(steps).columns(Pools.full(len(trajectories), MEMORIES))
    expected = [plain(steps, candidate) for steps in trajectories for candidate in range(MEMORIES)]
    assert columns.keys() == set(Repeats.features)
    for name, column in columns.items():
        np.testing.assert_allclose(column, [one[name] for one in expected], err_msg=name)
