"""Questions: what looks like a query, and what happened with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast, overload

from pam_retriever.embedding import read_question
from pam_retriever.errors import InvalidInput, NotFitted
from pam_retriever.experience.trajectories import TrajectoryLike, read_trajectories
from pam_retriever.index.base import IndexBase
from pam_retriever.model.keys import Channels, Mode
from pam_retriever.protocols import Observed
from pam_retriever.retrieval.cues import check_queries, read_filters
from pam_retriever.retrieval.imagination import Imagination, SpreadCalibration, calibrate, check_imaginable, imagine
from pam_retriever.retrieval.multihop import BEAM, FAN_OUT, Hops
from pam_retriever.retrieval.query import Query, RecallSettings
from pam_retriever.retrieval.retriever import Retriever
from pam_retriever.retrieval.surprise import surprise
from pam_retriever.retrieval.timeline import Interval
from pam_retriever.store.space import Space, is_observed, no_encoder
from pam_retriever.store.view import View
from pam_retriever.training.dataset import check_known
from pam_retriever.types import Array, Direction, Hits, Metadata, Time
from pam_retriever.validation import check_count, read_query

if TYPE_CHECKING:
    from typing_extensions import Unpack

Where = Metadata | None
Vector = Array | Sequence[float]
One = str | Vector | Mapping[str, object]
Many = list[str] | Sequence[Sequence[float]] | Sequence[Array] | Sequence[Mapping[str, object]] | Observed


class RecallOptions(TypedDict, total=False):
    """The rarer arguments of ``recall``; see there."""

    hops: int
    channels: Channels | None
    fan_out: int
    beam: int
    snap: bool
    min_score: float | None
    where: Where
    cue_where: Where
    decay: float | None
    now: Time | None
    faithful: bool
    explain: bool
    feedback_where: Where
    when: Interval | None
    without: Collection[str]
    direction: Direction | None


class Recalling(IndexBase):
    """The part of an index that answers."""

    @overload
    def search(
        self, query: One | None = None, k: int = 10, where: Where = None, *, text: str | None = None
    ) -> Hits: ...

    @overload
    def search(
        self, query: Many | None = None, k: int = 10, where: Where = None, *, text: list[str] | None = None
    ) -> list[Hits]: ...

    def search(
        self,
        query: One | Many | None = None,
        k: int = 10,
        where: Where = None,
        *,
        text: str | list[str] | None = None,
    ) -> Hits | list[Hits]:
        """The nearest memories by cosine, as in any vector store. Needs no ``fit``.

        Args:
            query: a vector, an id, or a batch of either; with an encoder also a dict of modalities, or a list of them.
            k: how many hits; if there are fewer memories, all of them.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``. A query by id must pass it.
            text: in place of ``query``: words, or a batch of them, for the index's embedder.

        Returns:
            ``Hits`` by falling cosine, for a batch a list of them. A query by id leaves that id out.

        Raises:
            InvalidInput, UnknownId: of the arguments.
        """
        return self._answer(query, text, RecallSettings(k, "similarity", where=where))

    def search_many(
        self,
        queries: Many | Array | None = None,
        k: int = 10,
        where: Where = None,
        *,
        texts: list[str] | None = None,
    ) -> list[Hits]:
        """As ``search``, of a batch: an array (Q, dim), a list of ids, or texts. One ``Hits`` a query."""
        return _many(self._answer(queries, texts, RecallSettings(k, "similarity", where=where)))

    @overload
    def recall(
        self,
        query: One | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        *,
        text: str | None = None,
        **options: Unpack[RecallOptions],
    ) -> Hits: ...

    @overload
    def recall(
        self,
        query: Many | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        *,
        text: list[str] | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[Hits]: ...

    def recall(
        self,
        query: One | Many | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        hops: int = 1,
        channels: Channels | None = None,
        *,
        text: str | list[str] | None = None,
        fan_out: int = FAN_OUT,
        beam: int = BEAM,
        snap: bool = True,
        min_score: float | None = None,
        where: Where = None,
        cue_where: Where = None,
        decay: float | None = None,
        now: Time | None = None,
        faithful: bool = False,
        explain: bool = False,
        feedback_where: Where = None,
        when: Interval | None = None,
        without: Collection[str] = (),
        direction: Direction | None = None,
    ) -> Hits | list[Hits]:
        """What happened with the query.

        In the modes "association" and "specific", a vector is taken for a view of a stored memory and is
        completed first: it stands for the memories nearest to it. In "hybrid" it may be anything, such as
        a question in words; it is completed in proportion to how far one memory stands out among the nearest.

        With ``text``, mode "hybrid" also looks for the words (BM25) and for metadata that the text names, and counts
        memories that were experienced next to a memory as evidence for it (docs/how/recall.md). Times that the text
        names ("in July", "last week") raise memories whose date, or whose text, lies in that time. If memories have
        names, those that the text or its best hits name are found, too. That needs no ``fit``.

        Args:
            query: a vector, an id, or a batch of either; None with ``text`` and an embedder. With an encoder also a
                dict of modalities, or a list of them.
            k: how many hits at most; None for all with ``min_score``.
            mode: "association" (what happened with it), "similarity", "hybrid" (their weighted sum),
                or "specific" (both must agree). None is "hybrid" with ``text``, else "association".
            hops: how many steps of association to follow, such as A-B and then B-C where A never met C
                (Dury 3.7). A path scores the geometric mean of its steps (in mode "association" of their
                confidence), a memory by its best path. The filter and ``min_score`` hold at every hop.
            fan_out: with hops, how many memories each one leads to.
            beam: with hops, how many paths of a query are followed further; bounds the cost.
            snap: with hops, begin the next hop at the stored memories that the last one found. False
                begins it at the predicted point itself, whether or not a memory is there.
            channels: weights of the channels, in place of those of ``mode``.
            text: the query in words, or a batch of them. Without ``query`` the index's embedder makes the vector.
            min_score: leave out hits that score less.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``. It also limits paths, evidence
                and what the query may be, or be taken for: memories that it leaves out show nowhere.
            cue_where: filter of the memories that the query may be, or be taken for, in place of ``where``: {} for
                all, where a turn of a chat asks for documents.
            decay: half-life, in the unit of the timestamps: a positive score halves with each one that lies
                between ``now`` and when the memory was last experienced (Dury 3.9). A memory that was
                never experienced at a known time keeps its score.
            now: for ``decay``, a date or a number, the newest timestamp in the index if None; and what words of time
                in ``text`` and ``when`` count from, a date, the clock if None (a plain number is for ``decay``
                alone). For questions about old dialogues, say when they are asked.
            faithful: only memories that were experienced with the cue, within the window.
            explain: fill ``Hit.evidence``, ``Hit.mentions`` and ``Hit.sources``.
            feedback_where: metadata filter: whose past requests count; see ``feedback``.
            when: only memories of that time: words ("last week"), a date, a datetime, or a pair (start, end) of them,
                None for an open one; a pair of numbers where timestamps are numbers. Without a query and a text, all
                that was there, the newest first.
            without: names of ``Hit.sources`` that do not count: to see what each brings.
            direction: "after": only what came after the query is linked to it, and with ``hops`` what came after that;
                "before" the other way round. None for both. Looks and words have no direction, and count as they do.

        Returns:
            ``Hits`` by falling score, for a batch a list of them. A query by id leaves
            that id out; so does a vector that is a stored memory, in the modes that complete it.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: prediction was asked for before ``fit``, or association where nothing was experienced and, for a
                query by id, no memory has a name.
            MissingExtra: ``when`` is in words that need the extra ``times``.
        """
        settings = RecallSettings(
            k,
            mode,
            channels,
            Hops(hops, fan_out, beam, snap),
            min_score,
            where,
            decay,
            now,
            faithful,
            explain,
            feedback_where,
            cue_where=cue_where,
            when=when,
            without=without,
            direction=direction,
        )
        if query is None and text is None and when is not None:
            return self._recent(settings)
        return self._answer(query, text, settings)

    def _recent(self, settings: RecallSettings) -> Hits:
        """The memories of a time, without a query."""
        settings = settings.of_time_alone()
        with self._lock.shared():
            view = self._store.view()
            if not len(view.similar):
                read_filters(view, settings.where, settings.cue_where)
                return Hits()
            return Retriever(view, self._lexicon, settings, timeline=self._timeline).recent()

    def recall_many(
        self,
        queries: Many | Array | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        *,
        texts: list[str] | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[Hits]:
        """As ``recall``, of a batch: an array (Q, dim), a list of ids, or texts. One ``Hits`` a query."""
        # a batch has one static type here, whatever it is
        return _many(self.recall(cast("list[str]", queries), k, mode, text=texts, **options))

    def _answer(self, query: Any, text: str | list[str] | None, settings: RecallSettings) -> Hits | list[Hits]:
        """The hits of a query, which may be a batch."""
        settings = settings.checked(words=text is not None)
        if settings.mode != "similarity":
            self._search_names()
        space = self._store.space
        read = self._read_query(query, text, settings.mode, space)
        with self._lock.shared():
            if is_observed(query) and self._store.space is not space:  # the encoder moved meanwhile
                read = self._read_query(query, text, settings.mode, self._store.space)
            view = self._store.view()
            if not len(view.similar):
                check_queries(view, read.asked, settings.where, settings.cue_where)
                return [Hits() for _ in read.asked] if read.batch else Hits()
            knowledge = self._knowledge(view, settings.feedback_where)
            words, stored = read.texts is not None, isinstance(read.asked, list)
            try:
                retriever = Retriever(view, self._lexicon, settings, words, knowledge, self._timeline, stored)
            except NotFitted:
                # an unknown id is told before a missing fit
                check_queries(view, read.asked, settings.where, settings.cue_where)
                raise
            hits = retriever.hits(read)
        return hits if read.batch else hits[0]

    def _read_query(self, query: Any, text: str | list[str] | None, mode: Mode | None, space: Space | None) -> Query:
        if is_observed(query):
            query = _encode(query, space)
        return Query(*read_question(query, text, str(mode), self._embedder, self.dim, lambda: self.embedder_name))

    @overload
    def imagine(self, query: One, k: int = 5, complete: bool = True, *, where: Where = None) -> Imagination: ...

    @overload
    def imagine(self, query: Many, k: int = 5, complete: bool = True, *, where: Where = None) -> list[Imagination]: ...

    def imagine(
        self, query: One | Many, k: int = 5, complete: bool = True, *, where: Where = None
    ) -> Imagination | list[Imagination]:
        """Where the associates of a query should lie, whether or not a memory is there (Dury 1, 3).

        The point can be asked of another vector store: ``imagine(q).point``, or ``imagine(q).sample(10)``.

        Args:
            query: a vector, an id, or a batch of either.
            k: how many of the memories nearest to the point to return.
            complete: take a vector for a view of stored memories, as ``recall`` does. False predicts from the
                vector as it is: for a question in words, or for the point of another imagination.
            where: metadata filter; see ``filters``. The query is, or is taken for, what passes it, and so are the
                memories near the point and the spread that follows from them.

        Returns:
            An ``Imagination``, for a batch a list of them.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: before ``fit``.
            EmptyIndex: there are fewer than two memories, or the filter leaves fewer.
        """
        k = check_count("k", k)
        asked, batch = read_query(query, self.dim)
        with self._lock.shared():
            view = self._store.view()
            check_imaginable(view)
            found = imagine(view, self._calibration(view), asked, k, complete, where)
        return found if batch else found[0]

    def _calibration(self, view: View) -> SpreadCalibration:
        """How far points of this predictor are off: found once, when it is first asked for."""
        if self._imagined is None or self._imagined[0] is not view.predictor:
            self._imagined = view.predictor, calibrate(view)
        return self._imagined[1]

    def surprise(self, trajectory: TrajectoryLike) -> list[float]:
        """How far each state of a trajectory was from being expected there: salience from prediction error.

        Pass it on as ``Trajectory(salience=...)``, so that what the index knew already counts little in the next
        ``fit``, and what it did not know counts in full (Dury 3.4). Nothing is stored.

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
            view = self._store.view()
            check_known(view.database, [episode])
            return surprise(view, episode)


def _encode(query: Any, space: Space | None) -> Any:
    """Observations as vectors: one, or (Q, d)."""
    if space is None:
        raise no_encoder("the query")
    one = isinstance(query, Mapping)
    states = space.encoder.encode(space.encoder.read([query] if one else query, "the query"))
    return states[0] if one else states


def _many(found: Hits | list[Hits]) -> list[Hits]:
    """The answers to a batch.

    Raises:
        InvalidInput: one query was given, no batch.
    """
    if isinstance(found, Hits):
        raise InvalidInput("Got one query.", "a batch: an array (Q, dim), a list of ids or of texts", "Wrap it in [ ].")
    return found
