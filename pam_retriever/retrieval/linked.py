"""Association before ``fit``: by the links of experience, which need no training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import among, union
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.second_step import UNFITTED, interpolated
from pam_retriever.experience.walk import FAN_OUT, walk
from pam_retriever.model.noise import SAME
from pam_retriever.model.scoring import LOOK_ALIKES, NEIGHBOURS, look_alike_mass
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.second_step import visible_links, visible_second_step
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Float32, Int64

EXPERIENCE, SIMILARITY = "experience", "similarity"  # the names of sources
TOGETHER = "used together"  # the name of the source of past requests
SOURCES = (EXPERIENCE, SIMILARITY)


@dataclass(frozen=True)
class Linked:
    """The memories that are linked to cues: pairs of the position of a cue and a row."""

    cue: Int64
    rows: Int64

    def only(self, at: int) -> Linked:
        """Returns the memories of one of the cues."""
        mine = self.cue == at
        return Linked(np.zeros(int(mine.sum()), np.int64), self.rows[mine])


class PastUse(Protocol):
    """Past requests: which memories they used, and answers that follow from them."""

    def score(self, cues: Cues, k: int | None, allowed: Rows | None, linked: Linked | None = None) -> list[Candidates]:
        """Answers cues from past requests, as a scorer. The memories ``linked`` to a cue rank before all others."""
        ...

    def recognised(self, cues: Cues) -> Int64:
        """Returns the row (Q,) of each cue that is a stored memory; -1 for the others."""
        ...

    def used(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (R,) served a request; False for row -1."""
        ...

    def used_with(self, rows: Int64, allowed: Rows | None) -> tuple[Links, Int64]:
        """Returns the shares (sum 1 each) of the memories that served the same requests as each of ``rows`` (R,).

        Also returns the number (R,) of these requests. Only ``allowed`` memories count; None for all.
        """
        ...


def _summed(linked: Int64, mass: Float32, use: Float32) -> tuple[Int64, Float32, Float32]:
    """Returns the distinct rows, sorted, and the sums of their masses and of their uses."""
    if not len(linked):  # mostly, if the cue is no memory
        return linked, mass, use
    rows, position = np.unique(linked, return_inverse=True)
    masses, uses = (np.bincount(position, each, len(rows)).astype(np.float32) for each in (mass, use))
    return rows, masses, uses


def _joined(rows: Int64, share: Float32, others: Int64, their_share: Float32) -> tuple[Int64, Float32]:
    """Returns the rows of both, sorted, and their shares; ``others`` are not among ``rows``."""
    every = np.concatenate([rows, others])
    order = np.argsort(every)
    return every[order], np.concatenate([share, their_share])[order]


def _in_order(found: Candidates, late: Int64) -> Candidates:
    """Returns the linked memories, then those of the sorted rows ``late``, then the memories that are only similar.

    The first hits are then the same as for a small ``k``, for which ``late`` are no candidates.
    """
    linked, after = found.hops > 0, among(late, found.rows)
    tiers = [found.at(np.flatnonzero(tier)).best(None, None) for tier in (linked & ~after, linked & after, ~linked)]
    return tiers[0].followed_by(tiers[1]).followed_by(tiers[2])


