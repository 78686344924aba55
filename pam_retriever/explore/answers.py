"""The answers of the page as values that JSON can hold: hits, sessions, health."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pam_retriever.errors import InvalidInput, NotFitted, PAMError, UnknownId
from pam_retriever.types import FitReport, Float32, Hits, Record
from pam_retriever.validation import check_count

if TYPE_CHECKING:
    import pam_retriever as pam

MOST_HITS = 200
LONGEST = 2_000  # characters of a text that are sent at first
PAGE = 30  # sessions per page
STEPS = 60  # steps of a session per request
STRETCHES = 60  # intervals of the time line
LOOKED_THROUGH = 5_000  # sessions whose names a search reads
NAMES = ("title", "name", "path")  # metadata keys that hold the name of a memory
Plain = dict[str, Any]
Where = Mapping[str, object] | None


def ask(index: pam.PredictiveAssociativeIndex, question: Mapping[str, Any]) -> Plain:
    """Returns the memories that look like a question, and the memories that happened with it.

    Args:
        index: the index to query.
        question: ``text`` or ``id``; ``k``, ``where``, ``without``; ``during``, the start and the excluded end of a
            period, each in ISO 8601, or a number if the index has numbers as times, or None.

    Raises:
        InvalidInput, UnknownId: the question is invalid.
    """
    text, id, k, where, without = read_question(question)
    began = time.perf_counter()
    similar = index.search(text=text, k=k, where=where) if text is not None else index.search(id, k=k, where=where)
    searched = time.perf_counter()
    happened = happened_with(index, text, id, k, where, without)
    answered = time.perf_counter()
    named = {name: None for hit in happened for name in hit.sources or {}}
    return {
        "looks": hits_of(similar),
        "happened": hits_of(happened),
        "sources": [*named, *(name for name in without if name not in named)],
        "cue": None if id is None else memory(index.get([id])[0]),
        "seconds": {"search": searched - began, "recall": answered - searched},
    }


def happened_with(
    index: pam.PredictiveAssociativeIndex,
    text: str | None,
    id: str | None,
    k: int,
    where: Where,
    without: Sequence[str],
) -> Hits:
    """Returns the hits of the default recall, which also works before the first fit."""
    if text is not None:
        return index.recall(text=text, k=k, where=where, explain=True, without=without)
    return index.recall(id, k=k, where=where, explain=True, without=without)


def read_question(
    question: Mapping[str, Any],
) -> tuple[str | None, str | None, int, Where, list[str]]:
    """Parses text or id, k, filter, and the sources to leave out.

    Raises:
        InvalidInput: the question is invalid.
    """
    text, id, where, without = (question.get(name) for name in ("text", "id", "where", "without"))
    if (text is None) == (id is None) or not isinstance(text or id, str):
        raise InvalidInput("Got no question, or two.", "a text, or the id of a memory", "Ask one of them.")
    if where is not None and not isinstance(where, dict):
        raise InvalidInput(f"Got the filter {where!r}.", 'an object, such as {"year": 2020}', "Write it as JSON.")
    if without is not None and not isinstance(without, list):
        raise InvalidInput(f"Got without={without!r}.", "a list of sources", "Leave it out.")
    k = check_count("k", question.get("k", 10), MOST_HITS)
    return text, id, k, _during(where or None, question.get("during")), without or []


def _during(where: dict[str, object] | None, during: object) -> dict[str, object] | None:
    """Adds a condition on the time to a filter."""
    if during is None:
        return where
    if not isinstance(during, list) or len(during) != 2:
        raise InvalidInput(f"Got during={during!r}.", "a pair of times", "Leave it out for all.")
    ends = {name: time for name, time in zip(("$gte", "$lt"), during, strict=True) if time is not None}
    then: dict[str, object] = {"$time": ends or {"$exists": True}}
    return then if where is None else {"$and": [where, then]}


def hits_of(hits: Hits) -> list[Plain]:
    """Returns hits as ``Hits.to_dicts`` does, with long texts cut."""
    plain: list[Plain] = hits.to_dicts()
    return [{**hit, **cut(hit["text"]), "name": name_of(hit["id"], hit["text"], hit["metadata"])} for hit in plain]


def cut(text: str | None, most: int = LONGEST) -> Plain:
    """Returns the beginning of a text, and its length."""
    return {"text": None if text is None else text[:most], "length": len(text or "")}


def name_of(id: str, text: str | None, metadata: Mapping[str, object]) -> str:
    """Returns the name of a memory: from its metadata, else the beginning of its text, else its id."""
    given = next((value for key in NAMES if isinstance(value := metadata.get(key), str) and value), None)
    return (given or (text or "").strip() or id)[:120]


def memory(record: Record, most: int = LONGEST) -> Plain:
    """Returns a memory without its vector."""
    name = name_of(record.id, record.text, record.metadata)
    return {"id": record.id, "metadata": record.metadata, "name": name, **cut(record.text, most)}


def whole_memory(index: pam.PredictiveAssociativeIndex, id: str) -> Plain:
    """Returns a memory with its whole text, its sessions, and the requests that it served.

    Raises:
        UnknownId: there is no such memory.
    """
    held = index.trajectories(holding=[id], limit=PAGE)
    return {
        **memory(index.get([id])[0], most=10_000_000),
        "sessions": [{"id": one.id, "length": one.length} for one in held],
        "requests": requests_of(index, id),
    }


def requests_of(index: pam.PredictiveAssociativeIndex, id: str) -> list[Plain]:
    """Returns the past requests for which a memory was used or unused."""
    return [
        {"id": one.id, "text": (one.text or "")[:LONGEST], "weight": one.used[id], "timestamp": one.timestamp}
        for one in index.feedbacks(naming=id, limit=PAGE)
    ]


# ---- sessions


def sessions(index: pam.PredictiveAssociativeIndex, words: str, offset: int, texts: bool) -> Plain:
    """Returns a page of all sessions, or of the sessions that a search finds."""
    if not words:
        found = index.trajectories(limit=PAGE + 1, offset=offset)
        more, looked = len(found) > PAGE, None
    else:
        found, looked = _search_sessions(index, words, texts)
        more, found = len(found) > offset + PAGE, found[offset:]
    found = found[:PAGE]
    first = {record.id: record for record in index.get([one.ids[0] for one in found if one.ids], missing_ok=True)}
    rows = []
    for one in found:
        begins = first.get(one.ids[0]) if one.ids else None
        rows.append(
            {
                "id": one.id,
                "length": one.length,
                "begins": "" if begins is None else name_of(begins.id, begins.text, begins.metadata),
                "times": _span(one.timestamps),
            }
        )
    return {"sessions": rows, "more": more, "offset": offset, "looked_through": looked}


def _span(timestamps: Sequence[float | None] | None) -> list[float] | None:
    known = [time for time in timestamps or () if time is not None]
    return [known[0], known[-1]] if known else None


def _search_sessions(index: pam.PredictiveAssociativeIndex, words: str, texts: bool) -> tuple[list[Any], int | None]:
    """Returns sessions whose name contains the words, or that contain the memory with this id or a recalled memory."""
    found = {one.id: one for one in index.trajectories(ids=[words])}
    found.update((one.id, one) for one in index.trajectories(holding=[words], limit=PAGE))
    looked = 0
    while looked < LOOKED_THROUGH:
        some = index.trajectories(limit=500, offset=looked)
        looked += len(some)
        found.update((one.id, one) for one in some if words.casefold() in one.id.casefold())
        if len(some) < 500:
            break
    if texts:
        ids = index.recall(text=words, k=PAGE).ids
        found.update((one.id, one) for one in (index.trajectories(holding=ids, limit=PAGE) if ids else ()))
    return list(found.values()), looked if looked >= LOOKED_THROUGH else None


def session(index: pam.PredictiveAssociativeIndex, id: str, offset: int) -> Plain:
    """Returns some steps of a session, with the surprise of each.

    Raises:
        UnknownId: there is no such session.
    """
    held = index.trajectories(ids=[id])
    if not held:
        raise UnknownId(f"Got the session {id!r}.", "the id of a stored session", "Look for it in the list.")
    ids = list(held[0].ids)
    times = held[0].timestamps or [None] * len(ids)
    steps = ids[offset : offset + STEPS]
    records = {record.id: record for record in index.get(list(dict.fromkeys(steps)), missing_ok=True)}
    window = index.overview().window
    start = max(0, offset - window)
    try:
        surprises: Sequence[float | None] = index.surprise(ids[start : offset + STEPS + window])[offset - start :]
    except NotFitted:
        surprises = [None] * len(steps)
    return {
        "id": id,
        "length": len(ids),
        "deleted": held[0].length - len(ids),
        "offset": offset,
        "steps": [
            {"position": at, "timestamp": times[at], "surprise": surprise, **memory(records[step])}
            for at, (step, surprise) in enumerate(zip(steps, surprises, strict=False), offset)
            if step in records
        ],
    }


# ---- health


def health(index: pam.PredictiveAssociativeIndex) -> Plain:
    """Returns the contents of the index, the report of its last fit, and the metadata keys to show."""
    numbers, report = index.overview(), index.last_fit()
    return {**numbers.to_dict(), "fit": None if report is None else fit_of(report), "fields": fields_of(index)}


def fit_of(report: FitReport) -> Plain:
    """Returns the report of a fit."""
    return {
        "finished": None if report.finished is None else report.finished.isoformat(),
        "losses": list(report.losses),
        "seconds": report.seconds,
        "device": report.device,
        "steps": report.steps,
        "memories": report.memories,
        "trajectories": report.trajectories,
        "associations": report.associations,
        "coverage": report.coverage,
        "parameters": report.parameters,
        "requests": report.requests,
        "stopped_by": report.stopped_by,
        "validation": report.validation.to_dict()["worths"],
    }


def fields_of(index: pam.PredictiveAssociativeIndex) -> list[str]:
    """Returns the metadata keys of the first memories whose values are short."""
    keys: dict[str, None] = {}
    for record in index.find(limit=200):
        keys.update(
            (key, None) for key, value in record.metadata.items() if isinstance(value, str | int | float | bool)
        )
    return list(keys)


def times(index: pam.PredictiveAssociativeIndex) -> Plain | None:
    """Returns the number of memories per interval of time; None if none has a time."""
    counted = index.time_counts(STRETCHES)
    return None if counted is None else counted.to_dict()


# ---- feedback


def helped(writable: pam.PredictiveAssociativeIndex, given: Mapping[str, Any]) -> Plain:
    """Stores which hits helped with a question. Replaces earlier feedback on this request.

    Args:
        writable: the index to write to.
        given: ``text`` or ``id`` of the question; ``request``, a name for it; ``used`` and ``unused``, lists of ids.

    Raises:
        InvalidInput, UnknownId: the feedback is invalid. Nothing was stored.
    """
    text, id, *_ = read_question(given)
    used, unused, request = given.get("used"), given.get("unused"), given.get("request")
    if not isinstance(used, list) or not isinstance(unused, list) or not isinstance(request, str) or not request:
        raise InvalidInput("Got feedback without used, unused and request.", "all three", "Reload the page.")
    if not used and not unused:
        return {"id": None, "deleted": writable.delete_feedback(request)}
    query: Float32 | None = None
    if id is not None:
        record = writable.get([id])[0]
        query, text = record.vector, record.text
    stored = writable.feedback(query, used, unused=unused, text=text, id=request)
    return {"id": stored, "deleted": 0}


def problem_of(error: PAMError) -> Plain:
    """Returns an error as text."""
    return {"problem": str(error), "kind": type(error).__name__}
