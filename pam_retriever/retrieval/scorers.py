"""Chooses how a recall is answered, and builds the scorer for it.

A scorer is imported where it is built, so that the first search of a process loads only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.model.keys import MODES, Channels
from pam_retriever.model.noise import SAME
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.channels import ChannelScorer, DirectedChannelScorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.decay import Decay, DecayScorer, read_now
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.query import Query, RecallSettings
from pam_retriever.retrieval.sources import check_without
from pam_retriever.retrieval.timeline import QuestionTimes
from pam_retriever.store.view import View
from pam_retriever.types import Int64

if TYPE_CHECKING:
    from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence

SIMILARITY = MODES["similarity"]


class Strategy(Enum):
    """What answers a recall.

    Attributes:
        PAST_USE: the mixture of all evidence, with past requests.
        MENTIONS: before ``fit``, mentions of a stored memory, and then its links.
        LINKS: before ``fit``, links alone.
        CALIBRATED: links and the predictor, as ``fit`` calibrated them.
        WORDS: words, and channels with fixed weights.
        CHANNELS: channels with fixed weights.
    """

    PAST_USE = "past use"
    MENTIONS = "mentions"
    LINKS = "links"
    CALIBRATED = "calibrated"
    WORDS = "words"
    CHANNELS = "channels"


@dataclass(frozen=True)
class Recall:
    """One recall: the queries, the settings, and the evidence that may answer.

    Attributes:
        view: a view of the index, in the direction of the settings.
        settings: checked.
        query: the queries.
        lexicon: the words of the index.
        times: the times of the memories, and that of the question.
        feedback: past requests; None if this recall does not use them, or if there are none.
    """

    view: View
    settings: RecallSettings
    query: Query
    lexicon: Lexicon
    times: QuestionTimes
    feedback: FeedbackEvidence | None = None

    @property
    def strategy(self) -> Strategy:
        """What answers this recall."""
        settings, view, query = self.settings, self.view, self.query
        if self.feedback is not None:
            return Strategy.PAST_USE
        if view.predictor is None and query.stored and settings.hops.count == 1 and self.follows_mentions:
            return Strategy.MENTIONS
        if view.predictor is None and settings.asks_links(query.worded, view.links.memories > 0):
            return Strategy.LINKS
        if view.calibration is not None and settings.associative:
            return Strategy.CALIBRATED
        return Strategy.WORDS if query.worded else Strategy.CHANNELS

    @property
    def follows_mentions(self) -> bool:
        """Whether mentions answer for a stored memory: before ``fit`` for any, after it for one without experience."""
        return self.settings.associative and self.settings.direction is None and self.view.database.mentions.known

    @property
    def fills(self) -> bool:
        """Whether similar memories follow the linked ones. Similarity has no direction."""
        return self.settings.evidence == "all" and self.settings.direction is None


def scorer_of(recall: Recall) -> tuple[Scorer, Channels]:
    """Returns the scorer of a recall, and the channels whose keys its cues need.

    Raises:
        InvalidInput: the settings do not fit the strategy.
        NotFitted: the settings need a ``fit``.
    """
    strategy, settings = recall.strategy, recall.settings
    if strategy in (Strategy.PAST_USE, Strategy.MENTIONS, Strategy.LINKS):
        return _around(BEFORE_FIT[strategy](recall), recall), SIMILARITY
    channels = settings.weights(recall.query.worded, recall.view.predictor is not None)
    step = _around(_one_hop(recall, strategy, channels, recall.query.stored), recall)
    if settings.hops.count == 1:
        return step, channels
    from pam_retriever.retrieval.multihop import ContinuumScorer, MultihopScorer

    # a calibrated step has the probabilities of recall; the path has the scores of the plain channels
    of_path = MODES["association"] if strategy is Strategy.CALIBRATED else channels
    later = _around(_one_hop(recall, strategy, channels, False), recall)
    steps, hops = (step, later), settings.hops
    if hops.snap:
        return MultihopScorer(steps, recall.view, of_path, hops, settings.mode != "hybrid"), channels
    return ContinuumScorer(steps, recall.view, of_path, hops), channels


def _around(scorer: Scorer, recall: Recall) -> Scorer:
    """Wraps a scorer as ``decay`` and ``faithful`` require."""
    view, settings = recall.view, recall.settings
    if settings.decay is not None:
        decay = Decay(settings.decay, read_now(view.database, settings.now, f"decay={settings.decay}"))
        scorer = DecayScorer(scorer, view.database, decay, settings.min_score)
    return FaithfulScorer(scorer, view) if settings.faithful else scorer


def _by_past_use(recall: Recall) -> Scorer:
    """Returns the scorer of past requests. A cue without words has other evidence before ``fit``, too."""
    from pam_retriever.retrieval.first_mentions import MENTIONED
    from pam_retriever.retrieval.linked import EXPERIENCE, SOURCES, TOGETHER, LinkScorer
    from pam_retriever.retrieval.mixture.scorer import MixtureScorer

    view, settings, without = recall.view, recall.settings, frozenset(recall.settings.without)
    assert recall.feedback is not None
    if recall.query.worded:
        return MixtureScorer(view, recall.feedback, settings.min_score, without, recall.times, worded=True)
    from pam_retriever.retrieval.before_fit import BeforeFitScorer
    from pam_retriever.retrieval.mentioned import MentionScorer

    use = MixtureScorer(view, recall.feedback, None, without, recall.times, SOURCES)
    links = mentions = None
    if view.links.memories and EXPERIENCE not in without:
        known = without & frozenset(SOURCES) if recall.fills else frozenset()
        links = LinkScorer(view, recall.fills, None, known, None if TOGETHER in without else use)
    if recall.query.stored and recall.follows_mentions and MENTIONED not in without:
        mentions = MentionScorer(view, recall.lexicon)
    ranks_links = recall.fills and TOGETHER not in without
    return BeforeFitScorer(links, mentions, use, view, settings.min_score, ranks_links)


def _by_mentions(recall: Recall) -> Scorer:
    from pam_retriever.retrieval.first_mentions import MENTIONED, InTurnScorer
    from pam_retriever.retrieval.linked import SOURCES, LinkScorer
    from pam_retriever.retrieval.mentioned import MentionScorer

    view, min_score = recall.view, recall.settings.min_score
    of_links = frozenset(SOURCES if recall.fills else SOURCES[:1])
    without = check_without(frozenset(recall.settings.without), (*sorted(of_links), MENTIONED))
    if MENTIONED in without:
        return LinkScorer(view, recall.fills, min_score, without & of_links)
    links = None if of_links <= without else LinkScorer(view, recall.fills, None, without)
    return InTurnScorer(MentionScorer(view, recall.lexicon), links, min_score)


def _by_links(recall: Recall) -> Scorer:
    from pam_retriever.retrieval.linked import LinkScorer

    return LinkScorer(recall.view, recall.fills, recall.settings.min_score, frozenset(recall.settings.without))


BEFORE_FIT: dict[Strategy, Callable[[Recall], Scorer]] = {
    Strategy.PAST_USE: _by_past_use,
    Strategy.MENTIONS: _by_mentions,
    Strategy.LINKS: _by_links,
}


def _one_hop(recall: Recall, strategy: Strategy, channels: Channels, stored: bool) -> Scorer:
    """Returns the scorer of one hop, from ``stored`` memories or from other cues."""
    view, settings, without = recall.view, recall.settings, frozenset(recall.settings.without)
    several = settings.hops.count > 1
    if several or strategy is Strategy.CHANNELS:
        check_without(without, ())
    if strategy is Strategy.CALIBRATED:
        from pam_retriever.retrieval.association import AssociationScorer
        from pam_retriever.retrieval.mentioned import MentionScorer

        mentions = MentionScorer(view, recall.lexicon) if stored and recall.follows_mentions else None
        explain = settings.explain and not several
        return AssociationScorer(view, settings.min_score, several, without, explain, mentions)
    if strategy is Strategy.WORDS:
        from pam_retriever.retrieval.hybrid import HybridScorer

        return HybridScorer(view, recall.lexicon, channels, settings.min_score, recall.times, without)
    intersect = settings.mode == "specific"
    if view.links.direction is not None:
        return DirectedChannelScorer(view, channels, settings.min_score, intersect)
    return ChannelScorer(view.index_of(channels), channels, settings.min_score, intersect)


class FaithfulScorer:
    """Keeps only the hits that were experienced with the cue.

    A vector stands for the stored memories to which it was completed; before ``fit``, for the one that equals it.

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
