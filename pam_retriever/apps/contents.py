"""``pam-retriever inspect``: the contents of an index as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pam_retriever.apps.terminal import safe
from pam_retriever.errors import counted
from pam_retriever.index import PredictiveAssociativeIndex

READ = 10_000  # memories whose metadata are read
SHOWN = 10  # sessions
LONGEST = 60  # characters of a value
KINDS = {bool: "true or false", int: "number", float: "number", str: "text", list: "list", dict: "object"}


def describe(index: PredictiveAssociativeIndex, sessions: bool = True) -> Iterator[str]:
    """Returns lines about the last fit and the metadata fields; with ``sessions`` also about the sessions."""
    yield from _training(index)
    if sessions:
        yield from _sessions(index)
    yield from _fields(index)


def _training(index: PredictiveAssociativeIndex) -> Iterator[str]:
    yield f"embedder: {index.embedder_name or ('none: it was given vectors' if len(index) else 'none yet')}"
    requests = index.overview().requests
    associations = "associations of its sessions" if index.is_fitted else "nothing yet: no fit"
    yield f"learnt: {associations}; {counted(requests, 'past request')}"


def _sessions(index: PredictiveAssociativeIndex) -> Iterator[str]:
    count = index.overview().trajectories
    yield f"sessions: {count:,}"
    for one in index.trajectories(limit=SHOWN):
        yield f"  {safe(one.id)}: {counted(one.length, 'step')}, {counted(len(set(one.ids)), 'memory')}"
    if count > SHOWN:
        yield f"  ... and {count - SHOWN:,} more"


def _fields(index: PredictiveAssociativeIndex) -> Iterator[str]:
    records = index.find(limit=READ)
    of = "all memories" if len(records) == len(index) else f"the first {counted(len(records), 'memory')}"
    texts = sum(record.text is not None for record in records)
    yield f"fields of {of}: text in {texts:,}"
    counts: Counter[str] = Counter()
    kinds: dict[str, set[str]] = {}
    values: dict[str, dict[str, None]] = {}
    for record in records:
        for key, value in record.metadata.items():
            counts[key] += 1
            kinds.setdefault(key, set()).add(_kind(value))
            if len(seen := values.setdefault(key, {})) < 3:
                seen[safe(str(value))] = None
    for key, count in counts.most_common():
        examples = ", ".join(_short(value) for value in islice(values[key], 3))
        yield f"  {safe(key)}: {' or '.join(sorted(kinds[key]))} in {count:,}, such as {examples}"


def _kind(value: Any) -> str:
    return "nothing" if value is None else KINDS[type(value)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
