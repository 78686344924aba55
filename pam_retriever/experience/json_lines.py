"""Events as JSON lines: each line is a step, or a request with the memories that served it, with a text or a vector."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.feedback import weights_of_request
from pam_retriever.filters.metadata import check_metadatas
from pam_retriever.limits import MAX_BATCH, MAX_DIM, MAX_LINE
from pam_retriever.types import Float32
from pam_retriever.validation import check_id, check_texts, check_vectors, read_date

BATCH = 1_000  # events that are read, embedded and stored together
NAME_BYTES = 10  # length of the digest that is the id of an event without an id
STANDARD_INPUT = Path("-")


@dataclass(frozen=True)
class Fields:
    """The names of keys with a meaning in an event. All other keys are metadata, and so are session and time.

    A line with ``used`` is a request. ``used`` lists the ids of the events that served it, or weights by id. ``unused``
    lists the ids of events that did not help. With an empty name for ``session``, events have no trajectory.
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
    """A batch of events, in the form of ``PredictiveAssociativeIndex.add``."""

    ids: list[str] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)
    vectors: list[Any] = field(default_factory=list)
    metadatas: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def checked_vectors(self) -> Float32 | None:
        """The vectors (n, dim); None if there are only texts."""
        return None if self.vectors[0] is None else check_vectors(self.vectors, len(self.vectors[0]), "the events")

    def of(self, positions: list[int]) -> Events:
        """Returns the events at these positions."""
        return Events(*([getattr(self, column.name)[at] for at in positions] for column in fields(Events)))


@dataclass
class Requests(Events):
    """A batch of requests, in the form of ``PredictiveAssociativeIndex.feedback``."""

    used: list[list[str] | dict[str, float]] = field(default_factory=list)
    unused: list[list[str]] = field(default_factory=list)
    times: list[float | datetime | None] = field(default_factory=list)


@dataclass(frozen=True)
class Contents:
    """The contents of a file of events.

    Attributes:
        events: number of events.
        requests: number of requests among them.
        dim: the dimension of their vectors; None if they have only texts.
        timed: whether the events have a time.
        dated: whether all of these times are dates in ISO 8601.
        undated: a line with another time, if some are dates; None if all are, or none.
        others: by line, the ids of memories that a request names and that are no events of the file.
    """

    events: int
    requests: int
    dim: int | None
    timed: bool
    dated: bool
    undated: str | None
    others: dict[str, set[str]]


@dataclass(frozen=True)
class _Kind:
    """Properties of an event: its line, the length of its vector or None, and its time or None."""

    line: str
    dim: int | None
    time: str | float | None


