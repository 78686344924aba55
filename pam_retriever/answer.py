"""From a question to hits: which memories may answer, what they contain, what proves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pam_retriever.bank import Bank
from pam_retriever.belief import believe
from pam_retriever.channels import MODES, Channels
from pam_retriever.errors import EmptyIndex, UnknownId
from pam_retriever.forgetting import Decay, faded, fading, read_now
from pam_retriever.fusion import Fused, fuse
from pam_retriever.hops import Hops, by_confidence, follow
from pam_retriever.prediction import predict
from pam_retriever.recall import Cues, Found, complete_cues, look_up, plain_cues, stored_cues, trusted_cues
from pam_retriever.request import Request
from pam_retriever.selection import holds
from pam_retriever.storage.columns import from_json
from pam_retriever.types import Evidence, Float32, Hit, Int64


def answer(bank: Bank, request: Request) -> list[list[Hit]]:
    """The hits of each query of a ``recall``. Nobody may write meanwhile.

    Raises:
        EmptyIndex, InvalidInput, UnknownId: of what the request asks for in this bank.
    """
    asked = request.queries(bank)
    if not len(bank.similar):
        raise EmptyIndex("The index is empty.", "at least one memory", "Call add() first.")
    believing = request.believing and bank.trust is not None
    asking = Asking(
        bank,
        None if believing else request.channels,
        request.where,
        request.min_score,
        request.faithful,
        complete=request.mode != "hybrid",
        intersect=request.mode == "specific",
        texts=request.texts,
        decay=None if request.decay is None else Decay(request.decay, read_now(bank.documents, request.now)),
    )
    return asking.answer(asked, request.k, request.way, request.explain)


class Asking:
    """What a question may be answered with, and how; see ``recall`` for the settings.

    Args:
        bank: what is asked.
        channels: weights of a plain look-up; None for what the predictor, the links and their trust say together.
        where: metadata filter.
        min_score: smallest score.
        faithful: only what was experienced with the cue.
        complete: take a vector for a view of a memory, however many it may be a view of.
        intersect: both similarity and association are needed.
        texts: the queries in words.
        decay: scores fade so.
    """

    def __init__(
        self,
        bank: Bank,
        channels: Channels | None,
        where: Mapping[str, Any] | None = None,
        min_score: float | None = None,
        faithful: bool = False,
        complete: bool = True,
        intersect: bool = False,
        texts: list[str] | None = None,
        decay: Decay | None = None,
    ) -> None:
        self._bank, self._channels, self._texts = bank, channels, texts
        self._min_score, self._faithful = min_score, faithful
        self._complete, self._intersect, self._decay = complete, intersect, decay
        self._allowed = None if where is None else bank.documents.memories.rows_where(where)
        associative = bank.associative if channels is None or channels.association else None
        self._backend = bank.similar if associative is None else associative
        self._by_confidence = False  # a step of several counts by how sure it is

    def answer(self, asked: list[str] | Float32, k: int | None, hops: Hops, explain: bool) -> list[list[Hit]]:
        """The hits of each query, which is an id or a row of (Q, d)."""
        cues, plain = self.read_cues(asked)
        if hops.count == 1 or k is None:
            found = self._step(cues, plain, k)
        else:
            bank, channels = self._bank, self._channels or MODES["association"]
            self._by_confidence = self._channels is None
            found = follow(
                cues,
                plain,
                channels,
                self._backend,
                k,
                hops,
                self._step,
                bank.predict,
                bank.unfamiliar,
                recognise=self._complete,
            )
        return self.to_hits(cues, found, explain)

    def recalled(self, asked: list[str] | Float32, k: int) -> list[Found]:
        """The answers to each query as arrays, by one hop."""
        return self._step(*self.read_cues(asked), k)

    def read_cues(self, asked: list[str] | Float32) -> tuple[Cues, Cues]:
        """The queries, each an id or a row of (Q, d): completed so far as the mode asks for, and as they are."""
        bank = self._bank
        if isinstance(asked, list):
            known = bank.documents.memories.rows_of(asked)
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
            return self._find(cues, plain, self._texts, k, self._allowed)
        found: list[Found] = []
        for at in range(len(cues)):  # each cue may only be answered by its own associates
            _, known, _ = self._bank.links.of(cues.rows[at], self._bank.window)
            known = np.unique(known)
            allowed = known if self._allowed is None else known[holds(self._allowed, known)]
            texts = self._texts and self._texts[at : at + 1]
            found += self._find(cues.only(at), plain.only(at), texts, k, allowed)
        return found

    def _find(
        self, cues: Cues, plain: Cues, texts: list[str] | None, k: int | None, allowed: Int64 | None
    ) -> list[Found]:
        def find(pool: int | None) -> list[Found]:
            return self._look_up(cues, plain, texts, pool, allowed)

        return find(k) if self._decay is None else faded(find, k, self._fade, self._min_score)

    def _look_up(
        self, cues: Cues, plain: Cues, texts: list[str] | None, k: int | None, allowed: Int64 | None
    ) -> list[Found]:
        bank = self._bank
        if self._channels is None and self._by_confidence:
            found = believe(cues, plain, bank.knowledge(), k, allowed, None)
            return [by_confidence(answer, self._min_score) for answer in found]
        if self._channels is None:
            return believe(cues, plain, bank.knowledge(), k, allowed, self._min_score)
        if texts is not None and k is not None:
            return fuse(
                cues,
                texts,
                self._channels,
                bank.similar,
                self._backend,
                bank.lexicon,
                bank.links,
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

    def _fade(self, rows: Int64) -> Float32:
        assert self._decay
        times = self._bank.documents.trajectories.last_times(rows)
        return fading(times, self._decay.now, self._decay.half_life)

    def to_hits(self, cues: Cues, found: list[Found], explain: bool) -> list[list[Hit]]:
        """What was found, with its contents and, to explain it, its evidence."""
        rows = [answer.rows for answer in found] + [a.paths[a.paths >= 0] for a in found if a.paths is not None]
        contents = self._bank.documents.memories.contents(np.concatenate(rows))
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
                [None] * count if answer.confidence is None else answer.confidence.tolist(),
                answer.lexical.tolist() if isinstance(answer, Fused) else [None] * count,
                [tuple(contents[row][0] for row in path) for path in paths],
                strict=True,
            )
            hits.append([_hit(*contents[row], *rest) for row, *rest in columns])
        return hits

    def _occasions(self, cue: Int64, ends: list[int], paths: list[list[int]]) -> list[tuple[Evidence, ...]]:
        """For each hit, where the two ends of each step of its path were experienced together."""
        documents, window = self._bank.documents, self._bank.window
        direct = documents.trajectories.meetings(cue, window)
        # one look-up for each memory that some path goes through
        onward = {
            row: documents.trajectories.meetings(np.array([row]), window)
            for row in sorted({r for path in paths for r in path})
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
    confidence: float | None,
    lexical: float | None,
    path: tuple[str, ...],
) -> Hit:
    # metadata are parsed for each hit, so that a caller who changes one changes no other
    found = from_json(metadata, f"The metadata of {id!r}")
    return Hit(id, score, text, found, similarity, association, hop, evidence, confidence, lexical, path)
