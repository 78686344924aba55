"""From a question to hits: which memories may answer, what they contain, what proves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pam_retriever.bank import Bank
from pam_retriever.belief import believe
from pam_retriever.channels import MODES, Channels
from pam_retriever.errors import UnknownId
from pam_retriever.recall import Cues, Found, complete_cues, follow, look_up, plain_cues, stored_cues, trusted_cues
from pam_retriever.training import predict
from pam_retriever.types import Evidence, Float32, Hit, Int64


class Asking:
    """One call of ``recall``, its settings checked; see there for what they mean.

    Args:
        bank: what is asked.
        channels: weights of a plain look-up; None for what the predictor, the links and their trust say together.
        where: metadata filter.
        min_score: smallest score.
        faithful: only what was experienced with the cue.
        complete: take a vector for a view of a memory, however many it may be a view of.
        intersect: both similarity and association are needed.
    """

    def __init__(
        self,
        bank: Bank,
        channels: Channels | None,
        where: Mapping[str, Any] | None,
        min_score: float | None,
        faithful: bool,
        complete: bool,
        intersect: bool,
    ) -> None:
        self._bank, self._channels = bank, channels
        self._min_score, self._faithful = min_score, faithful
        self._complete, self._intersect = complete, intersect
        self._allowed = None if where is None else bank.documents.rows_where(where)
        associative = bank.associative if channels is None or channels.association else None
        self._backend = bank.similar if associative is None else associative

    def answer(self, asked: list[str] | Float32, k: int | None, hops: int, explain: bool) -> list[list[Hit]]:
        """The hits of each query, which is an id or a row of (Q, d)."""
        cues, plain = self._read_cues(asked)
        if hops == 1 or k is None:
            found = self._step(cues, plain, k)
        else:
            channels = self._channels or MODES["association"]
            onward: list[Cues] = [plain]  # the first step may be from a cue that is no memory

            def step(stored: Cues, fan_out: int) -> list[Found]:
                return self._step(stored, onward.pop() if onward else stored, fan_out)

            found = follow(cues, channels, self._backend, k, hops, step)
        return self._to_hits(cues, found, explain)

    def _read_cues(self, asked: list[str] | Float32) -> tuple[Cues, Cues]:
        """The cues, completed so far as the mode asks for, and as they are."""
        bank = self._bank
        if isinstance(asked, list):
            known = bank.documents.rows_of(asked)
            unknown = [id for id in asked if id not in known]
            if unknown:
                raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", "Pass vectors instead.")
            rows = np.array([known[id] for id in asked], np.int64)
            stored = stored_cues(self._backend.keys(rows), rows, bank.dim)
            return stored, stored
        if bank.associative is None or bank.predictor is None or self._backend is bank.similar:
            plain = plain_cues(asked)
            return plain, plain
        plain = plain_cues(asked, predict(bank.predictor, asked))
        completed = complete_cues(asked, bank.similar, bank.associative)
        return (completed if self._complete else trusted_cues(completed, plain)), plain

    def _step(self, cues: Cues, plain: Cues, k: int | None) -> list[Found]:
        if not self._faithful:
            return self._find(cues, plain, k, self._allowed)
        found = []
        for at in range(len(cues)):  # each cue may only be answered by its own associates
            _, known, _ = self._bank.links.of(cues.rows[at], self._bank.window)
            known = np.unique(known)
            allowed = known if self._allowed is None else np.intersect1d(known, self._allowed)
            found += self._find(cues.only(at), plain.only(at), k, allowed)
        return found

    def _find(self, cues: Cues, plain: Cues, k: int | None, allowed: Int64 | None) -> list[Found]:
        if self._channels is None:
            return believe(cues, plain, self._bank.knowledge(), k, allowed, self._min_score)
        return self._look_up(cues, k, allowed)

    def _look_up(self, cues: Cues, k: int | None, allowed: Int64 | None) -> list[Found]:
        assert self._channels
        return look_up(
            cues,
            self._channels,
            self._backend,
            k,
            min_score=self._min_score,
            allowed=allowed,
            intersect=self._intersect,
        )

    def _to_hits(self, cues: Cues, found: list[Found], explain: bool) -> list[list[Hit]]:
        contents = self._bank.documents.contents(np.concatenate([answer.rows for answer in found]))
        hits = []
        for at, answer in enumerate(found):
            evidence: list[tuple[Evidence, ...] | None] = [None] * len(answer.rows)
            if explain:
                meetings = self._bank.documents.meetings(cues.rows[at], self._bank.window)
                evidence = [tuple(meetings.get(row, ())) for row in answer.rows.tolist()]
            association = answer.association
            columns = zip(
                answer.rows.tolist(),
                answer.scores.tolist(),
                answer.similarity.tolist(),
                [None] * len(answer.rows) if association is None else association.tolist(),
                answer.hops.tolist(),
                evidence,
                [None] * len(answer.rows) if answer.confidence is None else answer.confidence.tolist(),
                strict=True,
            )
            hits.append([_hit(*contents[row], *rest) for row, *rest in columns])
        return hits


def _hit(
    id: str,
    text: str | None,
    metadata: str,
    score: float,
    similarity: float,
    association: float | None,
    hop: int,
    evidence: tuple[Evidence, ...] | None,
    confidence: float | None,
) -> Hit:
    # metadata are parsed for each hit, so that a caller who changes one changes no other
    return Hit(id, score, text, json.loads(metadata), similarity, association, hop, evidence, confidence)
