"""One ``fit``: gathers experience, trains the predictor, and replaces the model of the index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from pam_retriever.ann import chunks
from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.episode_embeddings import EpisodeEmbeddings
from pam_retriever.model.predictor import Predictor
from pam_retriever.store.base import Store
from pam_retriever.store.growth import LearnedSteps
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.rebuild import TrainedModel
from pam_retriever.training.config import FitConfig, TrainingRequest
from pam_retriever.training.dataset import gather
from pam_retriever.training.distributed import first_process, in_shards
from pam_retriever.training.embedding_table import EmbeddingTable
from pam_retriever.training.new_experience import NewExperience, Source
from pam_retriever.training.shards import InMemoryShards, Shards, StoredShards
from pam_retriever.training.trainer import Start, Trainer
from pam_retriever.types import FitReport, Float32

BUFFER = 250_000  # default number of steps in memory, for a fit in parts


@dataclass(frozen=True)
class _Prepared:
    """The data and the start of a training; later ``found`` maps embeddings to memories."""

    shards: Shards
    start: Start | None
    embeddings: EmbeddingTable | None
    found: Callable[[Float32], EpisodeEmbeddings]
    last_trained: int


@dataclass(frozen=True)
class _Given:
    """What a fit is given: the index, the experience, and the settings."""

    store: Store
    lock: ReadWriteLock
    source: Source
    new: NewExperience
    window: int
    config: FitConfig
    seed: int

    def start(self) -> Start | None:
        """Returns the current predictor if the training may continue from it."""
        predictor = self.store.predictor_to_continue(self.config.to_stored(), self.window)
        return None if predictor is None else Start(Predictor.of(predictor), self.store.calibration)


# independent of the caller's inference mode, and of a mode that an earlier interrupt left
@torch.inference_mode(mode=False)
@torch.enable_grad()
def learn(
    store: Store,
    lock: ReadWriteLock,
    source: Source,
    new_experience: NewExperience,
    window: int,
    config: FitConfig,
    request: TrainingRequest,
) -> FitReport:
    """Learns from given and stored experience; see ``PredictiveAssociativeIndex.fit``. Calls may not overlap."""
    with lock.shared():
        if first_process():
            store.database.check_writable()
    given = _Given(store, lock, source, new_experience, window, config, request.seed)
    made = _from_storage(given) if source.in_parts else _in_memory(given)
    trained = Trainer(
        made.shards,
        window,
        config if made.start is None else config.to_continue(),
        request,
        start=made.start,
        embeddings=made.embeddings,
        checkpoint=source.checkpoint,
    ).run()
    predictor = trained.predictor.weights()
    trained_model = TrainedModel(
        predictor,
        made.found(trained.embeddings),
        trained.report.calibration,
        window,
        config.to_stored(),
        lambda vectors: in_shards(predictor, vectors),
        new_experience.learned_steps.ends,
        new_experience.forgotten,
    )
    switch_over(store, lock, trained_model, new_experience.episodes, made.last_trained)
    if source.checkpoint is not None:
        source.checkpoint.unlink(missing_ok=True)
    return trained.report


def _in_memory(given: _Given) -> _Prepared:
    """Trains on all data in memory: stores the given trajectories together with the result, or not at all."""
    store, new = given.store, given.new
    with given.lock.shared():
        training_set = gather(store.database, new.episodes, store.dim, new.learned_steps, new.numbers)
        fresh = training_set.fresh
        goes_on = fresh.any() and not fresh.all() and not given.source.from_scratch
        start = given.start() if goes_on else None
        table = None if start is None else EmbeddingTable(training_set.with_codes(store.codes_of(training_set.rows)))
    return _Prepared(
        InMemoryShards(training_set.vectors, training_set.experience, given.seed, None if start is None else fresh),
        start,
        table,
        lambda found: EpisodeEmbeddings(training_set.rows, found, training_set.positions),
        new.last_number,
    )


def _from_storage(given: _Given) -> _Prepared:
    """Trains with at most ``buffer`` steps in memory: stores trajectories as they arrive."""
    store, lock, learned_steps = given.store, given.lock, given.new.learned_steps
    database, size = store.database.sharded, given.source.buffer or BUFFER
    assert database is not None, "checked when they were stored"
    with lock.shared():
        start = given.start() if learned_steps.number and not given.source.from_scratch else None
    learned_steps = LearnedSteps() if start is None else learned_steps
    shards = StoredShards(database, lock, store.dim, size, seed=given.seed, learned_steps=learned_steps)
    if start is not None and shards.nothing_new:
        start, shards = None, StoredShards(database, lock, store.dim, size, seed=given.seed)
    table = EmbeddingTable.on_disk(shards.table, given.config.code)
    if start is not None:
        with lock.shared():
            stored = store.database.memories.rows()
            for chunk in chunks(len(stored)):
                table.values[stored[chunk]] = store.codes_of(stored[chunk])
    return _Prepared(
        shards, start, table, lambda found: EpisodeEmbeddings(np.arange(len(found)), found), shards.last_number
    )


def switch_over(
    store: Store, lock: ReadWriteLock, trained_model: TrainedModel, episodes: list[Episode], last_trained: int
) -> None:
    """Commits the new weights to the store. The store answers queries meanwhile, except at the end."""
    with lock.shared():
        rebuild = store.begin_rebuild(last_trained)
    try:
        if not first_process() and store.follows:
            rebuild.help_prepare(trained_model)  # the first process writes the result of all
            return
        rebuild.prepare(trained_model)
        with lock.exclusive():
            rebuild.commit(trained_model, episodes)
            store.keep_within_capacity()
    finally:
        with lock.exclusive():
            rebuild.end()