class LinkScorer:
    """Scores memories by their share of the links of a cue. If the cue is unknown, counts the links of its look-alikes.

    Args:
        view: a view of an index.
        fill: also answer by similarity. For a cue that is an experienced memory, a linked memory scores (1 + share) /
            2, and another one half its cosine, so that linked memories come first. For other cues all memories score
            their cosine.
        min_score: drop hits with a lower score.
        without: names of ``SOURCES`` to leave out.
        past_use: past requests: memories that served the same request count as linked. None for no requests.
    """

    def __init__(
        self,
        view: View,
        fill: bool,
        min_score: float | None = None,
        without: frozenset[str] = frozenset(),
        past_use: PastUse | None = None,
    ) -> None:
        self._view, self._fill, self._min_score, self._past_use = view, fill, min_score, past_use
        self._without = check_without(without, SOURCES if fill else SOURCES[:1])

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        view = self._view
        cosine, near = view.similar.search(cues.given, min(NEIGHBOURS, len(view.similar)), cues.among)
        own = np.where((cues.own < 0) & (cosine[:, 0] >= SAME), near[:, 0], cues.own) if near.shape[1] else cues.own
        by_experience = self._linked(own, cosine, near, cues.visible)
        query, linked, mass, use = self._with_uses(by_experience, own, cues.visible)
        further = None
        if k is None or k > FAN_OUT:
            further = self._with_uses(self._linked(own, cosine, near, cues.visible, None), own, cues.visible)
        found = []
        for at, itself in enumerate(own.tolist()):
            mine = query == at
            rows, share, of_use = _summed(linked[mine], mass[mine], use[mine])
            used, late = (rows, of_use), rows[:0]
            if further is not None:
                theirs = further[0] == at
                late, late_share, _ = _summed(*(column[theirs] for column in further[1:]))
                new = ~among(rows, late)
                late = late[new]
                rows, share = _joined(rows, share, late, late_share[new])
            if self._fill and SIMILARITY not in self._without:
                looked_up = near[at] if allowed is cues.among else near[at, :0]
                rows, share = self._filled(cues.given[at], looked_up, k, allowed, rows, share)
            mask = rows != itself
            if allowed is not None:
                mask &= holds(allowed, rows)
            one = self._of_one(cues.given[at], rows[mask], share[mask], used)
            found.append((_in_order(one, late) if len(late) else one).best(k, self._min_score))
        return found

    def _filled(
        self, query: Float32, near: Int64, k: int | None, allowed: Rows | None, rows: Int64, share: Float32
    ) -> tuple[Int64, Float32]:
        """Returns the linked rows, and rows similar to the cue, with share 0; ``near`` are the first of the latter."""
        count = len(self._view.similar)
        n = min((k or count) + 1, count)
        near = near[:n] if n <= len(near) else self._view.similar.search(query[None], n, allowed)[1][0]
        every = union(rows, near[near >= 0])
        shares = np.zeros(len(every), np.float32)
        shares[np.searchsorted(every, rows)] = share
        return every, shares

    def _of_one(self, query: Float32, rows: Int64, share: Float32, used: tuple[Int64, Float32]) -> Candidates:
        """Returns the candidates; ``used`` are the linked rows, sorted, and the part of their share from requests."""
        similarity: Float32 = self._view.similar.keys(rows) @ query
        sources = {EXPERIENCE: share}
        if self._fill:
            looked = np.zeros_like(similarity) if SIMILARITY in self._without else similarity
            sources = {EXPERIENCE: np.zeros_like(share), SIMILARITY: looked}
            if share.any():
                linked = np.where(share > 0, (1 + share - looked) / 2, 0).astype(np.float32)
                sources = {EXPERIENCE: linked, SIMILARITY: looked * np.float32(0.5)}
        scores = sum(sources.values(), np.zeros(len(rows), np.float32))
        if used[1].any():
            linked_share = np.zeros(len(rows), np.float32)
            linked_share[np.isin(rows, used[0])] = used[1][np.isin(used[0], rows)]
            part = np.divide(linked_share, share, out=np.zeros_like(share), where=share > 0)
            of_use: Float32 = sources[EXPERIENCE] * part  # first the quotient: exactly 1 without experience
            sources = {**sources, EXPERIENCE: sources[EXPERIENCE] - of_use, TOGETHER: of_use}
        hops = np.where(share > 0, 1, 0).astype(np.int64)
        association = share if share.any() else None
        return Candidates(rows, scores, similarity, association, hops, sources=Contributions.of(sources))

    def _linked(
        self, own: Int64, cosine: Float32, near: Int64, visible: Rows | None, fan_out: int | None = FAN_OUT
    ) -> Links:
        """Returns query, row and mass of each linked memory, for the ``fan_out`` strongest links; None for all."""
        view = self._view
        if EXPERIENCE in self._without:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        experienced = np.flatnonzero(view.links.experienced(own))
        others = np.empty(0, np.int64) if self._fill else np.setdiff1d(np.arange(len(own)), experienced)
        usable = (near[others] >= 0) & view.links.experienced(near[others])
        usable &= np.cumsum(usable, axis=1) <= LOOK_ALIKES
        if not len(experienced) and not usable.any():
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        counted = look_alike_mass(cosine[others], usable.astype(np.float32))
        by, position = np.nonzero(counted > 0)
        alike = others[by], near[others[by], position], counted[by, position]
        itself = experienced, own[experienced], np.ones(len(experienced), np.float32)
        links_of = visible_links(view, visible)
        known = walk(links_of, itself, fan_out)
        known = interpolated(known, visible_second_step(view, known, own, visible), UNFITTED)
        if not len(by):  # mostly
            return known
        similar = walk(links_of, alike, fan_out)
        return (
            np.concatenate([known[0], similar[0]]),
            np.concatenate([known[1], similar[1]]),
            np.concatenate([known[2], similar[2]]),
        )

    def _with_uses(self, found: Links, own: Int64, visible: Rows | None) -> tuple[Int64, Int64, Float32, Float32]:
        """Adds the memories that were used with a cue; an occurrence in a trajectory counts as much as a request.

        Also returns the part of each mass that is from requests.
        """
        query, linked, mass = found
        if self._past_use is None or EXPERIENCE in self._without:
            return query, linked, mass, np.zeros_like(mass)
        (by, used, share), requests = self._past_use.used_with(own, visible)
        known = self._view.links.experienced(own)[by]
        by, used, share = by[known], used[known], share[known]
        weight = (requests / np.maximum(requests + self._view.links.counts(own), 1)).astype(np.float32)
        return (
            np.concatenate([query, by]),
            np.concatenate([linked, used]),
            np.concatenate([mass * (1 - weight[query]), share * weight[by]]),
            np.concatenate([np.zeros_like(mass), share * weight[by]]),
        )
