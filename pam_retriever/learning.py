"""One ``fit``: what was experienced is gathered, the predictor trained, and the index switched over to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pam_retriever.backends import parts
from pam_retriever.bank import Bank
from pam_retriever.codes import CodeBook, Codes
from pam_retriever.config import FitConfig
from pam_retriever.distributed import first_process
from pam_retriever.errors import InvalidInput
from pam_retriever.experience import check_known, gather, read_groups
from pam_retriever.parts import StoredExperience
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.storage.documents import Documents
from pam_retriever.streamed import train_in_parts
from pam_retriever.switchover import Learnt
from pam_retriever.training import train
from pam_retriever.trajectories import Episode, TrajectoryLike, read_in_batches
from pam_retriever.types import FitReport

BUFFER = 250_000  # steps that a fit in parts holds, unless told otherwise
STORED_AT_ONCE = 50_000  # states of a stream


def learn(
    bank: Bank,
    lock: ReadWriteLock,
    episodes: list[Episode],
    window: int,
    config: FitConfig,
    *,
    group_by: str | None,
    order_by: str | None,
    device: str,
    seed: int,
    time_budget: float | None,
    progress: bool | None,
) -> FitReport:
    """Learns from given and stored episodes; see ``PredictiveAssociativeIndex.fit``. One at a time."""
    with lock.shared():
        if first_process():
            bank.documents.database.check_writable()
        if group_by is not None:
            episodes = read_groups(bank.documents, group_by, order_by)
        learnt_to = bank.documents.trajectories.last_number()
        gathered = gather(bank.documents, episodes, bank.dim, bank.learnt_to)
        experience, fresh = gathered.experience, gathered.fresh
        start = bank.predictor_to_continue(config, window) if fresh.any() and not fresh.all() else None
        codes = None if start is None else gathered.with_codes(bank.codes_of(gathered.rows))
    if not len(experience):
        raise InvalidInput(
            "There are no trajectories to learn from.", "at least one", "Pass trajectories, or group_by."
        )
    predictor, found, report = train(
        gathered.vectors,
        experience,
        window,
        config if start is None else config.to_continue(),
        device=device,
        seed=seed,
        time_budget=time_budget,
        progress=progress,
        start=start,
        fresh=None if start is None else fresh,
        trust=None if start is None else bank.trust,
        codes=codes,
    )
    learnt = Learnt(predictor, Codes(gathered.rows, found, gathered.places), report.trust, window, config)
    switch_over(bank, lock, learnt, episodes, learnt_to)
    return report


def learn_in_parts(
    bank: Bank,
    lock: ReadWriteLock,
    trajectories: Iterable[TrajectoryLike] | None,
    window: int,
    config: FitConfig,
    *,
    buffer: int,
    checkpoint: Path | None,
    device: str,
    seed: int,
    time_budget: float | None,
    progress: bool | None,
) -> FitReport:
    """As ``learn``, but no more than ``buffer`` steps are in memory: trajectories are stored as they come."""
    if not isinstance(bank.documents, Documents):
        raise InvalidInput(
            "Got an iterator, buffer or checkpoint for an index in a database engine.",
            "an index in SQLite, whose storage can be read part by part",
            "Pass list(trajectories), without buffer and checkpoint.",
        )
    with lock.shared():
        if first_process():
            bank.documents.database.check_writable()
    for episodes in read_in_batches(trajectories or (), bank.dim, STORED_AT_ONCE):
        with lock:
            check_known(bank.documents, episodes)
            bank.observe(episodes)
    with lock.shared():
        learnt_to = bank.learnt_to
        start = bank.predictor_to_continue(config, window) if learnt_to else None
    source = StoredExperience(bank.documents, lock, bank.dim, buffer, learnt_to if start else 0)
    if start is not None and source.nothing_new:
        start, source = None, StoredExperience(bank.documents, lock, bank.dim, buffer)
    codes = CodeBook.on_disk(source.last_row + 1, config.code)
    if start is not None:
        with lock.shared():
            stored = bank.documents.memories.rows()
            for part in parts(len(stored)):
                codes.values[stored[part]] = bank.codes_of(stored[part])
    predictor, report = train_in_parts(
        source,
        bank.dim,
        window,
        config if start is None else config.to_continue(),
        device=device,
        seed=seed,
        time_budget=time_budget,
        progress=progress,
        start=start,
        trust=None if start is None else bank.trust,
        codes=codes,
        checkpoint=checkpoint,
    )
    found = Codes(np.arange(len(codes.values)), codes.values)
    switch_over(bank, lock, Learnt(predictor, found, report.trust, window, config), [], source.last_number)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return report


def switch_over(bank: Bank, lock: ReadWriteLock, learnt: Learnt, episodes: list[Episode], learnt_to: int) -> None:
    """Has the bank take over what was learnt. It answers meanwhile, but for the last moment."""
    with lock.shared():
        switchover = bank.begin_switchover(learnt_to)
    try:
        if not first_process() and bank.follows:
            bank.help_prepare(switchover, learnt)  # the first writes what they make
            return
        bank.prepare(switchover, learnt)
        with lock:
            bank.adopt(switchover, learnt, episodes)
            bank.keep_within_capacity()
    finally:
        with lock:
            bank.end_switchover(switchover)
