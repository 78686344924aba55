"""Past use as evidence for default recall. It is cached between queries, and follows writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pam_retriever.arrays import union
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.experience.existed import EXISTED, Existed
from pam_retriever.experience.feedback import (
    MOST_OF_ONE,
    POPULARITY,
    WRITER,
    PastRequests,
)
from pam_retriever.locks import Mutex
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mixture.balance import Balance, requests_read
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.expanded_words import ExpandedWords
from pam_retriever.retrieval.mixture.history import History
from pam_retriever.retrieval.mixture.learnt_requests import LearntRequests, UseRegression
from pam_retriever.retrieval.mixture.mixture import Evidence, Mixture, Priors
from pam_retriever.retrieval.mixture.named import Mentions, Times
from pam_retriever.retrieval.mixture.past_use import PastUse
from pam_retriever.retrieval.mixture.pools import LastAnswer
from pam_retriever.retrieval.mixture.popularity import Newness, Popularity
from pam_retriever.retrieval.mixture.profile import Profile
from pam_retriever.retrieval.mixture.repeated_requests import RepeatedRequests
from pam_retriever.retrieval.mixture.requests import ALL, RequestLog, Uses
from pam_retriever.retrieval.mixture.sources import Similarity, Words, WordsAndNeighbours
from pam_retriever.retrieval.mixture.used_together import UsedTogether
from pam_retriever.retrieval.timeline import Timeline, moment
from pam_retriever.store.database import Settings
from pam_retriever.store.feedback_fit import read_regression, settings_of
from pam_retriever.store.sqlite.feedback import SQLiteFeedback
from pam_retriever.store.view import View
from pam_retriever.types import Int64
from pam_retriever.validation import check_positive, check_text, selects_all


def evidence_of(corpus: Corpus, log: RequestLog, regression: UseRegression | None = None) -> Evidence:
    """Returns all sources over the memories; ``regression`` is what ``fit`` learnt from these requests."""
    return _evidence(corpus, log, Mentions(corpus), regression)


def _evidence(corpus: Corpus, log: RequestLog, mentions: Mentions, regression: UseRegression | None) -> Evidence:
    learnt = () if regression is None else (LearntRequests(log, regression),)
    sources = (
        Similarity(corpus),
        Words("words", corpus),
        Words("names", corpus.names),
        WordsAndNeighbours(corpus),
        mentions,
        Times(corpus),
        Popularity(log),
        Newness(log),
        PastUse(log),
        RepeatedRequests(log),
        Profile(log),
        ExpandedWords(corpus, corpus.names, log),
        UsedTogether(log, corpus),
        *learnt,
    )
    return Evidence(sources, log)


@dataclass(frozen=True)
class PopularityCap:
    """A bound on the popularity that one writer may add to a memory.

    Attributes:
        by: metadata key of feedback; requests with the same value have the same writer.
        most: number of uses.
    """

    by: str = WRITER
    most: float = MOST_OF_ONE

    @classmethod
    def read(cls, settings: Settings) -> PopularityCap:
        """Reads the stored form.

        Raises:
            IndexFormatError: it is damaged.
        """
        stored: Any = settings.get(POPULARITY)
        if stored is None:
            return cls()
        try:
            return cls(check_text(stored["by"], "by"), check_positive("most", stored["most"]))
        except (KeyError, TypeError, InvalidInput) as error:
            raise IndexFormatError(
                f"The bound on popularity cannot be read: {stored!r}.",
                "what set_popularity_cap stored",
                "Call set_popularity_cap again.",
            ) from error


def history_of(
    corpus: Corpus, lexicon: Lexicon, past: PastRequests, settings: Settings, most: float = MOST_OF_ONE
) -> History:
    """Returns past requests for the fit of a mixture, with the memories that existed at each, as ``settings`` say.

    ``most`` is the most popularity that one writer may add.
    """
    last_rows = Existed.read(settings.get(EXISTED)).at(past.numbers)
    existing = np.where(last_rows == ALL, ALL, np.searchsorted(corpus.rows, last_rows, "right"))
    position = corpus.positions(past.rows)
    order = np.argsort(past.request, kind="stable")
    starts = np.searchsorted(past.request[order], np.arange(len(past) + 1)).astype(np.int64)
    uses = Uses(starts, position[order], past.weights[order])
    lengths = np.linalg.norm(past.vectors, axis=1, keepdims=True)
    vectors = (past.vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    timed = len(past) > 1
    words = lexicon.terms_of_requests([text or "" for text in past.texts])
    nows = list(map(moment, past.times))
    return History(vectors, words, uses, corpus, timed, past.writers, most, past.texts, nows, existing)


class FeedbackEvidence:
    """Past use as evidence for default recall. It is cached between queries, and follows writes.

    Args:
        view: a view of the index.
        lexicon: the words of the index.
        timeline: the times of the index.
        where: metadata filter of the requests that count.

    Attributes:
        corpus: the memories.
        log: the requests.
        mentions: the source that knows by which names a memory was found.
        evidence: all sources over memories and requests.
        mixture: the weights of the evidence; those of questions in words may differ, see ``mixture_for``.
        turn: a lock for queries, because sources cache values that they derive from the log.
    """

    def __init__(self, view: View, lexicon: Lexicon, timeline: Timeline, where: Mapping[str, object]) -> None:
        database = view.database
        self._database, self._lexicon, self._where = database, lexicon, where
        self._cap = PopularityCap.read(database.settings)
        self._at, self._version = database.feedback.version, database.memories.words_version
        self._count, self._last = database.feedback.state()
        self.turn = Mutex()
        self.corpus = Corpus(view, lexicon, timeline)
        past = database.feedback.requests(view.dim, where, self._cap.by)
        self.log = history_of(self.corpus, lexicon, past, database.settings, self._cap.most).log()
        self._end = _time(past, -1)
        self.mentions = Mentions(self.corpus)
        self.evidence = _evidence(self.corpus, self.log, self.mentions, None)
        self._regression: UseRegression | None = None
        self._stored = settings_of(database.settings)
        fitted = self._stored[0]
        self._fitted = None if fitted is None else Mixture.from_dict(fitted).with_features(self.evidence.features)
        if selects_all(where):  # the regression has learnt all requests, so a filter must not use it
            self._use_regression(past.numbers)
        self._balance, self._priors = LastAnswer[Balance](), LastAnswer[Mixture]()
        self.mixture = self._weigh()

    @property
    def is_empty(self) -> bool:
        """Whether no request satisfies the filter, and ``fit`` stored no weights."""
        return len(self.log) == 0 and self._fitted is None

    def mixture_for(self, worded: bool) -> Mixture:
        """Returns the weights for questions: ``worded``, in words. A ``fit`` may not have found those."""
        if not worded or self.mixture.worded:
            return self.mixture
        with self.turn:
            return self._before_fit()

    def is_current(self, view: View) -> bool:
        """Whether nothing was written since the last update."""
        return view.database is self._database and view.database.feedback.version == self._at

    def follow(self, view: View) -> bool:
        """Updates to the latest writes, if possible; returns whether it was. If not, create a new instance.

        It is possible if new requests are not older than the known ones, and if memories were only added or changed, or
        if what was removed had served no request. The index may not change meanwhile.
        """
        with self.turn:
            database = view.database
            if database is not self._database:
                return False
            if settings_of(database.settings) != self._stored or PopularityCap.read(database.settings) != self._cap:
                return False  # another process ran ``fit``
            written = database.memories.written_since(self._version)
            if written is None or not (self.corpus.follow(view, written) or self._leave_out_removed(view)):
                return False
            self._version, self.log.size = database.memories.words_version, len(self.corpus)
            self._at = database.feedback.version
            changed = self.corpus.positions(written[:1]) <= self.log.uses.rows.max(initial=-1)
            if changed.any():  # the balance may have read such a memory
                self._balance, self._priors = LastAnswer(), LastAnswer()
                self.mixture = self._weigh()
            return self._follow_requests(database.feedback, view.dim)

    def _leave_out_removed(self, view: View) -> bool:
        """Follows a removal of memories; returns whether it was possible. To read all requests again takes long."""
        before, corpus = self.corpus.rows, Corpus(view, self._lexicon, self.corpus.timeline)
        learnt = None if self._regression is None else self._regression.memories
        used = self.log.uses.rows if learnt is None else union(self.log.uses.rows, learnt)
        if not np.isin(before[used], corpus.rows).all():
            return False
        position = corpus.positions(before)
        left = int(np.searchsorted(corpus.rows, before[-1], "right"))
        self.log.renumber(position, left, len(corpus))
        self.corpus, self.mentions = corpus, Mentions(corpus)
        if self._regression is not None:
            self._regression = self._regression.renumbered(position)
        self.evidence = _evidence(corpus, self.log, self.mentions, self._regression)
        return True

    def _follow_requests(self, table: SQLiteFeedback, dim: int) -> bool:
        count, last = table.state()
        if (count, last) == (self._count, self._last):
            return True
        if count - self._count != table.arrived(self._last):  # requests were removed or replaced
            return False
        past = table.requests(dim, self._where, self._cap.by, self._last)
        self._count, self._last = count, last
        if not len(past):
            return True
        if _time(past, 0) < self._end:
            return False
        self._end = _time(past, -1)
        more = history_of(self.corpus, self._lexicon, past, self._database.settings)
        self.log.extend(more.vectors, more.words, more.uses, past.writers, more.existing)
        self.mixture = self._weigh()
        return True

    def _use_regression(self, numbers: Int64) -> None:
        """Adds the regression over all requests, if one is stored and all of its requests have ``numbers`` (n,)."""
        about = self._stored[1]
        if about is None:
            return
        stored, packed = read_regression(self._database.settings, about)
        regression = UseRegression.of_stored(packed, numbers, self.corpus.rows)
        if regression is None:
            return
        evidence = _evidence(self.corpus, self.log, self.mentions, regression)
        mixture = Mixture.of(stored).with_features(evidence.features)
        if mixture is not None:
            self.evidence, self._fitted, self._regression = evidence, mixture, regression

    def _weigh(self) -> Mixture:
        """Returns the weights that ``fit`` stored, or the priors, which also count beyond the reach of the former."""
        if self._fitted is None:
            return self._before_fit()
        if self._fitted.reach is None:
            return self._fitted
        return replace(self._fitted, beyond=self._before_fit)  # few questions need it, and to estimate it takes long

    def _before_fit(self) -> Mixture:
        """Returns the priors, as far as past requests confirm them."""
        return self._priors.of(self._read_priors, len(self.log))

    def _read_priors(self) -> Mixture:
        features, requests = self.evidence.features, len(self.log)
        balance = self._balance.of(self._read_balance, requests_read(requests))
        return balance.apply(features, Priors.read().at(features, requests))

    def _read_balance(self) -> Balance:
        return Balance.of(self.log, self.corpus, Priors.read(), evidence_of)


def _time(past: PastRequests, at: int) -> tuple[bool, float]:
    """Returns the sort key of a request: requests without a time come first."""
    if not len(past):
        return False, 0.0
    time = float(past.times[at])
    return (False, 0.0) if np.isnan(time) else (True, time)
