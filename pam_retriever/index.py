"""PredictiveAssociativeIndex: what can be asked of an index, and which calls may run beside each other."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy.typing as npt

from pam_retriever.adding import add
from pam_retriever.answer import answer
from pam_retriever.backends import describe
from pam_retriever.bank import Bank
from pam_retriever.channels import Channels, Mode
from pam_retriever.config import FitConfig, read_config
from pam_retriever.embedding import Embedder, read_embedder
from pam_retriever.engines.base import Engine
from pam_retriever.errors import InvalidInput, NotFitted, UnknownId
from pam_retriever.experience import check_known
from pam_retriever.forgetting import read_now
from pam_retriever.hops import BEAM, FAN_OUT
from pam_retriever.imagine import imagine
from pam_retriever.jepa.encoder import CompositeEncoder
from pam_retriever.jepa.observations import Observations, ObservationsLike
from pam_retriever.jepa.outward import OutwardPredictor
from pam_retriever.learning import BUFFER, learn, learn_in_parts
from pam_retriever.limits import MAX_WINDOW
from pam_retriever.opening import load_bank, new_bank, open_bank
from pam_retriever.predictor import Predictor
from pam_retriever.reencoding import reencode
from pam_retriever.request import read_request
from pam_retriever.spreading import read_found, spread
from pam_retriever.surprise import surprise
from pam_retriever.trajectories import TrajectoryLike, read_trajectories
from pam_retriever.types import FitReport, Metadata, Record
from pam_retriever.validation import check_count, check_half_life, check_id, check_positive, read_query

Scores = Mapping[str, float] | Sequence[Mapping[str, float]]
Query = str | npt.ArrayLike | ObservationsLike | Observations


class PredictiveAssociativeIndex:
    """Finds what looks like a query, and what happened with it.

    This makes an index in memory; ``open`` makes one in a folder, where what a call returned is
    on disk. Any method may be called from any thread.

    Args:
        dim: d, length of the vectors, at least 1. Closeness is cosine. With an embedder, None takes its dimension.
        backend: "faiss" chooses flat, HNSW or compressed IVF by size, and says so in the log and the repr;
            "faiss:flat", "faiss:hnsw", "faiss:ivf", or "exact". With ",fp16", ",sq8" or ",pq", such as
            "faiss:ivf,sq8", keys are compressed in memory and full ones read from disk (docs/scaling.md). Or an
            engine in which the index lives: ``PgVectorBackend(dsn)``, ``MilvusBackend(uri)`` (see docs/engines.md);
            then ``dim`` may be None for an index that is there.
        embedder: what turns texts into vectors, so that ``add`` and ``recall`` take texts alone: a callable
            ``list[str] -> vectors``, a LangChain ``Embeddings`` or a sentence-transformers model. It is not saved.
        encoder: makes vectors of observations: ``add``, ``search`` and ``recall`` then also take dicts of
            modalities, and ``dim`` follows from it. The index keeps a copy; see ``reencode``.

    Raises:
        InvalidInput: for any other argument.

    Example:
        >>> index = PredictiveAssociativeIndex(dim=3)
        >>> index.add([[1, 0, 0], [0, 1, 0], [0, 0, 1]], ids=["stairs", "slip", "sofa"])
        ['stairs', 'slip', 'sofa']
        >>> index.search([1, 0.1, 0], k=1)[0].id
        'stairs'
        >>> report = index.fit([["stairs", "slip"]], progress=False)
        >>> index.recall("stairs", k=1)[0].id
        'slip'
    """

    def __init__(
        self,
        dim: int | None = None,
        backend: str | Engine = "faiss",
        embedder: Any = None,
        *,
        encoder: CompositeEncoder | None = None,
    ) -> None:
        self._embedder = read_embedder(embedder)
        self._bank = new_bank(dim, backend, self._embedder, encoder)
        self._lock, self._learning = self._bank.lock, threading.Lock()

    @classmethod
    def _of(cls, bank: Bank, embedder: Embedder | None) -> PredictiveAssociativeIndex:
        index = cls.__new__(cls)
        index._lock, index._learning = bank.lock, threading.Lock()
        index._bank, index._embedder = bank, embedder
        return index

    # ---- where the index is kept

    @classmethod
    def open(
        cls,
        path: str | Path,
        dim: int | None = None,
        backend: str = "faiss",
        embedder: Any = None,
        *,
        encoder: CompositeEncoder | None = None,
        read_only: bool = False,
    ) -> PredictiveAssociativeIndex:
        """Opens the durable index in a folder, and makes it if it is not there.

        What ``add``, ``delete``, ``observe`` and ``fit`` wrote is on disk when they return. One index at a time
        has the folder open for writing; ``close`` it, or use it as a context manager. Any number of
        processes may have it open with ``read_only`` meanwhile: each sees it as it was when it opened it.

        Args:
            path: the folder, also one that ``save`` wrote.
            dim: needed to make an index; checked if it is there.
            backend: as for the class, for a new index.
            embedder: as for the class.
            encoder: for a new index, or as for ``load``.
            read_only: change nothing, and leave the writer alone. Open it again to see what was written since.

        Raises:
            InvalidInput: no ``dim`` for a new index, another ``dim`` than that of the index, or a
                folder with something else in it.
            IndexFormatError: the folder is damaged or from a newer version.
            IndexLocked: another index has it open for writing; the message says which process.
            StorageError: the folder cannot be written to, or the disk is full.
        """
        made = read_embedder(embedder)
        return cls._of(open_bank(Path(path), dim, backend, made, encoder, read_only), made)

    @classmethod
    def load(
        cls, path: str | Path, embedder: Any = None, *, encoder: CompositeEncoder | None = None
    ) -> PredictiveAssociativeIndex:
        """Reads an index into memory, as it is now; the folder is left as it is and may be read by many.

        Args:
            path: the folder.
            embedder: as for the class.
            encoder: needed where the index has one with modules of your own: built as it was then. Its
                weights are replaced by the saved ones.

        Raises:
            InvalidInput: the encoder is missing, or built otherwise.
            IndexFormatError: no index there, a damaged one, or one from a newer version.
        """
        made = read_embedder(embedder)
        return cls._of(load_bank(Path(path), encoder), made)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Writes the whole index to a folder, with checksums, for ``load`` or ``open``.

        Args:
            path: a folder that is not there or empty; with ``overwrite`` also one of an index, which
                stays whole until the new one is complete.
            overwrite: replace the index at ``path``.

        Raises:
            InvalidInput: the folder is not empty, or is the one that this index has open.
            IndexFormatError: ``overwrite`` of a folder that is no index.
            IndexLocked: ``overwrite`` of one that is open for writing.
            StorageError: the disk is full, or the folder cannot be written to; what was there is there.
        """
        folder = Path(path)
        with self._lock.shared():
            home = self._bank.folder
            if home is not None and folder.resolve() == home.resolve():
                raise InvalidInput(
                    f"{folder} is where this index lives.", "another folder", "It is saved there already."
                )
            self._bank.save(folder, overwrite)

    def close(self) -> None:
        """Closes the database; the index cannot be used any more. Closing twice is harmless."""
        with self._lock:
            self._bank.close()

    def __enter__(self) -> PredictiveAssociativeIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def set_note(self, key: str, value: Any) -> None:
        """Keeps something small with the index, such as the name of the embedder.

        Args:
            key: name of the note; one that is there is replaced.
            value: what JSON can hold.
        """
        with self._lock:
            self._bank.set_note(key, value)

    def note(self, key: str) -> Any:
        """What ``set_note`` kept under ``key``, or None."""
        with self._lock.shared():
            return self._bank.note(key)

    # ---- memories

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._bank.dim

    @property
    def encoder(self) -> CompositeEncoder | None:
        """A copy of the encoder, to go on training; None for an index of vectors."""
        space = self._bank.space
        return None if space is None else copy.deepcopy(space.encoder).requires_grad_(True)

    @property
    def outward(self) -> OutwardPredictor | None:
        """A copy of the outward predictor that ``reencode`` was given, or None."""
        space = self._bank.space
        return None if space is None or space.outward is None else copy.deepcopy(space.outward).requires_grad_(True)

    @property
    def is_fitted(self) -> bool:
        """Whether ``recall`` has a predictor."""
        with self._lock.shared():
            return self._bank.predictor is not None

    def __len__(self) -> int:
        with self._lock.shared():
            return len(self._bank.documents.memories)

    def __contains__(self, id: object) -> bool:
        with self._lock.shared():
            return isinstance(id, str) and id in self._bank.documents.memories.rows_of([id])

    def __repr__(self) -> str:
        with self._lock.shared():
            bank = self._bank
            if bank.closed:
                return f"PredictiveAssociativeIndex(dim={bank.dim}, closed)"
            fitted = f"fitted with window {bank.window}" if bank.predictor else "not fitted"
            senses = f" of {', '.join(bank.space.encoder.modalities)}" if bank.space else ""
            return (
                f"PredictiveAssociativeIndex(dim={bank.dim}, {len(self):,} memories{senses}, "
                f"{len(bank.documents.trajectories):,} trajectories, {fitted}, "
                f"{bank.manifest['backend']} ({describe(bank.similar)}), {bank.place})"
            )

    def add(
        self,
        vectors: npt.ArrayLike | ObservationsLike | Observations | None = None,
        ids: Sequence[str] | None = None,
        texts: Sequence[str | None] | None = None,
        metadatas: Sequence[Metadata | None] | None = None,
    ) -> list[str]:
        """Stores memories; one whose id is there already is replaced and keeps its place in trajectories.

        Args:
            vectors: (n, dim) finite numbers, no row all zeros; None embeds ``texts``. With an encoder also n
                observations: a list of dicts of modalities, or a dict of n values each, None where one is missing.
                These are kept.
            ids: n distinct non-empty strings; uuid4 strings if None.
            texts: n strings or None.
            metadatas: n dicts that JSON can hold, or None.

        Returns:
            The ids, in order.

        Raises:
            InvalidInput: nothing was stored.
        """
        return add(self._bank, self._lock, self._embedder, vectors, ids, texts, metadatas)

    def reencode(
        self,
        encoder: CompositeEncoder,
        predictor: Predictor | None = None,
        outward: OutwardPredictor | None = None,
        *,
        window: int | None = None,
        background: bool = False,
        progress: bool | None = None,
    ) -> Future[int]:
        """Encodes all memories anew, with an encoder that has moved on.

        Until it is done, everything is encoded and answered in the old space; then vectors, weights and
        association vectors switch over in one commit. If it fails, the index is as it was. A ``fit`` and a
        ``reencode`` wait for each other.

        Args:
            encoder: of the same ``dim`` and modalities; copied at once.
            predictor: the inward predictor that was trained with it. None keeps that of the index, which is
                only right after small moves: else ``fit`` again.
            outward: kept with the index, see ``outward``. None keeps the one that is there.
            window: tau of ``predictor``; None for that of the index.
            background: return at once.
            progress: show a progress bar; None shows it on a terminal.

        Returns:
            How many memories were encoded, as a future: ``result()`` waits and raises what went wrong.

        Raises:
            InvalidInput: another dimension or other modalities, or, not in the background, memories that were
                added as vectors.
        """
        return reencode(
            self._bank, self._lock, self._learning, encoder, predictor, outward, window, background, progress
        )

    def delete(self, ids: str | Sequence[str]) -> int:
        """Forgets memories and their places in trajectories; unknown ids are ignored.

        Returns:
            How many were there.
        """
        names = [ids] if isinstance(ids, str) else [check_id(id, "delete") for id in ids]
        with self._lock:
            return self._bank.delete(names)

    def get(self, ids: Sequence[str], missing_ok: bool = False) -> list[Record]:
        """The stored memories, in the order of ``ids``.

        Args:
            ids: which ones.
            missing_ok: leave out ids that are not in the index.

        Raises:
            UnknownId: one of them is not in the index, unless ``missing_ok``.
        """
        if isinstance(ids, str):
            raise InvalidInput(f"Got ids={ids!r}.", "a list of strings", "Wrap it in [ ].")
        with self._lock.shared():
            records = self._bank.documents.memories.records(ids)
        unknown = [id for id in ids if id not in records]
        if unknown and not missing_ok:
            raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", "Use missing_ok=True.")
        return [records[id] for id in ids if id in records]

    def find(self, where: Mapping[str, Any] | None = None, limit: int | None = None) -> list[Record]:
        """The stored memories that satisfy a filter, all without one, in the order of adding.

        Args:
            where: metadata filter; see ``filters``.
            limit: how many at most.
        """
        if limit is not None:
            check_count("limit", limit)
        with self._lock.shared():
            return self._bank.documents.memories.find(where or {}, limit)

    # ---- experience

    def observe(self, trajectory: TrajectoryLike) -> list[str]:
        """Stores a trajectory; the next ``fit`` learns from it.

        Args:
            trajectory: ids of memories in order, an array (T, dim) of new states, or a ``Trajectory``.

        Returns:
            The ids of its states.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        episodes = read_trajectories([trajectory], self.dim)
        with self._lock:
            check_known(self._bank.documents, episodes)
            self._bank.observe(episodes)
            self._bank.keep_within_capacity()
        return list(episodes[0].ids)

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: str | FitConfig = "fast",
        *,
        group_by: str | None = None,
        order_by: str | None = None,
        device: str = "auto",
        seed: int = 0,
        time_budget: float | None = None,
        buffer: int | None = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> FitReport:
        """Learns from all trajectories: those given here and those stored before.

        The index answers other threads meanwhile, and switches over at the end. If ``fit`` fails or is
        interrupted, the index is as it was, without the given trajectories.

        Where the index is fitted already and there is new experience, ``fit`` goes on from what was learnt: it
        learns the new trajectories and rehearses as many of the old ones, so that it costs what is
        new. It begins afresh if nothing is new, if another ``window`` or recipe is asked for, or if a memory that
        was experienced has been deleted since: the new weights are then made without it.

        More experience than memory holds is learnt part by part: ``buffer``, ``checkpoint``, or an iterator
        (``read_parquet``, a generator) asks for that. Then trajectories are stored as they come and stay stored if the
        fit fails, and training reads them from there (docs/scaling.md).

        Args:
            trajectories: lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects; a collection of
                these, or an iterator over them. None learns from what is stored.
            window: tau; memories at most this many positions apart are associates.
            config: "fast", "best" (more passes), "paper" (the published recipe), or a ``FitConfig``.
            group_by: metadata key; memories that share its value are a trajectory.
            order_by: metadata key that orders a group; the order of adding if None.
            device: "auto" takes CUDA if there is one.
            seed: the same seed gives the same index on the same machine.
            time_budget: seconds that training may take.
            buffer: how many states training holds in memory at once, at most.
            checkpoint: a file in which the state of the training is kept meanwhile. If it is there, the training goes
                on from it; call ``fit`` again with the same settings after a kill, without the trajectories that
                are stored. It is gone when the fit is done.
            progress: show a progress bar; None shows it on a terminal.

        Returns:
            What was done.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            TrainingDiverged: the loss became NaN or infinite.
        """
        window, settings = check_count("window", window, MAX_WINDOW), read_config(config)
        if time_budget is not None:
            check_positive("time_budget", time_budget)
        if trajectories is not None and group_by is not None:
            raise InvalidInput("Got both trajectories and group_by.", "one of them", "Fit twice to use both.")
        if buffer is not None or checkpoint is not None or isinstance(trajectories, Iterator):
            if group_by is not None:
                raise InvalidInput("Got group_by with buffer or checkpoint.", "trajectories", "Leave one of them out.")
            with self._learning:
                return learn_in_parts(
                    self._bank,
                    self._lock,
                    trajectories,
                    window,
                    settings,
                    buffer=BUFFER if buffer is None else check_count("buffer", buffer),
                    checkpoint=None if checkpoint is None else Path(checkpoint),
                    device=device,
                    seed=seed,
                    time_budget=time_budget,
                    progress=progress,
                )
        episodes = [] if trajectories is None else read_trajectories(trajectories, self.dim)
        with self._learning:
            return learn(
                self._bank,
                self._lock,
                episodes,
                window,
                settings,
                group_by=group_by,
                order_by=order_by,
                device=device,
                seed=seed,
                time_budget=time_budget,
                progress=progress,
            )

    # ---- forgetting

    def prune(self, keep: int, half_life: float | Literal["auto"] | None = "auto") -> int:
        """Forgets all but the strongest memories, and frees their space (pam.tex 3.9).

        A memory is as strong as its experiences, each as salient as it was and fading with its age. One that was
        never experienced counts as if it had been, once, now. Trajectories of which nothing is left go too.

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
                read_now(self._bank.documents, None)
            return self._bank.forget(keep, half_life, shrink=True)

    def set_capacity(self, memories: int | None, half_life: float | Literal["auto"] | None = "auto") -> None:
        """Bounds the index: once it holds a tenth more, the weakest memories are forgotten.

        It is kept with the index, and holds from the next ``add``, ``observe`` or ``fit`` on.

        Args:
            memories: how many to keep; None takes the bound away.
            half_life: as for ``prune``.

        Raises:
            InvalidInput: of the arguments.
        """
        if memories is not None:
            memories, half_life = check_count("memories", memories), check_half_life(half_life)
        with self._lock:
            self._bank.set_capacity(memories, half_life)

    # ---- recall

    def search(
        self,
        query: Query | None = None,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
        *,
        text: str | Sequence[str] | None = None,
    ) -> list[Any]:
        """What looks like the query: what a vector store does. Needs no ``fit``.

        Args:
            query: a vector, an id, or a batch of either; with an encoder also a dict of modalities, or a list of them.
            k: how many hits; if there are fewer memories, all of them.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``.
            text: in place of ``query``: words, or a batch of them, for the index's embedder.

        Returns:
            A list of ``Hit`` by falling cosine, for a batch a list of such lists. A query by id
            leaves that id out.

        Raises:
            InvalidInput, UnknownId: of the arguments.
        """
        return self.recall(query, k, mode="similarity", where=where, text=text)

    def recall(
        self,
        query: Query | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        hops: int = 1,
        channels: Channels | None = None,
        *,
        text: str | Sequence[str] | None = None,
        fan_out: int = FAN_OUT,
        beam: int = BEAM,
        snap: bool = True,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
        decay: float | None = None,
        now: float | None = None,
        faithful: bool = False,
        explain: bool = False,
    ) -> list[Any]:
        """What happened with the query.

        In the modes "association" and "specific", a vector is taken for a view of a stored memory and is
        completed first: it stands for the memories nearest to it. In "hybrid" it may be anything, such as
        a question in words, and is completed only so far as one memory stands out among the nearest.

        With ``text``, mode "hybrid" also looks for the words (BM25), for metadata that the text names, and counts
        what was experienced next to a memory as evidence for it; see ``fusion``. That needs no ``fit``.

        Args:
            query: a vector, an id, or a batch of either; None with ``text`` and an embedder. With an encoder also a
                dict of modalities, or a list of them.
            k: how many hits at most; None for all with ``min_score``.
            mode: "association" (what happened with it), "similarity", "hybrid" (their weighted sum),
                or "specific" (both must agree). None is "hybrid" with ``text``, else "association".
            hops: how many steps of association to follow, such as A-B and then B-C where A never met C
                (pam.tex 3.7). A path scores the geometric mean of its steps (in mode "association" of their
                confidence), a memory by its best path. The filter and ``min_score`` hold at every hop.
            fan_out: with hops, how many memories each one leads to.
            beam: with hops, how many paths of a query are followed further; bounds the cost.
            snap: with hops, begin the next hop at the stored memories that the last one found. False
                begins it at the predicted point itself, whether or not a memory is there.
            channels: weights of the channels, in place of those of ``mode``.
            text: the query in words, or a batch of them. Without ``query`` the index's embedder makes the vector.
            min_score: leave out hits that score less.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``.
            decay: half-life, in the unit of the timestamps: a positive score halves with each one that lies
                between ``now`` and when the memory was last experienced (pam.tex 3.9). A memory that was
                never experienced at a known time keeps its score.
            now: for ``decay``; the newest timestamp in the index if None.
            faithful: only memories that were experienced with the cue, within the window.
            explain: fill ``Hit.evidence``.

        Returns:
            A list of ``Hit`` by falling score, for a batch a list of such lists. A query by id leaves
            that id out; so does a vector that is a stored memory, in the modes that complete it.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: association was asked for before ``fit``.
        """
        request = read_request(
            self._bank,
            self._embedder,
            self.note("embedder"),
            query,
            k,
            mode,
            hops,
            channels,
            text=text,
            fan_out=fan_out,
            beam=beam,
            snap=snap,
            min_score=min_score,
            where=where,
            decay=decay,
            now=now,
            faithful=faithful,
            explain=explain,
        )
        with self._lock.shared():
            hits = answer(self._bank, request)
        return hits if request.batch else hits[0]

    def spread(self, found: Scores, k: int | None = 10, *, where: Mapping[str, Any] | None = None) -> Any:
        """What happened with the hits of another retriever, to be added to its scores.

        Each hit brings up the memories that the default recall names for it, by their shares; the best hit counts most
        and the last not at all, so pass a few more than you trust. Measured on five bases in docs/real-data.md.

        Args:
            found: the scores of one query's hits, by id, on any scale; or a list of such, one a query.
            k: how many memories at most; None for all that are brought up.
            where: metadata filter, applied to what is brought up; see ``filters``.

        Returns:
            Shares by id, the largest first, at most 1 in all; for a batch a list of them. What was found itself
            is in it, if another hit brings it up.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: before ``fit``, or after a fit by the published recipe, whose scores are no shares.
        """
        hits, batch = read_found(found)
        k = None if k is None else check_count("k", k)
        with self._lock.shared():
            if self._bank.trust is None:
                raise NotFitted("Nothing says how far associations can be trusted.", "a fitted index", "Call fit().")
            brought = spread(self._bank, hits, k, where)
        return brought if batch else brought[0]

    def imagine(self, query: Query, k: int = 5, complete: bool = True) -> Any:
        """Where the associates of a query should lie, whether or not a memory is there (pam.tex 1, 3).

        The point can be asked of another vector store: ``imagine(q).point``, or ``imagine(q).sample(10)``.

        Args:
            query: a vector, an id, or a batch of either.
            k: how many of the memories nearest to the point to return.
            complete: take a vector for a view of stored memories, as ``recall`` does. False predicts from the
                vector as it is: for a question in words, or for the point of another imagination.

        Returns:
            An ``Imagination``, for a batch a list of them.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: before ``fit``.
        """
        k = check_count("k", k)
        asked, batch = read_query(query, self.dim)
        with self._lock.shared():
            found = imagine(self._bank, asked, k, complete)
        return found if batch else found[0]

    def surprise(self, trajectory: TrajectoryLike) -> list[float]:
        """How far each state of a trajectory was from being expected there: salience from prediction error.

        Pass it on as ``Trajectory(salience=...)``, so that what the index knew already counts little in the next
        ``fit``, and what it did not know counts in full (pam.tex 3.4). Nothing is stored.

        Args:
            trajectory: as for ``observe``.

        Returns:
            A number from 0 to 1 for each state: 0 where the states within the window were as much expected as
            what was learnt, 1 where nothing of it was.

        Raises:
            InvalidInput, UnknownId: of the trajectory.
            NotFitted: before ``fit``.
        """
        (episode,) = read_trajectories([trajectory], self.dim)
        with self._lock.shared():
            check_known(self._bank.documents, [episode])
            return surprise(self._bank, episode)
