"""The index behind a store: LangChain's documents and filters to what the index takes, and back.

LangChain hands any keyword on. One that is swallowed may be a filter that is then not applied, or turn
``delete(where=...)`` into "delete everything", so every one that is not known is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from langchain_core.documents import Document

from pam_retriever import (
    Channels,
    FitConfig,
    Hit,
    InvalidInput,
    PredictiveAssociativeIndex,
    Record,
)
from pam_retriever.filters import key_path, to_json
from pam_retriever.model.keys import Mode
from pam_retriever.retrieval.timeline import Interval
from pam_retriever.store.metadata_columns import at_path
from pam_retriever.types import Direction, Metadata, Time

Filter = Mapping[str, Any] | Callable[[Document], bool]
Place = tuple[str, tuple[tuple[int, float | str], ...]]  # group, and the values of the keys of order

SPLITTERS_ORDER = ("page", "start_index")  # of the chunks of one source
OTHER, NUMBER, STRING = range(3)  # kinds of values, in the order in which they come
FIRST_LOOK = 64  # a callable filter looks at this many of the best hits first,
FIRST_LOOK_A_HIT = 4  # or at this many for each hit that is wanted, whichever is more


class HandedOn(TypedDict, total=False):
    """What a store hands on to ``PredictiveAssociativeIndex.recall`` as it is.

    Attributes:
        mode: None counts all evidence that there is: similarity, words, neighbours, feedback, and association once
            there was a ``fit``. "hybrid" is the same without feedback; and "association", "specific" (both must
            agree), "similarity".
        hops: how many steps of association to follow.
        channels: weights of similarity and association, in place of those of ``mode``.
        min_score: leave out documents that score less.
        faithful: only what was experienced with the query.
        decay: half-life of a score, in the unit of the timestamps.
        now: for ``decay``, the newest timestamp if None; a date is also what words of time count from.
        when: only memories of that time; see ``PredictiveAssociativeIndex.recall``.
        cue_where: filter of the documents that the query may be, or be taken for, in place of the filter; {} for all.
        feedback_where: filter of metadata of feedback: whose past questions count; see ``feedback``.
        direction: "after" or "before": only what came after, or before, the query is linked to it.
    """

    mode: Mode | None
    hops: int
    channels: Channels | None
    min_score: float | None
    faithful: bool
    decay: float | None
    now: Time | None
    when: Interval | None
    cue_where: dict[str, Any] | None
    feedback_where: dict[str, Any] | None
    direction: Direction | None


class RecallOptions(HandedOn, total=False):
    """What ``recall`` takes besides; see ``HandedOn`` for the rest.

    Attributes:
        id: of a stored document to start from, in place of a text; it is left out of the answer.
        filter: of metadata, a dict or a function of a document (with ``hops=1`` only).
        where: means the same.
    """

    id: str | None
    filter: Filter | None
    where: Filter | None


class FitOptions(TypedDict, total=False):
    """What ``fit`` hands on to ``PredictiveAssociativeIndex.fit`` as it is; see there."""

    group_by: str | None
    order_by: str | None
    window: int
    config: str | FitConfig
    device: str
    seed: int
    time_budget: float | None
    buffer: int | None
    checkpoint: str | Path | None
    progress: bool | None


class AskOptions(HandedOn, total=False):
    """What ``LinkedIndex.ask`` hands on: the words of the query, too."""

    text: str


# ---- documents


def to_document(memory: Hit | Record) -> Document:
    """A memory as a document; one that was stored without text has an empty page."""
    return Document(id=memory.id, page_content=memory.text or "", metadata=memory.metadata)


def to_documents(hits: Iterable[Hit]) -> list[Document]:
    """Hits as documents."""
    return [to_document(hit) for hit in hits]


def to_scored(hits: Iterable[Hit]) -> list[tuple[Document, float]]:
    """Hits as documents with their scores, larger is closer."""
    return [(to_document(hit), hit.score) for hit in hits]


def from_texts(
    texts: Iterable[str], metadatas: Sequence[dict[str, Any] | None] | None, ids: Sequence[str | None] | None
) -> list[Document]:
    """One document a text. Without ``ids`` or with None in it, a document has no id yet.

    Raises:
        InvalidInput: there are not as many metadatas or ids as texts.
    """
    if isinstance(texts, str):
        raise InvalidInput("Got one string as texts.", "a list of strings", "Wrap it in [ ].")
    contents = list(texts)  # it may be a generator
    _check_length("metadatas", metadatas, len(contents))
    _check_length("ids", ids, len(contents))
    return [
        Document(id=id, page_content=text, metadata=metadata or {})
        for text, metadata, id in zip(
            contents, metadatas or [None] * len(contents), ids or [None] * len(contents), strict=True
        )
    ]


def name_documents(documents: Sequence[Document], ids: Sequence[str | None] | None) -> list[str]:
    """The id of each document: the given one, else its own, else a new uuid4.

    Raises:
        InvalidInput: there are not as many ids as documents.
    """
    _check_length("ids", ids, len(documents))
    given = ids or [None] * len(documents)
    names = (document.id if id is None else id for document, id in zip(documents, given, strict=True))
    return [str(uuid.uuid4()) if name is None else name for name in names]


def _check_length(name: str, given: Sequence[object] | None, expected: int) -> None:
    if given and len(given) != expected:
        raise InvalidInput(f"Got {len(given)} {name} for {expected} texts.", "as many", "Give one each.")


# ---- options


def refuse(options: Iterable[str], allowed: str) -> None:
    """Raises InvalidInput if there are options left."""
    left = sorted(options)
    if left:
        raise InvalidInput(f"Got the unknown options {left}.", allowed, "Remove them.")


def one_filter(filter: Filter | None, where: Filter | None) -> Filter | None:
    """The filter of a search, which is called ``filter`` in LangChain and ``where`` in the core.

    Raises:
        InvalidInput: both were given.
    """
    if filter is not None and where is not None:
        raise InvalidInput("Got both filter and where.", "one of them", "They mean the same; join them with '$and'.")
    return where if filter is None else filter


def read_filter(filter: Filter | None, options: dict[str, Any]) -> Filter | None:
    """The filter of a similarity search, and nothing else among its options.

    Raises:
        InvalidInput: both names were used, or there are other options.
    """
    # FAISS's option to fetch more before it filters: there is nothing for it to do where the filter comes first
    refuse(options.keys() - {"where", "fetch_k"}, "k, filter or where")
    return one_filter(filter, options.get("where"))


def read_recall(
    index: PredictiveAssociativeIndex | None, query: str | None, options: RecallOptions
) -> tuple[str | None, Filter | None, AskOptions]:
    """The id, the filter and the rest of a recall, with the words of a question where they count.

    Raises:
        InvalidInput: two cues or none, two filters, or an option that is not known.
    """
    own, handed_on = RecallOptions.__annotations__.keys(), HandedOn.__annotations__.keys()
    refuse(options.keys() - own - handed_on, f"k, {', '.join(dict.fromkeys([*handed_on, *own]))}")
    id = options.get("id")
    if (query is None) == (id is None):
        raise InvalidInput(f"Got query={query!r} and id={id!r}.", "one of them", "Give a text or an id.")
    asked = cast("AskOptions", {name: value for name, value in options.items() if name in handed_on})
    if query is not None and options.get("mode") in (None, "hybrid"):
        if query.strip():
            asked["text"] = query
        else:  # there are no words: what else "hybrid" has
            asked["mode"] = "hybrid" if index is not None and index.is_fitted else "similarity"
            asked.pop("feedback_where", None)  # feedback is found by words
    return id, one_filter(options.get("filter"), options.get("where")), asked


# ---- what stands together


def check_order(group_by: str | None, order_by: str | Sequence[str] | None) -> None:
    """Refuses an order that nobody reads."""
    if order_by is not None and group_by is None:
        raise InvalidInput(f"Got order_by={order_by!r} without group_by.", "both", "Leave order_by out.")


def read_places(memories: Iterable[tuple[str, Metadata]], group_by: str, order_by: Sequence[str]) -> dict[str, Place]:
    """Where each memory stands, an id and its metadata, of those that stand in a group.

    A memory without the group, or without the last key of order, stands nowhere; a missing earlier key, such as
    the page of a text without pages, comes first.
    """
    found: dict[str, Place] = {}
    for id, metadata in memories:
        group = value_at(metadata, group_by)
        order = tuple(_sortable(value_at(metadata, key)) for key in order_by)
        if isinstance(group, str | int | float) and (not order or order[-1] != _sortable(None)):
            found[id] = to_json(group), order
    return found


def value_at(metadata: Metadata, key: str) -> object:
    """What a key has, as filters find it: the entry spelt so, else what its path leads to, else None."""
    return metadata[key] if key in metadata else at_path(metadata, key_path(key))[1]


def in_order(places: Mapping[str, Place]) -> tuple[list[str], list[float] | None]:
    """The ids of one group in order, and their times if one key of numbers orders them, as ``fit`` has it."""
    ids = sorted(places, key=lambda id: places[id][1])  # those of one place stay in the order of adding
    orders = [places[id][1] for id in ids]
    timed = all(len(order) == 1 and order[0][0] == NUMBER for order in orders)
    return ids, [float(order[0][1]) for order in orders] if timed else None


def _sortable(value: object) -> tuple[int, float | str]:
    """A value of metadata as one that compares with any other: what is no number or string, numbers, strings."""
    if isinstance(value, int | float):
        return NUMBER, value
    return (STRING, value) if isinstance(value, str) else (OTHER, 0)
