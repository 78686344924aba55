"""From a question to hits: which memories may answer, what they contain, what proves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pam_retriever.bank import Bank
from pam_retriever.channels import Channels
from pam_retriever.errors import UnknownId
from pam_retriever.forgetting import Decay, faded, fading
from pam_retriever.hops import Hops, follow
from pam_retriever.recall import Cues, Found, complete_cues, look_up, plain_cues, stored_cues
from pam_retriever.training import predict
from pam_retriever.types import Evidence, Float32, Hit, Int64


class Asking:
    """One call of ``recall``, its settings checked; see there for what they mean."""

    def __init__(
        self,
        bank: Bank,
        channels: Channels,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        faithful: bool = False,
        complete: bool = True,
        intersect: bool = False,
        decay: Decay | None = None,
    ) -> None:
        self._bank, self._channels = bank, channels
        self._min_score, self._faithful = min_score, faithful
        self._complete, self._intersect, self._decay = complete, intersect, decay
        self._allowed = None if where is None else bank.documents.rows_where(where)
        associative = bank.associative if channels.association else None
        self._backend = bank.similar if associative is None else associative

    def answer(self, asked: list[str] | Float32, k: int | None, hops: Hops, explain: bool) -> list[list[Hit]]:
        """The hits of each query, which is an id or a row of (Q, d)."""
        cues = self.read_cues(asked)
        if hops.count == 1 or k is None:
            found = self._step(cues, k)
        else:
            bank = self._bank
            step, unfamiliar = self._step, bank.unfamiliar
            found = follow(
                cues, self._channels, self._backend, k, hops, step, bank.predict, unfamiliar, recognise=self._complete
            )
        return self.to_hits(cues, found, explain)

    def read_cues(self, asked: list[str] | Float32) -> Cues:
        """The queries, each an id or a row of (Q, d), as cues."""
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
            return self._look_up(cues, k, self._allowed)
        found = []
        for at in range(len(cues)):  # each cue may only be answered by its own associates
            known = self._bank.documents.associates(cues.rows[at], self._bank.window)
            allowed = known if self._allowed is None else np.intersect1d(known, self._allowed)
            found += self._look_up(cues.only(at), k, allowed)
        return found

    def _look_up(self, cues: Cues, k: int | None, allowed: Int64 | None) -> list[Found]:
        def plain(pool: int | None) -> list[Found]:
            return look_up(
                cues,
                self._channels,
                self._backend,
                pool,
                min_score=self._min_score,
                allowed=allowed,
                intersect=self._intersect,
            )

        return plain(k) if self._decay is None else faded(plain, k, self._fade, self._min_score)

    def _fade(self, rows: Int64) -> Float32:
        assert self._decay
        times = self._bank.documents.last_times(rows)
        return fading(times, self._decay.now, self._decay.half_life)

    def to_hits(self, cues: Cues, found: list[Found], explain: bool) -> list[list[Hit]]:
        """What was found, with its contents and, to explain it, its evidence."""
        rows = [answer.rows for answer in found] + [a.paths[a.paths >= 0] for a in found if a.paths is not None]
        contents = self._bank.documents.contents(np.concatenate(rows))
        hits = []
        for at, answer in enumerate(found):
            count = len(answer.rows)
            paths = [[row for row in path if row >= 0] for path in _lists(answer.paths, count)]
            evidence: list[tuple[Evidence, ...] | None] = [None] * count
            if explain:
                evidence = [*self._occasions(cues.rows[at], answer.rows.tolist(), paths)]
            association = answer.association
            columns = zip(
                answer.rows.tolist(),
                answer.scores.tolist(),
                answer.similarity.tolist(),
                [None] * count if association is None else association.tolist(),
                answer.hops.tolist(),
                evidence,
                [tuple(contents[row][0] for row in path) for path in paths],
                strict=True,
            )
            hits.append([_hit(*contents[row], *rest) for row, *rest in columns])
        return hits

    def _occasions(self, cue: Int64, ends: list[int], paths: list[list[int]]) -> list[tuple[Evidence, ...]]:
        """For each hit, where the two ends of each step of its path were experienced together."""
        documents, window = self._bank.documents, self._bank.window
        direct = documents.meetings(cue, window)
        # one look-up for each memory that some path goes through
        onward = {
            row: documents.meetings(np.array([row]), window) for row in sorted({r for path in paths for r in path})
        }
        proofs = []
        for end, path in zip(ends, paths, strict=True):
            steps = [direct, *(onward[row] for row in path)]
            targets = [*path, end]
            proofs.append(
                tuple(
                    replace(occasion, hop=hop)
                    for hop, (meetings, target) in enumerate(zip(steps, targets, strict=True), start=1)
                    for occasion in meetings.get(target, ())
                )
            )
        return proofs


def _lists(paths: Int64 | None, count: int) -> list[list[int]]:
    return [[]] * count if paths is None else paths.tolist()


def _hit(
    id: str,
    text: str | None,
    metadata: str,
    score: float,
    similarity: float,
    association: float | None,
    hop: int,
    evidence: tuple[Evidence, ...] | None,
    path: tuple[str, ...],
) -> Hit:
    # metadata are parsed for each hit, so that a caller who changes one changes no other
    return Hit(id, score, text, json.loads(metadata), similarity, association, hop, evidence, path)
