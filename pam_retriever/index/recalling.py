"""Queries: memories that look like a query, and memories that happened with it."""

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
from pam_retriever.retrieval.query import BEAM, FAN_OUT, Hops, Query, RecallSettings
from pam_retriever.retrieval.retriever import answer, recent
from pam_retriever.retrieval.scorers import Recall
from pam_retriever.retrieval.timeline import QuestionTimes, read_clock
from pam_retriever.store.space import Space, is_observed, no_encoder
from pam_retriever.store.write_trajectories import check_known
from pam_retriever.types import Array, Direction, Hits, Metadata, Time

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pam_retriever.retrieval.timeline import Interval

Where = Metadata | None
Vector = Array | Sequence[float]
One = str | Vector | Mapping[str, object]
Many = list[str] | Sequence[Sequence[float]] | Sequence[Array] | Sequence[Mapping[str, object]] | Observed


class RecallOptions(TypedDict, total=False):
    """The less common arguments of ``recall``; see ``recall``."""

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
    """The part of an index that answers queries."""

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
        """Returns the nearest memories by cosine, as any vector store does. Needs no ``fit``.

        Args:
            query: a vector, an id, or a batch of either; with an encoder also a dict of modalities, or a list of them.
            k: number of hits; all memories if there are fewer.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``. A query by id must pass it.
            text: instead of ``query``, a text or a list of texts for the index's embedder.

        Returns:
            ``Hits`` by falling cosine, for a batch a list of them. A query by id leaves that id out.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
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
        """Like ``search``, for a batch: an array (Q, dim), a list of ids, or texts. One ``Hits`` per query."""
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
        """Returns the memories that happened with the query.

        In the modes "association" and "specific", a vector that differs from stored memories only by noise is replaced
        by the memories nearest to it. In "hybrid" a vector need not resemble a memory: it may be the vector of a
        question. The more one memory stands out among the nearest, the more it replaces the vector.

        With ``text``, mode "hybrid" also searches for the words (BM25) and for metadata that the text names. Neighbours
        of a memory in trajectories count as evidence for it (docs/how/recall.md). Times in the text ("in July", "last
        week") raise memories whose date or text is in that time. If memories have names, those named by the text or by
        its best hits are found, too. This needs no ``fit``. A query by id finds whom the memory names and who names
        it: before ``fit``, and after it if the memory was never experienced.

        Args:
            query: a vector, an id, or a batch of either; None with ``text`` and an embedder. With an encoder also a
                dict of modalities, or a list of them.
            k: number of hits, at most; None for all with ``min_score``. But for rounding, the first hits are the same
                for every ``k``. With ``snap=False`` and in an approximate ANN index, a larger ``k`` may find others.
            mode: "association" (memories that happened with it), "similarity", "hybrid" (their weighted sum), or
                "specific" (both must be high). None is "hybrid" with ``text``, else "association", and also uses past
                requests (docs/reference/recall-options.md).
            hops: number of steps of association to follow, for example A-B and then B-C if A never met C (Dury 3.7).
                The score of a path is the geometric mean of its steps (in mode "association" of their confidence); a
                memory gets the score of its best path. The filter and ``min_score`` apply at every hop.
            fan_out: with hops, number of memories to which each one leads.
            beam: with hops, number of paths of a query that are continued; bounds the cost.
            snap: with hops, start the next hop at the stored memories that the last one found. False starts it at the
                predicted point itself, whether or not a memory is there.
            channels: weights of the channels, instead of those of ``mode``.
            text: the text of the query, or a list of texts. Without ``query`` the index's embedder makes the vector.
            min_score: drop hits with a lower score. With hops, drop each hop with a lower score; a path may have a
                lower score, because familiar memories and an uncertain cue reduce it.
            where: metadata filter, applied before the ``k`` are chosen; see ``filters``. It also limits paths,
                evidence, and the memories that the query may be or be completed to: excluded memories have no effect.
            cue_where: filter of the memories that the query may be or be completed to, instead of ``where``: {} for
                all, for example if a turn of a chat is the query and documents are the hits.
            decay: half-life, in the unit of the timestamps (dates count in seconds): a positive score halves with each
                half-life between ``now`` and the last experience of the memory (Dury 3.9). A memory without a known
                time of experience keeps its score.
            now: for ``decay`` a date or a number; None for the newest timestamp in the index. Also the date to which
                words of time in ``text`` and ``when`` refer; None for the clock (a plain number affects ``decay``
                alone). For questions about old dialogues, give the date of the question.
            faithful: return only memories that were experienced with the cue, within the window. A vector stands for
                the memories that it is completed to; before ``fit``, for the memory that equals it, if there is one.
            explain: fill ``Hit.evidence``, ``Hit.mentions`` and ``Hit.sources``.
            feedback_where: metadata filter of the past requests to use; see ``feedback``. In a fitted index
                only questions in words use past requests.
            when: return only memories of this time: words ("last week"), a date, a datetime, or a pair (start, end) of
                them, None for an open end; a pair of numbers if timestamps are numbers. Without a query and a text,
                returns all memories of this time, the newest first.
            without: names of ``Hit.sources`` to leave out, to see the effect of each.
            direction: "after": only memories that came after the query count as linked to it, and each further hop
                leads only to later memories; "before": the opposite. None for both. Similarity and words have no
                direction, and count as usual.

        Returns:
            ``Hits`` by falling score, for a batch a list of them. A query by id leaves that id out. In the modes that
            complete a vector, a vector equal to a stored memory leaves that memory out.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
            NotFitted: prediction needs a ``fit``; or association needs experience or, for a query by id, names of
                memories.
            MissingExtra: the words of ``when`` need the extra ``times``.
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
        """Returns the memories of a time, without a query."""
        settings = settings.of_time_alone()
        with self._lock.shared():
            view = self._store.view()
            if not len(view.similar):
                read_filters(view, settings.where, settings.cue_where)
                return Hits()
            return recent(view, settings, QuestionTimes(self._timeline, read_clock(settings.now)))

    def recall_many(
        self,
        queries: Many | Array | None = None,
        k: int | None = 10,
        mode: Mode | None = None,
        *,
        texts: list[str] | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[Hits]:
        """Like ``recall``, for a batch: an array (Q, dim), a list of ids, or texts. One ``Hits`` per query."""
        if "text" in options:  # Python's own message would speak of two values
            raise InvalidInput("recall_many got text=.", "texts=, one text for each query", "Write texts=[...].")
        # here the static type of the query is a batch
        return _many(self.recall(cast("list[str]", queries), k, mode, text=texts, **options))

    def _answer(self, query: Any, text: str | list[str] | None, settings: RecallSettings) -> Hits | list[Hits]:
        """Returns the hits of a query, or of a batch."""
        settings = settings.checked(words=text is not None)
        space = self._store.space
        read = self._read_query(query, text, settings.mode, space)
        named = read.stored or self._store.predictor is None  # other queries without words use no names
        if read.worded or (settings.mode != "similarity" and named):
            self._search_names()
        with self._lock.shared():
            if is_observed(query) and self._store.space is not space:  # ``reencode`` replaced the encoder meanwhile
                read = self._read_query(query, text, settings.mode, self._store.space)
            view = self._store.view()
            if not len(view.similar):
                check_queries(view, read.queries, settings.where, settings.cue_where)
                return [Hits() for _ in read.queries] if read.batch else Hits()
            uses = settings.asks_use(read.worded, view.predictor is not None)
            feedback = self._feedback_evidence(view, settings.feedback_where) if uses else None
            times = QuestionTimes(self._timeline, read_clock(settings.now))
            asked = Recall(view.towards(settings.direction), settings, read, self._lexicon, times, feedback)
            try:
                hits = answer(asked)
            except NotFitted:
                # an unknown id is reported before a missing fit
                check_queries(view, read.queries, settings.where, settings.cue_where)
                raise
        return hits if read.batch else hits[0]

    def _read_query(self, query: Any, text: str | list[str] | None, mode: Mode | None, space: Space | None) -> Query:
        if is_observed(query):
            query = _encode(query, space)
        return Query(*read_question(query, text, str(mode), self._embedder, self.dim, lambda: self.embedder_name))

    def surprise(self, trajectory: TrajectoryLike) -> list[float]:
        """Returns how unexpected each state of a trajectory was: salience from prediction error.

        If you pass the result to ``Trajectory(salience=...)``, expected states have a low weight in the next ``fit``,
        and unexpected states have the full weight (Dury 3.4). Nothing is stored.

        Args:
            trajectory: see ``observe``.

        Returns:
            A number from 0 to 1 for each state: 0 if the predictor expected the states within the window as strongly
            as learnt pairs, 1 if it did not expect them at all.

        Raises:
            InvalidInput, UnknownId: the trajectory is invalid.
            NotFitted: before ``fit``.
        """
        from pam_retriever.retrieval.surprise import surprise

        (episode,) = read_trajectories([trajectory], self.dim)
        with self._lock.shared():
            view = self._store.view()
            check_known(view.database, [episode])
            return surprise(view, episode)


def _encode(query: Any, space: Space | None) -> Any:
    """Returns the vector (d,) of an observation, or the vectors (Q, d) of a list of observations."""
    if space is None:
        raise no_encoder("the query")
    one = isinstance(query, Mapping)
    states = space.encoder.encode(space.encoder.read([query] if one else query, "the query"))
    return states[0] if one else states


def _many(found: Hits | list[Hits]) -> list[Hits]:
    """Returns the answers to a batch.

    Raises:
        InvalidInput: a single query was given.
    """
    if isinstance(found, Hits):
        raise InvalidInput("Got one query.", "a batch: an array (Q, dim), a list of ids or of texts", "Wrap it in [ ].")
    return found
