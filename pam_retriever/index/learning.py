"""Experience: storage, training and deletion."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, overload

import numpy as np

from pam_retriever.errors import InvalidInput, StorageError
from pam_retriever.evaluation import Validation
from pam_retriever.experience.trajectories import TrajectoryLike
from pam_retriever.index.feedback import FeedbackMethods
from pam_retriever.index.imagining import Imagining
from pam_retriever.index.sequences import Sequences
from pam_retriever.limits import MAX_WINDOW
from pam_retriever.retrieval.decay import check_half_life, read_now
from pam_retriever.store import last_fit
from pam_retriever.store.folder.files import read_path
from pam_retriever.store.learnt import nothing_to_learn
from pam_retriever.types import FitReport, Recipe, TrajectoryRecord
from pam_retriever.validation import (
    check_count,
    check_flag,
    check_whole,
    read_ids,
    read_one_or_more,
)

if TYPE_CHECKING:  # ``training`` is loaded by the calls that need it, so that an index opens sooner
    from typing_extensions import Unpack

    from pam_retriever.training.config import FitConfig, TrainingRequest
    from pam_retriever.training.new_experience import Source

log = logging.getLogger(__name__)
TRAIN = "train"  # the setting that says whether training is allowed


class FitOptions(TypedDict, total=False):
    """The less common arguments of ``fit``; see ``fit``."""

    group_by: str | None
    order_by: str | Sequence[str] | None
    from_scratch: bool
    device: str
    seed: int
    time_budget: float | None
    buffer: int | None
    checkpoint: str | Path | None
    progress: bool | None


class Learning(FeedbackMethods, Sequences, Imagining):
    """The part of an index that stores experience and learns from it."""

    @overload
    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        *,
        background: Literal[False] = False,
        **options: Unpack[FitOptions],
    ) -> FitReport: ...

    @overload
    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        *,
        background: Literal[True],
        **options: Unpack[FitOptions],
    ) -> Future[FitReport]: ...

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
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

        The index answers other threads meanwhile, and switches to the new weights at the end. If ``fit`` fails or is
        interrupted, the index does not change, and the given trajectories are not stored.

        If the index is fitted and there is new experience, ``fit`` continues from the current weights: it learns the
        new steps and an equal number of old steps, so that the time of training depends on the new steps. A trajectory
        or group that is stored with the same steps is not new; if it has grown, only the added steps are new. If
        nothing is new, ``fit`` does nothing, and the report says so. With another ``window`` or recipe, or after an
        experienced memory was deleted, it trains from scratch, without that memory.

        Experience that does not fit into memory is learnt in parts, with ``buffer``, ``checkpoint``, or an iterator
        (``read_parquet``, a generator). Trajectories are then stored as they arrive, and stay stored if the fit fails.
        Training reads them from the index (docs/reference/scaling.md).

        Args:
            trajectories: lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects; a collection of
                these, or an iterator over them. None learns from stored trajectories.
            window: tau; memories at most this many positions apart are associates.
            config: "fast", "best" (more passes), "paper" (the published recipe), or a ``FitConfig``.
            group_by: metadata key; memories that share its value are a trajectory. "user.name" is ``name`` in ``user``,
                as in filters.
            order_by: metadata key that orders a group, or several keys, the first of which has priority; None for the
                order of adding. If the first value is a number, it is the time of each step. Dates in ISO 8601 are in
                the order of their instants, whatever their offsets.
            from_scratch: discard the weights, and learn from everything that is stored. If no trajectory of two steps
                that the weights learnt is left, the index is then as before its first ``fit``.
            device: "auto" uses CUDA if available.
            seed: the same seed gives the same index on the same machine.
            time_budget: seconds that training may take.
            buffer: largest number of states that training holds in memory.
            checkpoint: a file for the state of the training. If it exists, the training continues from it: after a
                kill, call ``fit`` again with the same settings, without the trajectories that are stored. It is deleted
                at the end.
            progress: show a progress bar; None shows it on a terminal and in a notebook.
            background: return at once and learn in a thread; ``close`` waits for it.

        Returns:
            A report; in the background a future, whose ``result()`` waits and raises the error of the fit.
            ``stopped_by`` is "nothing new" if there was nothing to learn.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
            TrainingDiverged: the loss became NaN or infinite.
        """
        from pam_retriever.training.new_experience import Source

        window, settings, request = read_request(window, config, device, seed, time_budget, progress)
        check_flag("background", background)
        source = Source(
            trajectories,
            group_by,
            tuple(read_one_or_more("order_by", order_by)),
            None if buffer is None else check_count("buffer", buffer),
            None if checkpoint is None else read_path("checkpoint", checkpoint),
            isinstance(trajectories, Iterator),
            from_scratch,
        )
        self._lock.check_process()  # before waiting for another lock

        def fit() -> FitReport:
            return self._fit(source, window, settings, request)

        return self._background.start(fit) if background else fit()

    def _fit(self, source: Source, window: int, config: FitConfig, request: TrainingRequest) -> FitReport:
        from pam_retriever.training import new_experience as experience

        self._check_trainable()
        with self._learning:
            self._background.learns()
            new_experience = experience.read_new_experience(self._store, self._lock, source)
            learnt = experience.report_if_nothing_new(self._store, self._lock, new_experience, source, config, window)
            if learnt is not None:
                report = learnt
            elif experience.nothing_left(self._store, self._lock, source):
                if _writes():
                    experience.discard_forgotten(self._store, self._lock, source.from_scratch)
                report = experience.without_training(len(self))
            else:
                from pam_retriever.training.fit import learn  # only training needs torch

                report = learn(self._store, self._lock, source, new_experience, window, config, request)
            if not _writes():
                return report
            experience.discard_forgotten(self._store, self._lock)  # it may have been deleted meanwhile
            try:
                report = self._fit_evidence(report, request.seed, report.stopped_by == experience.NOTHING_NEW)
            except StorageError as error:
                if not report.steps:
                    raise
                what = f"{error.got} What was learnt from trajectories is stored already, and answers."
                fix = f"{error.fix} Then call fit again for the rest."
                raise StorageError(what, "a disk that takes all of it", fix) from error
            log.info("fit: %r", report)
            return report

    def _fit_evidence(self, report: FitReport, seed: int, nothing_new: bool) -> FitReport:
        """Fits the weights of the evidence, which needs no training; stores the whole report."""
        requests, validation = self._fit_mixture(seed)
        steps, of_next = self._fit_next(seed, nothing_new)
        self._fit_spread()
        validation = Validation((*validation.worths, *of_next.worths))
        finished = datetime.now(timezone.utc)
        report = replace(report, requests=requests, validation=validation, finished=finished, next_steps=steps)
        with self._lock.exclusive():
            if not (report.trajectories and nothing_to_learn(self._store.links)):  # all may be deleted meanwhile
                last_fit.keep(self._store, report, not nothing_new)
        return report

    def auto_fit(self, steps: int | None = 100, window: int = 5, config: Recipe | FitConfig = "fast") -> None:
        """Fits in the background whenever ``steps`` new steps have arrived.

        ``append`` and ``observe`` count the steps that are linked to others. If a fit fails, the next call of
        ``append``, ``observe`` or ``close`` raises its error. ``close`` waits for a running fit. The setting is not
        stored with the index.

        Args:
            steps: number of new steps that start a fit; None turns it off.
            window: see ``fit``.
            config: see ``fit``.

        Raises:
            InvalidInput: an argument is invalid.
        """
        from pam_retriever.training.config import TrainingRequest, read_config
        from pam_retriever.training.new_experience import Source

        self._check_trainable()
        window, settings = check_count("window", window, MAX_WINDOW), read_config(config)
        request = TrainingRequest(progress=False)
        self._background.fit_after(
            None if steps is None else check_count("steps", steps),
            lambda: self._fit(Source(), window, settings, request),
        )

    def allow_training(self, allowed: bool) -> None:
        """Allows or forbids training on this index: ``tenant(name, train=...)``. The setting is stored.

        Args:
            allowed: if False, ``fit`` and ``auto_fit`` are refused, and a running ``auto_fit`` ends. The weights stay.
        """
        check_flag("allowed", allowed)
        if self._trainable() != allowed:
            if not allowed:
                self.auto_fit(None)
            with self._lock.exclusive():
                self._store.set_setting(TRAIN, allowed)

    def _trainable(self) -> bool:
        with self._lock.shared():
            return self._store.database.settings.get(TRAIN) is not False

    def _check_trainable(self) -> None:
        if not self._trainable():
            raise InvalidInput(
                "Got fit() on an index that forbids training: tenant(name, train=False), or allow_training(False).",
                "an index that may be learnt from",
                "Call its allow_training(True) first, or leave the fit out: recall needs none.",
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
        """Returns the stored trajectories, in the order of arrival.

        Args:
            where: metadata filter, see ``filters``: trajectories with a memory that satisfies it. None for all.
            limit: number of results, at most.
            offset: number of results to skip first.
            ids: instead of ``where``, the names of trajectories; unknown ones are ignored.
            holding: instead of ``where``, ids of memories: the trajectories that hold one of them.

        Raises:
            InvalidInput: an argument is invalid.
        """
        if sum(given is not None for given in (where, ids, holding)) > 1:
            raise InvalidInput("Got two of where, ids and holding.", "one of them", "Leave the others out.")
        names = None if ids is None else read_ids(ids, None, "trajectories", "lists them all")
        held = None if holding is None else read_ids(holding, None, "trajectories", "lists them all")
        last = None if limit is None else check_whole("offset", offset) + check_count("limit", limit)
        with self._lock.shared():
            numbers = self._numbers(names, where, held)[check_whole("offset", offset) : last]
            return self._store.database.trajectories.listed(numbers)

    def delete_trajectory(
        self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, object] | None = None
    ) -> int:
        """Deletes trajectories by id or by a filter; their memories stay. Ignores unknown ids.

        Their links, and the dates that they gave to memories, are removed at once. The next ``fit`` trains from
        scratch, without these trajectories.

        Args:
            ids: of the trajectories.
            where: instead of ids, a metadata filter: trajectories with a memory that satisfies it.

        Returns:
            The number of deleted trajectories.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "delete_trajectory", "deletes them all")
        with self._lock.exclusive():
            return self._store.delete_trajectories(self._numbers(names, where))

    def _numbers(
        self, ids: list[str] | None, where: Mapping[str, object] | None, holding: list[str] | None = None
    ) -> list[int]:
        """Returns the numbers of the chosen trajectories, in increasing order."""
        database = self._store.database
        if holding is not None:
            rows = np.array(sorted(database.memories.rows_of(holding).values()), np.int64)
            return database.trajectories.numbers(rows=rows)
        if where is not None:
            return database.trajectories.numbers(rows=np.asarray(database.memories.rows_where(where)))
        return database.trajectories.numbers(ids=ids)

    def prune(self, keep: int, half_life: float | Literal["auto"] | None = "auto") -> int:
        """Deletes all but the strongest memories, and frees their space (Dury 3.9).

        The strength of a memory is the sum over its experiences of their salience, halved with every half-life of age.
        A memory that was never experienced counts as experienced once, now. Trajectories without steps are deleted,
        too.

        Args:
            keep: number of memories to keep.
            half_life: half-life of experiences, in the unit of the timestamps; "auto" derives it from the density of
                the associations and the rate of new memories; None for no decay.

        Returns:
            The number of deleted memories.

        Raises:
            InvalidInput: an argument is invalid. Nothing was deleted.
        """
        keep, half_life = check_count("keep", keep), check_half_life(half_life)
        with self._lock.exclusive():
            if isinstance(half_life, float):
                read_now(self._store.database, None, f"half_life={half_life}")
            return self._store.forget(keep, half_life, shrink=True)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None = "auto") -> None:
        """Bounds the index: when it exceeds the bound by a tenth, the weakest memories are deleted.

        The bound is stored with the index, and takes effect at the next ``add``, ``observe`` or ``fit``.

        Args:
            memories: number of memories to keep; None removes the bound.
            half_life: see ``prune``.

        Raises:
            InvalidInput: an argument is invalid.
        """
        memories = None if memories is None else check_count("memories", memories)
        half_life = check_half_life(half_life)
        with self._lock.exclusive():
            self._store.set_capacity(memories, half_life)


def _writes() -> bool:
    """Whether this process stores the result of a distributed fit: only the first one does."""
    if "torch.distributed" not in sys.modules:
        return True
    from pam_retriever.training.distributed import first_process

    return first_process()


def read_request(
    window: int,
    config: Recipe | FitConfig,
    device: str,
    seed: int,
    time_budget: float | None,
    progress: bool | None = None,
) -> tuple[int, FitConfig, TrainingRequest]:
    """Checks arguments of ``fit``; returns the window, the configuration and the request.

    Raises:
        InvalidInput: an argument is invalid, or this machine lacks the device, also where nothing is to be learnt.
    """
    from pam_retriever.training.config import TrainingRequest, read_config

    checked = check_count("window", window, MAX_WINDOW), read_config(config)
    request = TrainingRequest(device, seed, time_budget, progress)
    if device not in ("auto", "cpu"):  # these are everywhere, and torch takes seconds to import
        from pam_retriever.training.device import choose_device

        choose_device(device)
    return *checked, request
