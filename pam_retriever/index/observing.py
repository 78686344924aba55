"""Storing trajectories."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.trajectories import TrajectoryLike, read_trajectories
from pam_retriever.index.base import IndexBase
from pam_retriever.store.write_trajectories import check_known


class Observing(IndexBase):
    """The part of an index that stores trajectories."""

    def observe(self, trajectory: TrajectoryLike) -> list[str]:
        """Stores a trajectory; the next ``fit`` learns from it. If it is stored and has grown, stores the new steps.

        Args:
            trajectory: ids of memories in order, an array (T, dim) of new states, or a ``Trajectory``.

        Returns:
            The ids of its states.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        return self._observe([trajectory])[0]

    def observe_many(self, trajectories: Sequence[TrajectoryLike]) -> list[list[str]]:
        """Like ``observe``, for a list of trajectories in one transaction: stores all of them, or none.

        Args:
            trajectories: n lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects.

        Returns:
            The ids of the states of each.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        if isinstance(trajectories, str) or not isinstance(trajectories, Sequence):
            raise InvalidInput(
                f"Got {type(trajectories).__name__} as trajectories.", "a list of trajectories", "Use observe for one."
            )
        return self._observe(trajectories) if trajectories else []

    def _observe(self, trajectories: Sequence[TrajectoryLike]) -> list[list[str]]:
        episodes = read_trajectories(trajectories, self.dim)
        self._background.check()
        with self._lock.exclusive():
            check_known(self._store.database, episodes)
            self._store.observe(episodes)
            self._store.keep_within_capacity()
        self._background.experienced(sum(len(episode.ids) for episode in episodes))
        return [list(episode.ids) for episode in episodes]
