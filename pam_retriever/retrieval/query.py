"""The arguments of ``recall``, parsed and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from pam_retriever.errors import InvalidInput, NotFitted
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.limits import MAX_HOPS, MAX_PATHS
from pam_retriever.model.keys import MODES, Channels, Mode
from pam_retriever.retrieval.sources import read_without
from pam_retriever.types import Direction, Float32, Time
from pam_retriever.validation import check_count, check_finite, check_flag, check_positive

if TYPE_CHECKING:
    from pam_retriever.retrieval.timeline import Interval

FUSED = Channels(similarity=1.0, forward=0.1, reverse=0.1, mutual=0.1)  # with the words of a question
FAN_OUT, BEAM = 20, 20
EvidenceKind = Literal["all", "mode", "channels"]


@dataclass(frozen=True)
class Hops:
    """The settings of a multi-hop recall.

    Attributes:
        count: number of hops, at least 1.
        fan_out: hits per memory on a path.
        beam: paths of a query that are continued, which bounds the look-ups per hop.
        snap: whether a hop ends at stored memories, where the next one starts. Otherwise the next hop starts at the
            predicted point: one path per query, in the continuum.
    """

    count: int = 1
    fan_out: int = FAN_OUT
    beam: int = BEAM
    snap: bool = True


def _checked_hops(hops: Hops) -> Hops:
    """Returns checked settings of hops.

    Raises:
        InvalidInput: a setting is invalid, or would be ignored, since there is one hop.
    """
    checked = Hops(
        check_count("hops", hops.count, MAX_HOPS),
        check_count("fan_out", hops.fan_out, MAX_PATHS),
        check_count("beam", hops.beam, MAX_PATHS),
        check_flag("snap", hops.snap),
    )
    if checked.count == 1 and checked != Hops():
        given = f"fan_out={checked.fan_out}, beam={checked.beam} and snap={checked.snap}"
        raise InvalidInput(f"Got {given} with hops=1.", "hops=2 or more with them", "Pass hops, or leave them out.")
    return checked


@dataclass(frozen=True)
class RecallSettings:
    """The settings of a recall; see ``PredictiveAssociativeIndex.recall`` for each.

    Attributes:
        k: number of hits; None for all that reach ``min_score``.
        mode: one of ``MODES``; None for "hybrid" or "association", with or without a text.
        channels: weights from the caller; None for the weights of the mode.
        hops: number of hops, and their settings.
        min_score: smallest score.
        where: metadata filter.
        decay: half-life of scores; None for no decay.
        now: the time from which ages are counted, None for the newest timestamp in the index. Also the time to which
            words such as "yesterday" refer, None for the clock.
        faithful: return only memories that were experienced with the cue.
        explain: fill ``Hit.evidence``.
        feedback_where: metadata filter of the feedback to use.
        cue_where: filter of the memories that a query may be or be completed to; None for ``where``, {} for all.
        evidence: set by ``checked``: "all" without a mode and weights, "mode" with a mode, "channels" with weights.
        when: return only memories of this time.
        without: names of the sources of evidence to leave out.
        direction: count only links to memories after, or before, the cue; None for both.
    """

    k: int | None = 10
    mode: Mode | None = None
    channels: Channels | None = None
    hops: Hops = field(default_factory=Hops)
    min_score: float | None = None
    where: Mapping[str, Any] | None = None
    decay: float | None = None
    now: Time | None = None
    faithful: bool = False
    explain: bool = False
    feedback_where: Mapping[str, Any] | None = None
    cue_where: Mapping[str, Any] | None = None
    evidence: EvidenceKind = "all"
    when: Interval | None = None
    without: Collection[str] = ()
    direction: Direction | None = None

    def checked(self, words: bool) -> RecallSettings:
        """Returns checked settings with a mode, for a question with or without ``words``.

        Raises:
            InvalidInput: a setting is invalid.
        """
        mode = ("hybrid" if words else "association") if self.mode is None else self.mode
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidInput(f"Got mode={mode!r}.", f"one of {list(MODES)}", "Use 'hybrid' if in doubt.")
        if self.k is None and self.min_score is None:
            raise InvalidInput("Got k=None.", "min_score, and hops=1, with it", "Pass k or min_score.")
        self._check_now(words and mode == "hybrid")
        self._check_when()
        self._check_feedback(words and mode == "hybrid")
        self._check_direction(mode)
        if self.channels is not None and not isinstance(self.channels, Channels):
            raise InvalidInput(f"Got channels={self.channels!r}.", "Channels(...)", "Leave it out if in doubt.")
        return replace(
            self,
            k=None if self.k is None else check_count("k", self.k),
            mode=mode,
            hops=_checked_hops(self.hops),
            min_score=None if self.min_score is None else check_finite("min_score", self.min_score),
            decay=None if self.decay is None else check_positive("decay", self.decay),
            evidence=self._kind(),
            faithful=check_flag("faithful", self.faithful),
            explain=check_flag("explain", self.explain),
            without=read_without(self.without),
        )

    def of_time_alone(self) -> RecallSettings:
        """Returns checked settings for ``when`` without a query.

        Raises:
            InvalidInput: a setting needs a query.
        """
        k = None if self.k is None else check_count("k", self.k)
        self._check_when()
        if self.now is not None:
            read_timestamp(self.now)
            if not isinstance(self.now, date):
                raise InvalidInput(
                    f"Got now={self.now!r} beside when= alone.", "a date or datetime", "Leave it out for the clock."
                )
        plain = RecallSettings(k, where=self.where, now=self.now, explain=self.explain, when=self.when)
        if replace(self, k=k) != plain:
            raise InvalidInput(
                "Got when= without a query, beside an argument that needs one.",
                "k, where, now and explain alone",
                "Pass a query or text=..., or leave the argument out.",
            )
        return replace(plain, mode="similarity", explain=check_flag("explain", self.explain))

    def _check_now(self, words: bool) -> None:
        """Refuses a ``now`` that is no time, or that no setting uses."""
        if self.now is None:
            return
        read_timestamp(self.now)
        if self.decay is None and not (isinstance(self.now, date) and (words or self.when is not None)):
            raise InvalidInput(
                f"Got now={self.now!r} without decay.",
                "both, or a date or datetime beside when= or a question in words",
                "Pass decay=..., a half-life.",
            )

    def _check_when(self) -> None:
        """Refuses a datetime without a time: NaT of pandas."""
        for bound in self.when if isinstance(self.when, tuple) else (self.when,):
            if isinstance(bound, datetime):
                read_timestamp(bound)

    def _check_direction(self, mode: Mode) -> None:
        """Refuses a direction for a mode without one."""
        if check_direction(self.direction) is None:
            return
        if not (self.channels or MODES[mode]).association:
            raise InvalidInput(
                f"Got direction={self.direction!r} for similarity alone.",
                "association, which has a direction",
                "Use another mode, or leave direction out.",
            )
        if not self.hops.snap:
            raise InvalidInput(
                f"Got direction={self.direction!r} with snap=False.",
                "one of them",
                "A predicted point came neither after nor before.",
            )

    def _check_feedback(self, words: bool) -> None:
        """Refuses a filter of feedback for a mode that uses none."""
        if not isinstance(self.feedback_where, Mapping | None):
            raise InvalidInput(f"Got feedback_where={self.feedback_where!r}.", "a dict", 'Use {"user": "ann"}.')
        queries = self.mode in (None, "association") and self._kind() != "channels" and self.hops.count == 1
        if self.feedback_where is not None and self.direction is not None and not words:
            raise InvalidInput(
                f"Got feedback_where={self.feedback_where!r} with direction={self.direction!r} and no words.",
                "one of them: feedback has no direction",
                "Leave one out.",
            )
        if self.feedback_where is not None and not queries:
            raise InvalidInput(
                f"Got feedback_where={self.feedback_where!r} with mode={self.mode!r} and hops={self.hops.count}"
                f"{' and channels' if self._kind() == 'channels' else ''}.",
                "the default recall, which uses feedback",
                "Leave out mode, channels and hops, or feedback_where.",
            )

    def _kind(self) -> EvidenceKind:
        """Returns which evidence these arguments ask for, before ``mode`` is filled in."""
        if self.channels is not None:
            return "channels"
        return "all" if self.mode is None else "mode"

    @property
    def associative(self) -> bool:
        """Whether association is asked for, with the weights that ``fit`` calibrates."""
        return self.mode == "association" and self.evidence != "channels"

    def asks_use(self, words: bool, fitted: bool) -> bool:
        """Whether past requests are used: by default for queries with words, or if nothing else was learnt."""
        if self.hops.count > 1 or self.evidence == "channels":
            return False
        if self.direction is not None and not words:  # a use has no direction
            return False
        return (self.evidence == "all" and (words or not fitted)) or (self.mode == "association" and not fitted)

    def asks_links(self, words: bool, linked: bool) -> bool:
        """Whether links answer before ``fit``: by default for queries without words, else if there are links."""
        return not words and self.associative and self.hops.count == 1 and (self.evidence == "all" or linked)

    def weights(self, words: bool, fitted: bool) -> Channels:
        """Returns the weights of the channels, for a question with or without ``words``.

        Raises:
            NotFitted: the mode needs association, and the index has no predictor.
            InvalidInput: the setting does not work with several hops, or with words.
        """
        if words and self.evidence != "channels":
            weights = FUSED if fitted else MODES["similarity"]
        else:
            weights = self.channels or MODES[self.mode or "hybrid"]
        if weights.association and not fitted:
            given = f"channels={self.channels!r}" if self.evidence == "channels" else f"mode={self.mode!r}"
            given += f" and hops={self.hops.count}" if self.hops.count > 1 else ""
            raise NotFitted(
                f"Got {given} on an index that was never fitted.",
                "a fitted index",
                "Call fit(trajectories) first; search() works without.",
            )
        self._check_hops(weights, words)
        return weights

    def _check_hops(self, weights: Channels, words: bool) -> None:
        if words and self.hops.count > 1:
            raise InvalidInput(
                f"Got hops={self.hops.count} for a question in words.",
                "hops=1: words are found in one step",
                "Leave hops out, or pass mode='association', which uses the text's vector alone.",
            )
        if self.hops.count == 1:
            return
        if self.k is None:
            raise InvalidInput("Got k=None.", "min_score, and hops=1, with it", "Pass k or min_score.")
        if not weights.association:
            raise InvalidInput(f"Got hops={self.hops.count} without association.", "hops=1", "Use mode='association'.")
        if self.faithful and not self.hops.snap:
            raise InvalidInput(
                "Got faithful=True with snap=False.", "one of them", "A predicted point has no experience."
            )


@dataclass(frozen=True)
class Query:
    """The queries of a recall.

    Attributes:
        queries: the queries, each an id or a row of (Q, d).
        texts: the texts of the queries, if their words are searched.
        batch: whether the caller gave a list.
    """

    queries: list[str] | Float32
    texts: list[str] | None
    batch: bool

    @property
    def worded(self) -> bool:
        """Whether the words of the queries are searched."""
        return self.texts is not None

    @property
    def stored(self) -> bool:
        """Whether the queries are stored memories."""
        return isinstance(self.queries, list)


def check_direction(direction: object) -> Direction | None:
    """Checks a direction of links.

    Raises:
        InvalidInput: the value is no direction.
    """
    if direction is None or (isinstance(direction, str) and direction in get_args(Direction)):
        return cast("Direction | None", direction)
    raise InvalidInput(f"Got direction={direction!r}.", "'after', 'before' or None", "None is for both.")