class EventLog:
    """The events of a file. It is read once to find mistakes, and once to store the events.

    An event without an id gets one from a digest of its contents. So the id does not depend on the file or its length.
    The second of two equal events in a file gets another id.

    Args:
        path: the path of a file, a pipe, or "-" for standard input.
        fields: the keys of an event.
    """

    def __init__(self, path: Path, fields: Fields) -> None:
        self._path, self._fields = path, fields
        self.name = "standard input" if path == STANDARD_INPUT else path.name
        self._file: IO[bytes] | None = None
        self._read: int | None = None  # number of lines in the first pass

    def __enter__(self) -> EventLog:
        if self._path == STANDARD_INPUT:
            self._file = _to_temporary_file(sys.stdin.buffer)
        elif self._path.exists() and not self._path.is_file() and not self._path.is_dir():
            with self._path.open("rb") as pipe:  # a pipe can be read only once
                self._file = _to_temporary_file(pipe)
        else:
            self._file = self._path.open("rb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def check(self) -> Contents:
        """Checks the whole file.

        Raises:
            InvalidInput: a line is no event, or does not fit the lines before it. The message names the line.
        """
        first: _Kind | None = None
        dates, undated, others = 0, None, dict[str, set[str]]()
        ids: dict[bool, set[str]] = {False: set(), True: set()}  # of events, of requests
        for batch in self.batches():
            asks = isinstance(batch, Requests)
            for at, line in enumerate(batch.lines):
                kind = self._kind(batch, at)
                first = first or kind
                _compare(kind if not asks else replace(kind, time=first.time), first)
                if batch.ids[at] in ids[asks]:
                    raise InvalidInput(
                        f"{line} has the id {batch.ids[at]!r} of an event before it.",
                        "each id once in a file",
                        "Keep the last of them.",
                    )
                ids[asks].add(batch.ids[at])
                if not asks and read_date(kind.time) is None:
                    undated = undated or f"{line} has {self._fields.time}={repr(kind.time)[:100]}"
                dates += not asks and read_date(kind.time) is not None
            if isinstance(batch, Requests):  # they come after all events
                named = zip(batch.lines, batch.used, batch.unused, strict=True)
                others |= {line: found for line, used, unused in named if (found := {*used, *unused} - ids[False])}
        if first is None:
            raise InvalidInput(f"{self.name} holds no events.", "one JSON object per line", "Check the file.")
        timed = first.time is not None and bool(ids[False])
        dated = timed and undated is None
        counts = len(ids[False]), len(ids[True])
        return Contents(*counts, first.dim, timed, dated, undated if dates else None, others)

    def _kind(self, batch: Events, at: int) -> _Kind:
        """Returns the checked properties of a line."""
        line, vector, metadata = batch.lines[at], batch.vectors[at], batch.metadatas[at]
        try:
            check_texts([batch.texts[at]], 1)
            check_metadatas([metadata], 1)
            if vector is not None:
                check_vectors([vector], _length(vector), "this line")
        except InvalidInput as error:
            raise InvalidInput(f"{line} cannot be read. {error.got}", error.expected, error.fix) from error
        time = metadata.get(self._fields.time)
        if isinstance(time, bool) or not isinstance(time, str | int | float | None):
            raise InvalidInput(
                f"{line} has {self._fields.time}={str(time)[:100]}.", "a number or a string", "Correct that line."
            )
        return _Kind(line, None if vector is None else len(vector), time)

    def batches(self) -> Iterator[Events]:
        """Yields batches of events, then of requests, because any event may have served a request.

        Raises:
            InvalidInput: a line is no event. The message names the line.
        """
        if (yield from self._batches(Events)):
            yield from self._batches(Requests)

    def _batches(self, kind: type[Events]) -> Generator[Events, None, bool]:
        """Yields batches of events or of requests; returns whether the file has the other kind."""
        assert self._file is not None
        self._file.seek(0)
        batch, number, held, others, seen = kind(), 0, 0, False, Counter[str]()
        lines = io.TextIOWrapper(self._file, encoding="utf-8-sig")  # some editors write a byte order mark
        try:
            while line := _next_line(lines, f"{self.name}:{number + 1}"):
                if self._read is not None and number == self._read:
                    break  # lines added after the check
                number, held = number + 1, held + len(line)
                if line.strip():
                    others |= not _append(batch, line, f"{self.name}:{number}", self._fields, seen)
                if len(batch) and (len(batch) == BATCH or held > MAX_BATCH):
                    yield batch
                    batch, held = kind(), 0
            self._read = number
            if len(batch):
                yield batch
        finally:
            lines.detach()  # else it would close the file
        return others


def _to_temporary_file(stream: IO[bytes]) -> IO[bytes]:
    """Copies a stream to a temporary file that can be read again."""
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(stream, file)
    return file


def _length(vector: Any) -> int:
    numbers = isinstance(vector, list) and {*map(type, vector)} <= {int, float, bool}  # NumPy would read "3", too
    if not numbers or not 1 <= len(vector) <= MAX_DIM:
        raise InvalidInput(f"Its vector is {str(vector)[:100]!r}.", "a list of numbers", "Correct that line.")
    return len(vector)


def _compare(event: _Kind, first: _Kind) -> None:
    """Refuses an event that does not have the same fields as the first event."""
    for what, has, had in (
        ("a vector", event.dim is not None, first.dim is not None),
        ("a time", event.time is not None, first.time is not None),
    ):
        if has != had:
            one, other = (event, first) if has else (first, event)
            raise InvalidInput(
                f"Some events have {what} and some have not: {one.line} has one, {other.line} has none.",
                f"{what} in all, or in none",
                "Complete them.",
            )
    if isinstance(event.time, str) != isinstance(first.time, str):
        raise InvalidInput(
            f"{event.line} has the time {repr(event.time)[:100]}, {first.line} {repr(first.time)[:100]}.",
            "a number in each line, or a string in each line",
            "Correct one of them.",
        )
    if event.dim != first.dim:
        raise InvalidInput(
            f"The vector of {event.line} has the shape ({event.dim},), that of {first.line} ({first.dim},).",
            "one length",
            "Use one embedder for everything in one index.",
        )


def _next_line(lines: io.TextIOWrapper, where: str) -> str:
    try:
        return lines.readline(MAX_LINE + 1)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not UTF-8 ({error.reason}).", "UTF-8", "Convert the file.") from error


def _append(batch: Events, line: str, where: str, fields: Fields, seen: Counter[str]) -> bool:
    """Adds a line to a batch of its kind; returns False for the other kind."""
    try:
        if len(line) > MAX_LINE:
            raise ValueError(f"longer than {MAX_LINE:,} characters")
        event = json.loads(line)
        if not isinstance(event, dict):
            raise ValueError(f"a {type(event).__name__}")
        digest = _digest(event)
    except (ValueError, RecursionError) as error:
        fix = "Correct that line; for documents, pass their folder."
        raise InvalidInput(f"{where} is no event: {error}.", "a JSON object", fix) from error
    if (fields.used in event or fields.unused in event) != isinstance(batch, Requests):
        return False
    text, vector = event.pop(fields.text, None), event.pop(fields.vector, None)
    if text is None and vector is None:
        raise InvalidInput(
            f"{where} has neither {fields.text!r} nor {fields.vector!r}.",
            "a text or a vector in every event",
            "Name the fields with --text-field or --vector-field.",
        )
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"The text of {where} is {str(text)[:100]}.", "a string", "Correct that line.")
    if isinstance(batch, Requests):
        _append_uses(batch, event, where, fields)
    elif fields.session and fields.session not in event:
        raise InvalidInput(
            f"{where} has no {fields.session!r}.",
            "the session of every event",
            "Name its key with --session-field; '' is for events without sessions.",
        )
    batch.ids.append(_id(event.pop(fields.id, None), where, digest, seen))
    batch.texts.append(text)
    batch.vectors.append(vector)
    batch.metadatas.append(event)
    batch.lines.append(where)
    return True


