"""From a question to hits: which memories may answer, what they contain, what proves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from pam_retriever.bank import Bank
from pam_retriever.channels import Channels
from pam_retriever.errors import UnknownId
from pam_retriever.fusion import Fused, fuse
from pam_retriever.recall import Cues, Found, complete_cues, follow, look_up, plain_cues, stored_cues
from pam_retriever.training import predict
from pam_retriever.types import Evidence, Float32, Hit, Int64


class Asking:
    """One call of ``recall``, its settings checked; see there for what they mean."""

    def __init__(
        self,
        bank: Bank,
        channels: Channels,
        where: Mapping[str, Any] | None,
        min_score: float | None,
        faithful: bool,
        complete: bool,
        intersect: bool,
        texts: list[str] | None = None,
    ) -> None:
        self._bank, self._channels = bank, channels
        self._min_score, self._faithful = min_score, faithful
        self._complete, self._intersect, self._texts = complete, intersect, texts
        self._allowed = None if where is None else bank.documents.rows_where(where)
        associative = bank.associative if channels.association else None
        self._backend = bank.similar if associative is None else associative

    def answer(self, asked: list[str] | Float32, k: int | None, hops: int, explain: bool) -> list[list[Hit]]:
        """The hits of each query, which is an id or a row of (Q, d)."""
        cues = self._read_cues(asked)
        if hops == 1 or k is None:
            found = self._step(cues, k)
        else:
            found = follow(cues, self._channels, self._backend, k, hops, self._step)
        return self._to_hits(cues, found, explain)

    def _read_cues(self, asked: list[str] | Float32) -> Cues:
        if isinstance(asked, list):
            known = self._bank.documents.rows_of(asked)
            unknown = [id for id in asked if id not in known]
            if unknown:
                raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", "Pass vectors instead.")
            rows = np.array([known[id] for id in asked], np.int64)
            return stored_cues(self._backend.keys(rows), rows, self._bank.dim)
        if self._bank.associative is None or self._bank.predictor is None or not self._channels.association:
            return plain_cues(asked)
        predicted = None if self._complete else predict(self._bank.predictor, asked)
        return complete_cues(asked, self._bank.similar, self._bank.associative, predicted)

    def _step(self, cues: Cues, k: int | None) -> list[Found]:
        if not self._faithful:
            return self._look_up(cues, self._texts, k, self._allowed)
        found: list[Found] = []
        for at in range(len(cues)):  # each cue may only be answered by its own associates
            known = self._bank.documents.associates(cues.rows[at], self._bank.window)
            allowed = known if self._allowed is None else np.intersect1d(known, self._allowed)
            found += self._look_up(cues.only(at), self._texts and self._texts[at : at + 1], k, allowed)
        return found

    def _look_up(self, cues: Cues, texts: list[str] | None, k: int | None, allowed: Int64 | None) -> list[Found]:
        if texts is not None and k is not None:
            return fuse(
                cues,
                texts,
                self._channels,
                self._bank.similar,
                self._backend,
                self._bank.lexicon,
                k,
                min_score=self._min_score,
                allowed=allowed,
            )
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
                answer.lexical.tolist() if isinstance(answer, Fused) else [None] * len(answer.rows),
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
    lexical: float | None,
) -> Hit:
    # metadata are parsed for each hit, so that a caller who changes one changes no other
    return Hit(id, score, text, json.loads(metadata), similarity, association, hop, evidence, lexical)
