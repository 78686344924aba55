"""Converts candidates to hits: contents, paths and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues
from pam_retriever.store.columns import from_json
from pam_retriever.store.view import View
from pam_retriever.types import Evidence, Float32, Hit, Hits, Int64, Mention, NamedTime

MOST_EVIDENCE = 100  # entries of evidence of a hit, for each step of its path
Proof = tuple[tuple[Evidence, ...], int]
"""The evidence of a hit, and the number of entries that are left out."""


def to_hits(view: View, cues: Cues, found: list[Candidates], explain: bool) -> list[Hits]:
    """Returns the candidates of each cue as hits, with their contents and, if requested, their evidence."""
    rows = [one.rows for one in found] + [one.paths[one.paths >= 0] for one in found if one.paths is not None]
    contents = view.database.memories.contents(np.concatenate(rows))
    texts: Sequence[str | None] = cues.texts or [None] * len(cues)
    hits = []
    for at, one in enumerate(found):
        ends, nothing = one.rows.tolist(), [None] * len(one.rows)
        proofs: Sequence[tuple[tuple[Evidence, ...] | None, int]] = [(None, 0)] * len(ends)
        paths = [] if one.paths is None else [[row for row in path if row >= 0] for path in one.paths.tolist()]
        if explain:
            proofs = _evidence(view, cues.rows[at], ends, paths or [[]] * len(ends))
        columns = zip(
            ends,
            one.scores.tolist(),
            one.similarity.tolist(),
            nothing if one.association is None else _known(one.association),
            one.hops.tolist(),
            [evidence for evidence, _ in proofs],
            nothing if one.confidence is None else _known(one.confidence),
            nothing if one.lexical is None else one.lexical.tolist(),
            [tuple([contents[row][0] for row in path]) for path in paths] or [()] * len(ends),
            nothing,  # times are set by ``with_times``
            _mentions(view, one, texts[at]) if explain else nothing,
            one.sources.of_each() if explain and one.sources is not None else nothing,
            nothing,  # others are set by ``recall_next``
            [more for _, more in proofs],
            strict=True,
        )
        hits.append(Hits([_hit(contents[row], score, *rest) for row, score, *rest in columns]))
    return hits


def _hit(contents: tuple[str, str | None, str], score: float, *rest: Any) -> Hit:
    """Returns a hit. Metadata are parsed for each, so that a change of one result does not change another."""
    id, text, metadata = contents
    return Hit(id, score, text, from_json(metadata, f"The metadata of {id!r}"), *rest)


def _known(values: Float32) -> list[float | None]:
    """Returns the values (n,), with None for NaN."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def _mentions(view: View, found: Candidates, text: str | None) -> Sequence[tuple[Mention, ...] | None]:
    """Returns the mentions that led to each candidate; None if no memory has a name."""
    if found.mentions is None:
        return [None] * len(found.rows)
    from pam_retriever.retrieval.mentioned import mentions_of

    return mentions_of(view, found, text)


def listed(view: View, rows: Int64) -> Hits:
    """Returns memories as hits without a query; each scores 1."""
    contents = view.database.memories.contents(rows)
    return Hits([_hit(contents[row], 1.0, 0.0) for row in rows.tolist()])


def with_times(hits: Hits, times: Sequence[tuple[NamedTime, ...]]) -> Hits:
    """Returns the hits with the times that support each."""
    return Hits(replace(hit, times=named) for hit, named in zip(hits, times, strict=True))


def bounded(evidence: Sequence[Evidence]) -> Proof:
    """Returns the first entries, and the number of the others: a memory may be in any number of trajectories."""
    return tuple(evidence[:MOST_EVIDENCE]), max(len(evidence) - MOST_EVIDENCE, 0)


def _evidence(view: View, cue: Int64, ends: list[int], paths: list[list[int]]) -> list[Proof]:
    """For each hit, returns where the two ends of each step of its path were experienced together."""
    trajectories, window, direction = view.database.trajectories, view.window, view.links.direction
    direct = trajectories.evidence(cue, window)
    # one look-up per memory on any path
    onward = {
        row: trajectories.evidence(np.array([row]), window) for row in sorted({r for path in paths for r in path})
    }
    proofs = []
    for end, path in zip(ends, paths, strict=True):
        steps = [direct, *(onward[row] for row in path)]
        targets = [*path, end]
        of_steps = [
            bounded(
                [
                    one
                    for one in evidence.get(target, ())
                    if direction is None or (one.offset > 0) == (direction == "after")
                ]
            )
            for evidence, target in zip(steps, targets, strict=True)
        ]
        shown = tuple(replace(one, hop=hop) for hop, (some, _) in enumerate(of_steps, start=1) for one in some)
        proofs.append((shown, sum(more for _, more in of_steps)))
    return proofs