def _append_uses(requests: Requests, event: dict[str, Any], where: str, fields: Fields) -> None:
    """Adds the memories that served a request, and its time."""
    used, unused = event.pop(fields.used, None) or [], event.pop(fields.unused, None) or []
    for name, ids in ((fields.used, list(used) if isinstance(used, dict) else used), (fields.unused, unused)):
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise InvalidInput(f"{where} has {name}={ids!r}.", "a list of ids", "Correct that line.")
    weights_of_request(used, unused, where)  # now, because the message names the line
    time = event.get(fields.time)
    if isinstance(time, str) and (time := _moment(time)) is None:
        raise InvalidInput(
            f"{where} cannot be read: it has {fields.time}={event[fields.time]!r}.",
            "a number, or a time in ISO 8601",
            "Correct that line.",
        )
    requests.used.append(used)
    requests.unused.append(unused)
    requests.times.append(time)


def _moment(text: str) -> datetime | None:
    """Parses a time in ISO 8601; a day is its midnight in UTC."""
    found = read_date(text)
    return found if found is None or isinstance(found, datetime) else datetime(found.year, found.month, found.day)


def _digest(event: dict[str, Any]) -> str:
    """Returns a digest that identifies an event.

    Raises:
        ValueError: a number is out of the range of doubles.
    """
    try:
        canonical = json.dumps(event, sort_keys=True, allow_nan=False).encode()
    except ValueError as error:
        raise ValueError("it holds NaN, or a number outside the range of a double") from error
    return hashlib.blake2b(canonical, digest_size=NAME_BYTES).hexdigest()


def _id(given: Any, where: str, digest: str, seen: Counter[str]) -> str:
    """Returns the given id of an event, or an id from the digest of its contents."""
    if given is None:
        seen[digest] += 1
        return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise InvalidInput(f"The id of {where} is {str(given)[:100]}.", "a string or a whole number", "Correct it.")
    return check_id(str(given), where)
