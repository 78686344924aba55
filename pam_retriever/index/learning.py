"""Experience: stored, learnt and forgotten."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal, overload

import numpy as np

from pam_retriever.errors import InvalidInput, StorageError
from pam_retriever.evaluation import Validation
from pam_retriever.experience.trajectories import TrajectoryLike, read_trajectories
from pam_retriever.index.feedback import FeedbackKeeping
from pam_retriever.index.sequences import NextSteps
from pam_retriever.limits import MAX_WINDOW
from pam_retriever.retrieval.decay import read_now
from pam_retriever.store import last_fit
from pam_retriever.training.config import FitConfig, TrainingRequest, read_config
from pam_retriever.training.dataset import check_known
from pam_retriever.training.news import NOTHING_NEW, Source, nothing_new, read_news, report_nothing
from pam_retriever.types import FitReport, TrajectoryRecord
from pam_retriever.validation import check_count, check_half_life, check_offset, check_positive, check_seed, read_ids

log = logging.getLogger(__name__)
TRAIN = "train"  # the setting that says whether weights may be learnt


class Learning(FeedbackKeeping, NextSteps):
    """The part of an index that keeps experience and learns from it."""

    def observe(self, trajectory: TrajectoryLike) -> list[str]:
        """Stores a trajectory; the next ``fit`` learns from it. One that is there and has grown since gets the rest.

        Args:
            trajectory: ids of memories in order, an array (T, dim) of new states, or a ``Trajectory``.

        Returns:
            The ids of its states.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        episodes = read_trajectories([trajectory], self.dim)
        self._background.check()
        with self._lock:
            check_known(self._store.database, episodes)
            self._store.observe(episodes)
            self._store.keep_within_capacity()
        self._background.experienced(len(episodes[0].ids))
        return list(episodes[0].ids)

    @overload
    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: str | FitConfig = "fast",
        *,
        group_by: str | None = None,
        order_by: str | Sequence[str] | None = None,
        from_scratch: bool = False,
        device: str = "auto",
        seed: int = 0,
        time_budget: float | None = None,
        buffer: int | None = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        background: Literal[False] = False,
    ) -> FitReport: ...

    @overload
    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: str | FitConfig = "fast",
        *,
        group_by: str | None = None,
        order_by: str | Sequence[str] | None = None,
        from_scratch: bool = False,
        device: str = "auto",
        seed: int = 0,
        time_budget: float | None = None,
        buffer: int | None = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        background: Literal[True],
    ) -> Future[FitReport]: ...

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: str | FitConfig = "fast",
        *,
        group_by: str | None = None,
        order_by: str | Sequence[str] | None = None,
        from_scratch: bool = False,
        device: str = "auto",
        seed: int = 0,
        time_budget: float | None = None,
        buffer: int | None = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
        background: bool = False,
    ) -> FitReport | Future[FitReport]:
        """Learns from all trajectories: those given here and those stored before.

        The index answers other threads meanwhile, and switches over at the end. If ``fit`` fails or is
        interrupted, the index is as it was, without the given trajectories.

        Where the index is fitted already and there is new experience, ``fit`` goes on from what was learnt: it
        learns the new steps and rehearses as many of the old ones, so that it costs what is new. A trajectory or group
        that is stored already, step by step, is not new; of one that has grown, only the new steps are. If nothing is
        new, ``fit`` does nothing, and the report says so. With another ``window`` or recipe, or after a memory that was
        experienced has been deleted, it starts from scratch: the new weights are made without that memory.

        More experience than memory holds is learnt part by part: ``buffer``, ``checkpoint``, or an iterator
        (``read_parquet``, a generator) asks for that. Then trajectories are stored as they come and stay stored if the
        fit fails, and training reads them from there (docs/reference/scaling.md).

        Args:
            trajectories: lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects; a collection of
                these, or an iterator over them. None learns from what is stored.
            window: tau; memories at most this many positions apart are associates.
            config: "fast", "best" (more passes), "paper" (the published recipe), or a ``FitConfig``.
            group_by: metadata key; memories that share its value are a trajectory. "user.name" is ``name`` in ``user``,
                as in filters.
            order_by: metadata key that orders a group, or several, the first of which counts most; the order of adding
                if None. Where the first is a number, it is the time of each step.
            from_scratch: discard the weights, and learn from everything that is stored.
            device: "auto" takes CUDA if there is one.
            seed: the same seed gives the same index on the same machine.
            time_budget: seconds that training may take.
            buffer: how many states training holds in memory at once, at most.
            checkpoint: a file that holds the state of the training meanwhile. If it is there, the training goes
                on from it; call ``fit`` again with the same settings after a kill, without the trajectories that
                are stored. It is gone when the fit is done.
            progress: show a progress bar; None shows it on a terminal and in a notebook.
            background: return at once, and learn in a thread; ``close`` waits for it.

        Returns:
            What was done; in the background a future of it, whose ``result()`` waits and raises what went wrong.
            ``stopped_by`` is "nothing new" if there was nothing to do.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            TrainingDiverged: the loss became NaN or infinite.
        """
        window, settings = check_count("window", window, MAX_WINDOW), read_config(config)
        if time_budget is not None:
            check_positive("time_budget", time_budget)
        source = Source(
            trajectories,
            group_by,
            () if order_by is None else (order_by,) if isinstance(order_by, str) else tuple(order_by),
            None if buffer is None else check_count("buffer", buffer),
            None if checkpoint is None else Path(checkpoint),
            isinstance(trajectories, Iterator),
            from_scratch,
        )
        _check(source)
        self._lock.check_process()  # before another lock is waited for
        request = TrainingRequest(device, check_seed(seed), time_budget, progress)

        def fit() -> FitReport:
            return self._fit(source, window, settings, request)

        return self._background.start(fit) if background else fit()

    def _fit(self, source: Source, window: int, config: FitConfig, request: TrainingRequest) -> FitReport:
        self._check_trainable()
        with self._learning:
            self._background.learns()
            news = read_news(self._store, self._lock, source)
            if nothing_new(self._store, self._lock, news, source, config, window):
                report = report_nothing(self._store, self._lock, config)
            elif self._nothing_but_feedback(source.trajectories is None and source.group_by is None):
                report = without_training(len(self))
            else:
                from pam_retriever.training.fit import learn  # training alone needs torch

                report = learn(self._store, self._lock, source, news, window, config, request)
            if not _writes():
                return report
            try:
                report = self._fit_evidence(report, request.seed)
            except StorageError as error:
                if not report.steps:
                    raise
                what = f"{error.got} What was learnt from trajectories is stored already, and answers."
                fix = f"{error.fix} Then call fit again for the rest."
                raise StorageError(what, "a disk that takes all of it", fix) from error
            log.info("fit: %r", report)
            return report

    def _fit_evidence(self, report: FitReport, seed: int) -> FitReport:
        """Fits what takes no training: the weights of the evidence; keeps the whole report."""
        requests, validation = self._fit_mixture(seed)
        steps, of_next = self._fit_next(seed, report.stopped_by == NOTHING_NEW)
        validation = Validation((*validation.worths, *of_next.worths))
        finished = datetime.now(timezone.utc)
        report = replace(report, requests=requests, validation=validation, finished=finished, next_steps=steps)
        with self._lock:
            last_fit.keep(self._store, report, report.stopped_by != NOTHING_NEW)
        return report

    def _nothing_but_feedback(self, nothing_given: bool) -> bool:
        """Whether there is feedback, and no trajectory to train on."""
        with self._lock.shared():
            database = self._store.database
            table = database.feedback
            return nothing_given and not len(database.trajectories) and table is not None and len(table) > 0

    def auto_fit(self, steps: int | None = 100, window: int = 5, config: str | FitConfig = "fast") -> None:
        """Fits in the background, whenever there is so much new experience.

        ``append`` and ``observe`` count the steps that are linked to others. The next of these calls raises the error
        of a fit that failed, or ``close`` does, which waits for it. The setting is not stored with the index.

        Args:
            steps: how many new steps start a fit; None ends it.
            window: as for ``fit``.
            config: as for ``fit``.

        Raises:
            InvalidInput: of the arguments.
        """
        self._check_trainable()
        window, settings = check_count("window", window, MAX_WINDOW), read_config(config)
        request = TrainingRequest(progress=False)
        self._background.fit_after(
            None if steps is None else check_count("steps", steps),
            lambda: self._fit(Source(), window, settings, request),
        )

    def allow_training(self, allowed: bool) -> None:
        """Says whether weights may be learnt from this index: ``tenant(name, train=...)``. It is stored.

        Args:
            allowed: False: ``fit`` and ``auto_fit`` are refused, and a running ``auto_fit`` ends. The weights stay
                until memories are erased.
        """
        if self._trainable() != allowed:
            if not allowed:
                self.auto_fit(None)
            with self._lock:
                self._store.set_setting(TRAIN, allowed)

    def _trainable(self) -> bool:
        with self._lock.shared():
            return self._store.database.settings.get(TRAIN) is not False

    def _check_trainable(self) -> None:
        if not self._trainable():
            raise InvalidInput(
                "A fit was asked of a tenant with train=False.",
                "a tenant that may be learnt from",
                "Call index.tenant(name, train=True) first, or leave the fit out: recall needs none.",
            )

    def trajectories(
        self,
        where: Mapping[str, object] | None = None,
        limit: int | None = None,
        offset: int = 0,
        *,
        ids: Sequence[str] | None = None,
        holding: Sequence[str] | None = None,
    ) -> list[TrajectoryRecord]:
        """The stored trajectories, in the order in which they came.

        Args:
            where: metadata filter, see ``filters``: those that hold a memory which satisfies it. None for all.
            limit: how many at most.
            offset: how many to skip first.
            ids: in place of ``where``, the names of trajectories; unknown ones are left out.
            holding: in place of ``where``, ids of memories: the trajectories that hold one of them.

        Raises:
            InvalidInput: of the arguments.
        """
        if sum(given is not None for given in (where, ids, holding)) > 1:
            raise InvalidInput("Got two of where, ids and holding.", "one of them", "Leave the others out.")
        names = None if ids is None else read_ids(ids, None, "trajectories", "lists them all")
        held = None if holding is None else read_ids(holding, None, "trajectories", "lists them all")
        last = None if limit is None else check_offset(offset) + check_count("limit", limit)
        with self._lock.shared():
            numbers = self._numbers(names, where, held)[check_offset(offset) : last]
            return self._store.database.trajectories.listed(numbers)

    def delete_trajectory(
        self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None
    ) -> int:
        """Forgets trajectories, by id or by a filter; their memories stay. Unknown ids are ignored.

        The links are gone at once. The next ``fit`` starts from scratch, so that the predictor forgets them, too.

        Args:
            ids: which ones.
            where: in place of ids, a metadata filter: those that hold a memory which satisfies it.

        Returns:
            How many there were.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "delete_trajectory", "deletes them all")
        with self._lock:
            return self._store.delete_trajectories(self._numbers(None if ids is None else names, where))

    def _numbers(
        self, ids: list[str] | None, where: Mapping[str, object] | None, holding: list[str] | None = None
    ) -> list[int]:
        """The numbers of trajectories, rising."""
        database = self._store.database
        if holding is not None:
            rows = np.array(sorted(database.memories.rows_of(holding).values()), np.int64)
            return database.trajectories.numbers(rows=rows)
        if where is not None:
            return database.trajectories.numbers(rows=np.asarray(database.memories.rows_where(where)))
        return database.trajectories.numbers(ids=ids)

    def prune(self, keep: int, half_life: float | Literal["auto"] | None = "auto") -> int:
        """Forgets all but the strongest memories, and frees their space (Dury 3.9).

        The strength of a memory is the sum of its experiences, each weighed by its salience and halved with every
        half-life of its age. A memory that was never experienced counts as experienced once, now. Trajectories of
        which no step is left are deleted, too.

        Args:
            keep: how many memories to keep.
            half_life: how fast experiences fade, in the unit of the timestamps; "auto" follows how
                dense the associations are and how fast new memories come; None: they do not fade.

        Returns:
            How many were forgotten.

        Raises:
            InvalidInput: of the arguments; nothing was forgotten.
        """
        keep, half_life = check_count("keep", keep), check_half_life(half_life)
        with self._lock:
            if isinstance(half_life, float):
                read_now(self._store.database, None)
            return self._store.forget(keep, half_life, shrink=True)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None = "auto") -> None:
        """Bounds the index: once it holds a tenth more, the weakest memories are forgotten.

        The bound is stored with the index, and holds from the next ``add``, ``observe`` or ``fit`` on.

        Args:
            memories: how many to keep; None takes the bound away.
            half_life: as for ``prune``.

        Raises:
            InvalidInput: of the arguments.
        """
        if memories is not None:
            memories, half_life = check_count("memories", memories), check_half_life(half_life)
        with self._lock:
            self._store.set_capacity(memories, half_life)


def without_training(memories: int) -> FitReport:
    """The report of a fit that had feedback alone: no network was trained."""
    return FitReport((), 0, 0.0, "cpu", "float32", memories, 0, 0, 1.0, 0, {}, "nothing to train on")


def _writes() -> bool:
    """Whether this process stores the result of a fit of several processes: the first of them does."""
    if "torch.distributed" not in sys.modules:
        return True
    from pam_retriever.training.distributed import first_process

    return first_process()


def _check(source: Source) -> None:
    """Refuses what does not go together."""
    if source.trajectories is not None and source.group_by is not None:
        raise InvalidInput("Got both trajectories and group_by.", "one of them", "Fit twice to use both.")
    if source.order_by and source.group_by is None:
        raise InvalidInput(
            f"Got order_by={list(source.order_by)} without group_by.",
            "both: trajectories are in order already",
            "Leave order_by out, or pass group_by=...",
        )
    if source.in_parts and source.group_by is not None:
        raise InvalidInput("Got group_by with buffer or checkpoint.", "trajectories", "Leave one of them out.")
