"""Chooses the scorer for a query, applies filters, and returns hits.

Scorers are imported on demand, so that the first search of a process loads only its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.model.keys import MODES, Channels
from pam_retriever.model.noise import SAME
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.channels import ChannelScorer, DirectedChannelScorer
from pam_retriever.retrieval.cues import Cues, read_cues, read_filters
from pam_retriever.retrieval.decay import Decay, DecayScorer, read_now
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.query import Query, RecallSettings
from pam_retriever.retrieval.results import listed, to_hits, with_times
from pam_retriever.retrieval.sources import check_without
from pam_retriever.retrieval.timeline import QuestionTimes, Timeline, read_clock
from pam_retriever.store.view import View
from pam_retriever.types import Hits, Int64, Times

if TYPE_CHECKING:
    from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence


class Retriever:
    """Answers queries on one view of an index.

    Args:
        view: a view of the index.
        lexicon: the words of the index.
        settings: checked.
        words: whether the words of the queries are searched.
        feedback: past use; None if the recall does not use it, or if there is none.
        timeline: the dates of the memories; None to ignore them.
        stored: whether the queries are stored memories.
    """

    def __init__(
        self,
        view: View,
        lexicon: Lexicon,
        settings: RecallSettings,
        words: bool = False,
        feedback: FeedbackEvidence | None = None,
        timeline: Timeline | None = None,
        stored: bool = False,
    ) -> None:
        view = view.towards(settings.direction)
        self._view, self._settings = view, settings
        self._times = None if timeline is None else QuestionTimes(timeline, read_clock(settings.now))
        calibrated = view.calibration is not None and settings.mode == "association" and settings.channels is None
        # whether the times in a question count
        self._reads_times = words and (feedback is not None or not calibrated)
        without = frozenset(settings.without)
        if feedback is not None:
            self._channels = Channels(similarity=1)  # past use needs only the similarity channel
            self._scorer = self._around(self._from_use(lexicon, words, feedback, stored))
            return
        named = stored and settings.hops.count == 1 and _follows_mentions(settings, view)
        if view.predictor is None and (named or _needs_no_fit(settings, words, view)):
            from pam_retriever.retrieval.linked import LinkScorer

            self._channels = Channels(similarity=1)
            if named:
                check_without(without, ())
            links = LinkScorer(view, self._fills(), None if named else settings.min_score, without)
            self._scorer = self._around(_after_mentions(view, lexicon, links, settings.min_score) if named else links)
            return
        self._channels = settings.weights(words, view.predictor is not None)
        step = self._around(self._one_hop(lexicon, words, calibrated, stored))
        if settings.hops.count > 1:
            from pam_retriever.retrieval.multihop import MultihopScorer

            # a calibrated step has the probabilities of recall; the path has the scores of the plain channels
            channels = MODES["association"] if calibrated else self._channels
            later = self._around(self._one_hop(lexicon, words, calibrated, False))
            step = MultihopScorer((step, later), view, channels, settings.hops, settings.mode != "hybrid")
        self._scorer = step

    def _fills(self) -> bool:
        """Whether similar memories follow the linked ones. Similarity has no direction."""
        return self._settings.default and self._settings.direction is None

    def _from_use(self, lexicon: Lexicon, words: bool, feedback: FeedbackEvidence, stored: bool) -> Scorer:
        """Returns the scorer of past requests. A cue without words has other evidence before ``fit``, too."""
        from pam_retriever.retrieval.linked import EXPERIENCE, SOURCES, TOGETHER, LinkScorer
        from pam_retriever.retrieval.mixture.named import MENTIONED
        from pam_retriever.retrieval.mixture.scorer import MixtureScorer

        view, settings, without = self._view, self._settings, frozenset(self._settings.without)
        if words:
            return MixtureScorer(view, feedback, settings.min_score, without, self._times)
        from pam_retriever.retrieval.before_fit import BeforeFitScorer
        from pam_retriever.retrieval.mentioned import MentionScorer

        use = MixtureScorer(view, feedback, None, without, self._times, SOURCES)
        links = mentions = None
        if view.links.memories and EXPERIENCE not in without:
            known = without & frozenset(SOURCES) if self._fills() else frozenset()
            links = LinkScorer(view, self._fills(), None, known, None if TOGETHER in without else use)
        if stored and _follows_mentions(settings, view) and MENTIONED not in without:
            mentions = MentionScorer(view, lexicon)
        ranks_links = self._fills() and TOGETHER not in without
        return BeforeFitScorer(links, mentions, use, view, settings.min_score, ranks_links)

    def _around(self, scorer: Scorer) -> Scorer:
        """Wraps the scorer as ``decay`` and ``faithful`` require."""
        view, settings = self._view, self._settings
        if settings.decay is not None:
            decay = Decay(settings.decay, read_now(view.database, settings.now))
            scorer = DecayScorer(scorer, view.database, decay, settings.min_score)
        return FaithfulScorer(scorer, view) if settings.faithful else scorer

    def _one_hop(self, lexicon: Lexicon, words: bool, calibrated: bool, stored: bool) -> Scorer:
        view, settings, without = self._view, self._settings, frozenset(self._settings.without)
        several = settings.hops.count > 1
        if several:
            check_without(without, ())
        if calibrated:
            from pam_retriever.retrieval.association import AssociationScorer

            mentions = None
            if stored and _follows_mentions(settings, view):
                from pam_retriever.retrieval.mentioned import MentionScorer

                mentions = MentionScorer(view, lexicon)
            explain = settings.explain and not several
            return AssociationScorer(view, settings.min_score, several, without, explain, mentions)
        if words:
            from pam_retriever.retrieval.hybrid import HybridScorer

            return HybridScorer(view, lexicon, self._channels, settings.min_score, self._times, without)
        check_without(without, ())
        index = view.index_of(self._channels)
        intersect = settings.mode == "specific"
        if view.links.direction is not None:
            return DirectedChannelScorer(view, self._channels, settings.min_score, intersect)
        return ChannelScorer(index, self._channels, settings.min_score, intersect)

    def hits(self, query: Query) -> list[Hits]:
        """Returns the hits of each query.

        Raises:
            InvalidInput, UnknownId: a query does not fit this view.
        """
        view, settings = self._view, self._settings
        if not len(view.similar):
            return [Hits() for _ in query.queries]
        index = view.index_of(self._channels)
        allowed, among = read_filters(view, settings.where, settings.cue_where)
        cues = read_cues(view, index, query.queries, settings.mode != "hybrid", query.texts, among)
        allowed = self._within_when(allowed)
        cues = cues if allowed is None else replace(cues, visible=allowed)
        found = self._scorer.score(cues, settings.k, allowed)
        hits = to_hits(view, cues, found, settings.explain)
        if not settings.explain or self._times is None:
            return hits
        texts = query.texts if query.texts is not None and self._reads_times else [None] * len(hits)
        named = (self._times.named_times(one.rows, text, allowed) for one, text in zip(found, texts, strict=True))
        return [with_times(some, times) for some, times in zip(hits, named, strict=True)]

    def recent(self) -> Hits:
        """Returns the memories of ``when``, the newest first, without a query."""
        view, settings = self._view, self._settings
        rows, _ = self._rows_when()
        if settings.where is not None:
            rows = rows[holds(view.database.memories.rows_where(settings.where), rows)]
        rows = rows[: settings.k]
        hits = listed(view, rows)
        return with_times(hits, self._times.named_times(rows, None, None)) if settings.explain and self._times else hits

    def _within_when(self, allowed: Rows | None) -> Rows | None:
        """Returns the allowed memories whose time is in ``when``."""
        if self._settings.when is None:
            return allowed
        rows = np.sort(self._rows_when()[0])
        return rows if allowed is None else rows[holds(allowed, rows)]

    def _rows_when(self) -> tuple[Int64, Times]:
        assert self._times is not None
        assert self._settings.when is not None
        return self._times.timeline.rows_when(self._settings.when, self._times.now)


def _after_mentions(view: View, lexicon: Lexicon, scorer: Scorer, min_score: float | None) -> Scorer:
    """Returns a scorer whose first answers are mentions."""
    from pam_retriever.retrieval.first_mentions import InTurnScorer
    from pam_retriever.retrieval.mentioned import MentionScorer

    return InTurnScorer(MentionScorer(view, lexicon), scorer, min_score)


def _needs_no_fit(settings: RecallSettings, words: bool, view: View) -> bool:
    """Whether links answer before ``fit``: by default for queries without words, if there are links."""
    if words or settings.mode != "association" or settings.hops.count > 1 or settings.channels is not None:
        return False
    return settings.default or view.links.memories > 0


def _follows_mentions(settings: RecallSettings, view: View) -> bool:
    """Whether mentions answer for a stored memory: before ``fit`` for any, after it for one without experience."""
    plain = settings.mode == "association" and settings.channels is None
    # a mention has no direction
    return plain and settings.direction is None and view.database.mentions.known


class FaithfulScorer:
    """Keeps only the hits that were experienced with the cue. A vector is the stored memory that equals it, if any.

    Args:
        scorer: a scorer of all memories.
        view: a view with the links.
    """

    def __init__(self, scorer: Scorer, view: View) -> None:
        self._scorer, self._view = scorer, view

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        view = self._view
        found: list[Candidates] = []
        for at, rows in enumerate(self._known(cues)):
            _, known, _ = view.links.of(rows, view.window)
            known = np.unique(known)
            own = known if allowed is None else known[holds(allowed, known)]
            found += self._scorer.score(cues.only(at), k, own)
        return found

    def _known(self, cues: Cues) -> list[Int64]:
        """Returns the memories that each cue was recognised as. Before ``fit`` vectors were not looked up yet."""
        known = list(cues.rows)
        unknown = [at for at, rows in enumerate(known) if not len(rows)]
        if unknown:
            cosine, near = self._view.similar.search(cues.given[unknown], 1, cues.among)
            for at, equal, row in zip(unknown, cosine >= SAME, near, strict=True):
                known[at] = row[equal]
        return known
