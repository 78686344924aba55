"""Events as JSON lines: one experienced state a line, with a text or a vector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pam_retriever.errors import InvalidInput
from pam_retriever.limits import MAX_BATCH, MAX_DIM, MAX_LINE
from pam_retriever.types import Float32
from pam_retriever.validation import check_vectors

BATCH = 1_000  # events read, embedded and stored at once


@dataclass(frozen=True)
class Fields:
    """Which key of an event means what; every other key is metadata, as are session and time."""

    id: str = "id"
    text: str = "text"
    vector: str = "vector"
    session: str = "session"
    time: str = "time"


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


def _length(vector: Any) -> int:
    """The dimension that the first event sets."""
    if not isinstance(vector, list) or not 1 <= len(vector) <= MAX_DIM:
        raise InvalidInput(
            f"The vector of the first event is {str(vector)[:100]!r}.", "a list of numbers", "Correct that line."
        )
    return len(vector)


def read_events(path: Path, fields: Fields) -> Iterator[Events]:
    """Reads batches of events.

    Raises:
        InvalidInput: naming the line, for one that is no event.
    """
    batch, seen, held = Events(), 0, 0
    with path.open(encoding="utf-8") as lines:
        while line := _next_line(lines, f"{path.name}:{seen + 1}"):
            seen, held = seen + 1, held + len(line)
            if line.strip():
                _append(batch, line, f"{path.name}:{seen}", fields)
            if len(batch) == BATCH or held > MAX_BATCH:
                yield batch
                batch, held = Events(), 0
    if len(batch):
        yield batch
    elif not seen:
        raise InvalidInput(f"{path} is empty.", "one JSON object a line", "Check the file.")


def _next_line(lines: TextIO, where: str) -> str:
    try:
        return lines.readline(MAX_LINE + 1)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8 ({error.reason}).", "UTF-8", "Convert the file.") from error


def _append(batch: Events, line: str, where: str, fields: Fields) -> None:
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
    if fields.session not in event:
        raise InvalidInput(
            f"{where} has no {fields.session!r}.", "the session of every event", "Name it with --session-field."
        )
    batch.ids.append(str(event.pop(fields.id, where)))
    batch.texts.append(None if text is None else str(text))
    batch.vectors.append(vector)
    batch.metadatas.append(event)
