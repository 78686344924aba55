"""The arguments of a ``recall``, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pam_retriever.bank import Bank
from pam_retriever.channels import MODES, Channels, Mode
from pam_retriever.embedding import Embedder, read_question
from pam_retriever.errors import InvalidInput, NotFitted
from pam_retriever.fusion import FUSED
from pam_retriever.hops import Hops
from pam_retriever.jepa.store import Space, is_observed, no_encoder
from pam_retriever.limits import MAX_HOPS
from pam_retriever.types import Float32
from pam_retriever.validation import check_count, check_finite, check_positive, read_query


@dataclass(frozen=True)
class Request:
    """One call of ``recall``, checked; see there for what the settings mean.

    Attributes:
        query: as it was given, and
        space: the encoder of then, if it is observations.
        asked: the queries, each an id or a row of (Q, d).
        batch: whether several were asked.
        texts: the queries in words, where the words count for themselves.
        mode: one of ``MODES``.
        channels: their weights.
        believing: neither mode nor channels ask for anything but what the predictor, the links and their
            trust say together, if there is trust.
        way: how many hops, and how.
        now: None for the newest timestamp in the index.
    """

    query: Any
    space: Space | None
    asked: list[str] | Float32
    batch: bool
    texts: list[str] | None
    mode: Mode
    channels: Channels
    believing: bool
    way: Hops
    k: int | None
    min_score: float | None
    where: Mapping[str, Any] | None
    decay: float | None
    now: float | None
    faithful: bool
    explain: bool

    def queries(self, bank: Bank) -> list[str] | Float32:
        """The queries; observations are encoded again if the encoder has moved since."""
        if not is_observed(self.query) or bank.space is self.space:
            return self.asked
        asked, _ = read_query(_encode(self.query, bank.space), bank.dim)
        return asked


def read_request(
    bank: Bank,
    embedder: Embedder | None,
    embedded_with: str | None,
    query: Any,
    k: int | None,
    mode: Mode | None,
    hops: int,
    channels: Channels | None,
    *,
    text: str | Sequence[str] | None,
    fan_out: int,
    beam: int,
    snap: bool,
    min_score: float | None,
    where: Mapping[str, Any] | None,
    decay: float | None,
    now: float | None,
    faithful: bool,
    explain: bool,
) -> Request:
    """Checks all but what depends on the memories; see ``PredictiveAssociativeIndex.recall``.

    Raises:
        InvalidInput, NotFitted: of the arguments.
    """
    mode = mode or ("association" if text is None else "hybrid")
    if mode not in MODES:
        raise InvalidInput(f"Got mode={mode!r}.", f"one of {list(MODES)}", "Use 'hybrid' if in doubt.")
    space = bank.space
    asked, texts, batch = read_question(_encode(query, space), text, mode, embedder, bank.dim, embedded_with)
    weights = _read_channels(mode, channels, texts is not None, bank.predictor is not None)
    way = Hops(check_count("hops", hops, MAX_HOPS), check_count("fan_out", fan_out), check_count("beam", beam), snap)
    _check_way(way, k, weights, faithful, words=texts is not None)
    min_score = None if min_score is None else check_finite("min_score", min_score)
    return Request(
        query,
        space,
        asked,
        batch,
        texts,
        mode,
        weights,
        believing=mode == "association" and channels is None,
        way=way,
        k=_read_k(k, min_score),
        min_score=min_score,
        where=where,
        decay=_read_decay(decay, now),
        now=now,
        faithful=faithful,
        explain=explain,
    )


def _encode(query: Any, space: Space | None) -> Any:
    """A query as ids or vectors, with observations encoded."""
    if not is_observed(query):
        return query
    if space is None:
        raise no_encoder("the query")
    one = isinstance(query, Mapping)
    states = space.encoder.encode(space.read([query] if one else query, "the query"))
    return states[0] if one else states


def _read_channels(mode: Mode, channels: Channels | None, fused: bool, fitted: bool) -> Channels:
    if fused and channels is None:
        return FUSED if fitted else Channels(similarity=1)
    weights = channels or MODES[mode]
    if weights.association and not fitted:
        raise NotFitted(
            "Association was asked of an index that was never fitted.",
            "a fitted index",
            "Call fit(trajectories) first; search() works without.",
        )
    return weights


def _check_way(way: Hops, k: int | None, weights: Channels, faithful: bool, words: bool) -> None:
    """Refuses what cannot be done in several hops, or with a text."""
    if words and (k is None or way.count > 1):
        raise InvalidInput(
            f"Got k={k} and hops={way.count} with a text in mode 'hybrid'.", "a k, and hops=1", "Use another mode."
        )
    if way.count == 1:
        return
    if k is None:
        raise InvalidInput("Got k=None.", "min_score, and hops=1, with it", "Pass k or min_score.")
    if not weights.association:
        raise InvalidInput(f"Got hops={way.count} without association.", "hops=1", "Use mode='association'.")
    if faithful and not way.snap:
        raise InvalidInput("Got faithful=True with snap=False.", "one of them", "A predicted point met nobody.")


def _read_k(k: int | None, min_score: float | None) -> int | None:
    if k is not None:
        return check_count("k", k)
    if min_score is None:
        raise InvalidInput("Got k=None.", "min_score, and hops=1, with it", "Pass k or min_score.")
    return None


def _read_decay(decay: float | None, now: float | None) -> float | None:
    if decay is not None:
        return check_positive("decay", decay)
    if now is not None:
        raise InvalidInput(f"Got now={now!r} without decay.", "both", "Pass decay=..., a half-life.")
    return None
