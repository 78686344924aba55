"""Events as JSON lines: one experienced state a line, or a request and what served it, with a text or a vector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.limits import MAX_BATCH, MAX_DIM, MAX_LINE
from pam_retriever.types import Float32
from pam_retriever.validation import check_vectors

BATCH = 1_000  # events read, embedded and stored at once


@dataclass(frozen=True)
class Fields:
    """Which key of an event means what; every other key is metadata, as are session and time.

    A line with ``used`` is a request: ids of the events that served it, or weights by id. ``unused`` did not help.
    Without a ``session`` (an empty name) events are memories alone.
    """

    id: str = "id"
    text: str = "text"
    vector: str = "vector"
    session: str = "session"
    time: str = "time"
    used: str = "used"
    unused: str = "unused"


@dataclass
class Events:
    """A batch of events, ready for ``PredictiveAssociativeIndex.add``."""

    ids: list[str] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    vectors: list[Any] = field(default_factory=list)
    metadatas: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def checked_vectors(self, dim: int | None) -> Float32 | None:
        """(n, dim) the given vectors; None where there are texts alone.

        Raises:
            InvalidInput: some events have a vector and some have not.
        """
        if all(vector is None for vector in self.vectors):
            return None
        if any(vector is None for vector in self.vectors):
            raise InvalidInput(
                "Some events have a vector and some have not.", "a vector in all, or in none", "Complete them."
            )
        return check_vectors(self.vectors, dim or _length(self.vectors[0]), "the events")


@dataclass
class Requests(Events):
    """A batch of requests, ready for ``PredictiveAssociativeIndex.feedback``."""

    used: list[list[str] | dict[str, float]] = field(default_factory=list)
    unused: list[list[str]] = field(default_factory=list)
    times: list[float | datetime | None] = field(default_factory=list)


def _length(vector: Any) -> int:
    """The dimension that the first event sets."""
    if not isinstance(vector, list) or not 1 <= len(vector) <= MAX_DIM:
        raise InvalidInput(
            f"The vector of the first event is {str(vector)[:100]!r}.", "a list of numbers", "Correct that line."
        )
    return len(vector)


def read_events(path: Path, fields: Fields) -> Iterator[Events]:
    """Reads batches of events; requests come after all events, since any of these may have served them.

    Raises:
        InvalidInput: naming the line, for one that is no event.
    """
    batch, requests, seen, held = Events(), [Requests()], 0, 0
    with path.open(encoding="utf-8") as lines:
        while line := _next_line(lines, f"{path.name}:{seen + 1}"):
            seen, held = seen + 1, held + len(line)
            if line.strip():
                _append(batch, requests[-1], line, f"{path.name}:{seen}", fields)
            if len(requests[-1]) == BATCH:
                requests.append(Requests())
            if len(batch) and (len(batch) == BATCH or held > MAX_BATCH):
                yield batch
                batch, held = Events(), 0
    if not seen:
        raise InvalidInput(f"{path} is empty.", "one JSON object a line", "Check the file.")
    yield from (some for some in (batch, *requests) if len(some))


def _next_line(lines: TextIO, where: str) -> str:
    try:
        return lines.readline(MAX_LINE + 1)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8 ({error.reason}).", "UTF-8", "Convert the file.") from error


def _append(events: Events, requests: Requests, line: str, where: str, fields: Fields) -> None:
    try:
        if len(line) > MAX_LINE:
            raise ValueError(f"longer than {MAX_LINE:,} characters")
        event = json.loads(line)
        if not isinstance(event, dict):
            raise ValueError(f"a {type(event).__name__}")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is no event: {error}.", "a JSON object", "Correct that line.") from error
    text, vector = event.pop(fields.text, None), event.pop(fields.vector, None)
    if text is None and vector is None:
        raise InvalidInput(
            f"{where} has neither {fields.text!r} nor {fields.vector!r}.",
            "a text or a vector in every event",
            "Name the fields with --text-field or --vector-field.",
        )
    batch = events
    if fields.used in event or fields.unused in event:
        batch = requests
        vector = _append_uses(requests, event, vector, where, fields)
    elif fields.session and fields.session not in event:
        raise InvalidInput(
            f"{where} has no {fields.session!r}.", "the session of every event", "Name it with --session-field."
        )
    batch.ids.append(str(event.pop(fields.id, where)))
    batch.texts.append(None if text is None else str(text))
    batch.vectors.append(vector)
    batch.metadatas.append(event)


def _append_uses(requests: Requests, event: dict[str, Any], vector: Any, where: str, fields: Fields) -> Any:
    """What served a request, and when it was; returns its vector as an array, of which many fit in memory."""
    used, unused = event.pop(fields.used, None) or [], event.pop(fields.unused, None) or []
    for name, ids in ((fields.used, list(used) if isinstance(used, dict) else used), (fields.unused, unused)):
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise InvalidInput(f"{where} has {name}={ids!r}.", "a list of ids", "Correct that line.")
    time = event.get(fields.time)
    try:
        if isinstance(time, str):
            time = datetime.fromisoformat(time.replace("Z", "+00:00"))  # which Python 3.10 does not read
        vector = None if vector is None else np.asarray(vector, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{where} cannot be read: {error}.", "a time in ISO 8601 and numbers", "Correct that line."
        ) from error
    requests.used.append(used)
    requests.unused.append(unused)
    requests.times.append(time)
    return vector
