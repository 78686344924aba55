"""Feedback: which memories served a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from pam_retriever.arrays import column_as_list
from pam_retriever.embedding import Embedder, embed_questions, read_query
from pam_retriever.errors import InvalidInput, UnknownId, counted
from pam_retriever.evaluation import Validation
from pam_retriever.experience.feedback import (
    MOST_OF_ONE,
    POPULARITY,
    WRITER,
    Feedback,
    Used,
    read_feedback,
)
from pam_retriever.index.base import IndexBase
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.learnt import FROM_FEEDBACK, put_feedback_fit
from pam_retriever.store.view import frozen
from pam_retriever.types import Array, Float32, Metadata, Time
from pam_retriever.validation import (
    check_count,
    check_id,
    check_positive,
    check_text,
    check_vectors,
    check_whole,
    read_ids,
    read_list,
    read_one_or_more,
)

Request = str | Array | Sequence[float]
Requests = list[str] | Array | Sequence[Sequence[float]]


class FeedbackMethods(IndexBase):
    """The part of an index that stores feedback."""

    @overload
    def feedback(
        self,
        query: Request | None = None,
        used: Used = (),
        *,
        unused: Sequence[str] = (),
        text: str | None = None,
        metadata: Metadata | None = None,
        timestamp: Time | None = None,
        id: str | None = None,
    ) -> str: ...

    @overload
    def feedback(
        self,
        query: Requests | None = None,
        used: Sequence[Used] = (),
        *,
        unused: Sequence[Sequence[str]] = (),
        text: Sequence[str | None] | None = None,
        metadata: Sequence[Metadata | None] | None = None,
        timestamp: Sequence[Time | None] | None = None,
        id: Sequence[str] | None = None,
    ) -> list[str]: ...

    def feedback(
        self,
        query: Request | Requests | None = None,
        used: Used | Sequence[Used] = (),
        *,
        unused: Sequence[str] | Sequence[Sequence[str]] = (),
        text: str | Sequence[str | None] | None = None,
        metadata: Metadata | Sequence[Metadata | None] | None = None,
        timestamp: Time | Sequence[Time | None] | None = None,
        id: str | Sequence[str] | None = None,
    ) -> str | list[str]:
        """Stores a request and the memories that served it. Later requests use it at once; ``fit`` learns from it.

        Name the memories that were *used*, not those that were retrieved. Feedback is not a memory: it is never a hit,
        and ``len`` does not count it. It is deleted with the last of its memories.

        Args:
            query: the request: a vector, or a text for the index's embedder. For a batch an array (n, dim), or a list
                of texts; every other argument is then a list of length n.
            used: ids of the memories that served it, or {id: weight} with weights above 0.
            unused: ids of memories that were shown and did not help.
            text: the text of the request, with its vector or instead of it.
            metadata: a dict that JSON can hold, for example with the author of the request.
            timestamp: the time of the request. Without timestamps the order of arrival is used.
            id: of the feedback; an existing one is replaced. A new uuid4 if None.

        Returns:
            The id of the feedback, for a batch a list of ids.

        Raises:
            InvalidInput, UnknownId: an argument is invalid. Nothing was stored.
        """
        vectors, texts, batch, embedded = self._read_requests(query, text)
        count = len(vectors)

        def each(name: str, given: Any, nothing: object) -> Any:
            """Returns an argument as a list with one item per request."""
            if not batch:
                return [given]
            if given is None or (isinstance(given, tuple) and not given):
                return [nothing] * count
            if isinstance(given, str | Mapping):
                raise InvalidInput(
                    f"Got {name}={given!r}.", f"a list of {count}, as many as requests", "Give one each."
                )
            return read_list(name, given)

        new = read_feedback(
            texts,
            each("used", used, ()),
            each("unused", unused, ()),
            each("metadata", metadata, None),
            each("timestamp", timestamp, None),
            None if id is None else each("id", id, None),
        )
        with self._lock.exclusive():
            self._store.add_feedback(new, vectors, embedded)
        return new.ids if batch else new.ids[0]

    def _read_requests(self, query: Any, text: Any) -> tuple[Float32, list[str | None], bool, Embedder | None]:
        """Returns vectors (n, dim) and texts of n requests, whether they are a batch, and the embedder, if used."""
        query = column_as_list(query)
        several = isinstance(query, list | tuple)
        words = isinstance(query, str) or (several and any(isinstance(one, str) for one in query))
        if words and text is not None:
            raise InvalidInput("Got the words of a request twice.", "them as query or as text", "Leave one out.")
        if words:
            query, text = None, query
        if query is None:
            if text is None:
                raise InvalidInput("There is neither a query nor a text.", "one of them", "Pass text='...'.")
            texts = read_one_or_more("text", text)
            vectors = embed_questions(self._embedder, texts, self.dim, "feedback(text=...)", lambda: self.embedder_name)
            return vectors, list(texts), not isinstance(text, str), self._embedder
        found, batch = read_query(query, self.dim)
        vectors = check_vectors(found, self.dim, "the request")
        if text is None:
            return vectors, [None] * len(vectors), batch, None
        texts = read_one_or_more("text", text)
        if len(texts) != len(vectors):
            raise InvalidInput(
                f"Got {counted(len(texts), 'text')} for {counted(len(vectors), 'request')}.",
                "as many",
                "Give one each.",
            )
        return vectors, list(texts), batch, None

    def feedbacks(
        self,
        where: Metadata | None = None,
        limit: int | None = None,
        offset: int = 0,
        *,
        naming: str | None = None,
    ) -> list[Feedback]:
        """Returns the stored feedback whose metadata satisfy a filter, in the order of arrival.

        Args:
            where: metadata filter; see ``filters``.
            limit: number of results, at most.
            offset: number of results to skip first.
            naming: id of a memory: only requests with it in ``used`` or ``unused``.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
        """
        offset, limit = check_whole("offset", offset), None if limit is None else check_count("limit", limit)
        with self._lock.shared():
            table, row = self._store.database.feedback, None
            if naming is not None:
                row = self._store.database.memories.rows_of([check_id(naming, "feedbacks")]).get(naming)
                if row is None:
                    raise UnknownId(f"Got naming={naming!r}.", "the id of a memory in the index", "Add it first.")
            return table.find({} if where is None else where, limit, offset, row)

    def delete_feedback(self, ids: str | Sequence[str] | None = None, *, where: Metadata | None = None) -> int:
        """Deletes feedback by id or by a filter on its metadata; ignores unknown ids.

        Returns:
            The number of deleted requests.

        Raises:
            InvalidInput: neither ids nor a filter, or both.
        """
        names = read_ids(ids, where, "delete_feedback", "deletes all feedback")
        with self._lock.exclusive():
            if where is not None:
                names = self._store.database.feedback.ids_of(where)
            return self._store.delete_feedback(names)

    def set_popularity_cap(self, by: str = WRITER, most: float = MOST_OF_ONE) -> None:
        """Bounds the popularity that one writer's feedback adds to a memory. The bound is stored with the index.

        Args:
            by: metadata key of feedback: requests with the same value count as one writer. Each request without the
                key counts as another writer.
            most: largest number of uses of a memory that one writer adds.

        Raises:
            InvalidInput: an argument is invalid.
        """
        cap = {"by": check_text(by, "by"), "most": check_positive("most", most)}
        with self._lock.exclusive():
            self._store.set_setting(POPULARITY, cap)
            self._evidence.clear()

    def _fit_mixture(self, seed: int) -> tuple[int, Validation]:
        """Fits the weights of the evidence on past requests; returns their number and the measured results."""
        from pam_retriever.retrieval.mixture.corpus import Corpus
        from pam_retriever.retrieval.mixture.feedback_evidence import PopularityCap, evidence_of, history_of
        from pam_retriever.retrieval.mixture.learnt_fitting import fit_feedback
        from pam_retriever.retrieval.mixture.mixture import Priors
        from pam_retriever.retrieval.timeline import Timeline

        with self._lock.shared():
            nothing = not len(self._store.database.feedback)
        if nothing:
            self._discard(FROM_FEEDBACK)
            return 0, Validation()
        with frozen(self._store, self._lock) as view:  # others read and write meanwhile
            database, lexicon = view.database, Lexicon(view.database)
            corpus, cap = Corpus(view, lexicon, Timeline(database, lexicon)), PopularityCap.read(database.settings)
            past, (requests, last) = database.feedback.requests(view.dim, writer=cap.by), database.feedback.state()
            history = history_of(corpus, lexicon, past, database.settings, cap.most)
            fitted = fit_feedback(history, lambda log, learnt: evidence_of(corpus, log, learnt), Priors.read(), seed)
        with self._lock.exclusive():
            about, weights = dict[str, object](), None
            if fitted.learnt is not None:
                regression, mixture = fitted.learnt.regression, fitted.learnt.mixture.to_dict()
                rows = corpus.rows[regression.memories].tolist()
                about = {"requests": requests, "last": last, "memories": rows, "mixture": mixture}
                weights = regression.pack(past.numbers, corpus.rows)
            # requests and memories may have been removed meanwhile
            self._store.change(lambda database: put_feedback_fit(database, fitted.mixture.to_dict(), about, weights))
            self._evidence.clear()
        return len(history), fitted.validation
