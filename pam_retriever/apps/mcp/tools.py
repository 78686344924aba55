"""The tools, without the protocol. The types of their arguments become the schema that a model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pam_retriever.apps import terminal
from pam_retriever.apps.code import FileHit, state_of
from pam_retriever.apps.code.learning import STATE
from pam_retriever.apps.mcp.answers import (
    LONGEST_RESOURCE,
    NOTICE,
    Forgotten,
    Json,
    Memory,
    MemoryDetails,
    Recalled,
    RelatedFile,
    RelatedFiles,
    Session,
    Sessions,
    Status,
    StoredMemory,
    memory,
    reasons,
    session_of,
    shortened,
)
from pam_retriever.apps.mcp.arguments import (
    ChangeInWords,
    Count,
    Filter,
    Id,
    Ids,
    Offset,
    Paths,
    Question,
    UsedIds,
    Way,
    When,
)
from pam_retriever.apps.mcp.folder import SharedFolder
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import Record

EXAMPLES = 5  # memories in an answer of ``forget``
AROUND = 5  # steps of a session before and after a memory
MOST_SESSIONS = 100  # that hold a memory, and are counted
SHOWN = 200  # characters of the last step of a session
MOST_REQUESTS = 5_000  # past questions that are read to count the questions that a memory served
NEWEST = 100  # memories that are listed as resources


class Tools:
    """The tools over one folder.

    Args:
        folder: the folder of the index.
    """

    def __init__(self, folder: SharedFolder) -> None:
        self._folder = folder

    def remember(self, text: str, name: str, metadata: Mapping[str, object] | None = None) -> StoredMemory:
        """Stores a memory as the next step of a session."""
        given = dict(metadata or {})
        if given.setdefault("session", name) != name:
            raise InvalidInput(
                f"Got the session {name!r}, and {given['session']!r} in the metadata.", "one", "Leave it out there."
            )
        self._folder.model.encode_document([text])  # before the write, so that others need not wait
        now = terminal.clock()
        with self._folder.writing() as index:
            try:
                id = index.append(name, text=text, metadata=given, timestamp=now)
            except InvalidInput:
                last = _last_time(index, name)
                if last is None or last <= now.timestamp():
                    raise
                # the clock of the last writer was ahead
                then = datetime.fromtimestamp(last, now.tzinfo)
                id = index.append(name, text=text, metadata=given, timestamp=then)
        self._folder.wrote()
        return StoredMemory(id, name)

    def recall(self, question: Question, k: Count = 10, filter: Filter | None = None, when: When = None) -> Recalled:
        """Returns memories that answer a question."""
        index = self._folder.reader()
        where = _memories(index, filter)
        hits = index.recall(text=question, k=k, where=where, when=when, now=terminal.clock(), explain=True)
        served = _served(index, {hit.id for hit in hits}, quoted=not filter)
        return Recalled(NOTICE, tuple(memory(hit, hit.score, [*served.get(hit.id, ()), *reasons(hit)]) for hit in hits))

    def what_happened_with(self, id: Id, k: Count = 10, direction: Way = None) -> MemoryDetails:
        """Returns the steps around a memory, and its associates, in one direction or both."""
        index = self._folder.reader()
        _check_known(index, [id])
        (record,) = index.get([id])
        before, after, others = self._around(index, record)
        hits = index.recall(id, k=k, where=_memories(index, None), explain=True, direction=direction)
        near = {one.id for one in (*before, *after)}
        associated = tuple(memory(hit, hit.score, reasons(hit)) for hit in hits if hit.id not in near)
        return MemoryDetails(NOTICE, memory(record), before, after, associated, others)

    def _around(
        self, index: PredictiveAssociativeIndex, record: Record
    ) -> tuple[tuple[Memory, ...], tuple[Memory, ...], int]:
        """Returns the steps before and after a memory in its session, and the number of its other sessions."""
        sessions = index.trajectories(holding=[record.id], limit=1 + MOST_SESSIONS)  # it may be in any number of them
        name = session_of(record.metadata)
        own = [one for one in index.trajectories(ids=[name] if name else []) if record.id in one.ids] or sessions
        if not own:
            return (), (), 0
        ids = own[0].ids
        at = ids.index(record.id)
        before, after = ids[max(0, at - AROUND) : at], ids[at + 1 : at + 1 + AROUND]
        found = {one.id: memory(one) for one in index.get([*before, *after], missing_ok=True)}
        return (
            tuple(found[id] for id in before if id in found),
            tuple(found[id] for id in after if id in found),
            len(sessions) - 1,
        )

    def feedback(self, question: Question, used: UsedIds, unused: Ids = []) -> StoredMemory:  # noqa: B006
        """Stores the memories that served a question."""
        self._folder.model.encode_query([question])
        with self._folder.writing() as index:
            _check_known(index, [*used, *unused])
            id = index.feedback(question, used, unused=unused, timestamp=terminal.clock())
        self._folder.wrote()
        return StoredMemory(id, None)

    def sessions(self, limit: Count = 20, offset: Offset = 0) -> Sessions:
        """Returns sessions, the newest first."""
        index = self._folder.reader()
        total = index.overview().trajectories
        end = max(0, total - offset)
        start = max(0, end - limit)
        listed = index.trajectories(limit=end - start, offset=start)[::-1] if end > start else []
        last = {
            one.id: one.text or "" for one in index.get([one.ids[-1] for one in listed if one.ids], missing_ok=True)
        }
        found = [
            Session(one.id, len(one.ids), shortened(last.get(one.ids[-1], ""), SHOWN)[0]) for one in listed if one.ids
        ]
        return Sessions(NOTICE, total, tuple(found))

    def forget(self, ids: Ids = [], filter: Filter | None = None, confirm: Offset | None = None) -> Forgotten:  # noqa: B006
        """Returns how many memories would be deleted; with that number as ``confirm``, deletes them."""
        if bool(ids) == (filter is not None):
            raise InvalidInput(
                "Got neither ids nor a filter, or both.", "one of them", "A filter of {} is all memories."
            )
        with self._folder.writing() as index:
            records = index.find(filter) if filter is not None else index.get(list(dict.fromkeys(ids)), missing_ok=True)
            records = [record for record in records if record.id != STATE]
            count, examples = len(records), tuple(memory(record) for record in records[:EXAMPLES])
            if confirm is None or not count:
                return Forgotten(NOTICE, 0, count, count or None, examples)
            if confirm != count:
                raise InvalidInput(
                    f"Got confirm={confirm}; it would forget {counted(count, 'memory')}.",
                    "the number that would be forgotten",
                    f"Call again with confirm={count} if that is right.",
                )
            done = index.delete([record.id for record in records])
        return Forgotten(NOTICE, done, 0, None, examples)

    def status(self) -> Status:
        """Returns the size of the memory in numbers."""
        index = self._folder.reader()
        seen = index.overview()
        return Status(
            str(self._folder.path),
            seen.embedder or self._folder.model.model_name,
            seen.memories,
            seen.trajectories,
            seen.requests,
            seen.fitted,
            self._folder.last_fit,
            self._folder.read_only,
            state_of(index) is not None,
        )

    def related_files(self, paths: Paths = [], question: ChangeInWords = "", k: Count = 10) -> RelatedFiles:  # noqa: B006
        """Returns files that a change needs, by its description or by changed files."""
        if bool(paths) == bool(question):
            raise InvalidInput("Got neither paths nor a question, or both.", "one of them", "Ask twice.")
        code = self._folder.code()
        found = code.changed_with(paths, k) if paths else code.recall(question, k)
        return RelatedFiles(NOTICE, tuple(_file(hit) for hit in found))

    def text_of(self, id: str) -> str:
        """Returns the text of a memory, for its resource.

        Raises:
            UnknownId: there is no such memory.
        """
        (record,) = self._folder.reader().get([id])
        return shortened(record.text or "", LONGEST_RESOURCE)[0]

    def newest(self) -> list[Record]:
        """Returns the last added memories, the newest first."""
        index = self._folder.reader()
        return index.find(_memories(index, None), limit=NEWEST, offset=max(0, len(index) - NEWEST))[::-1]


def _memories(index: PredictiveAssociativeIndex, filter: Mapping[str, object] | None) -> Json | None:
    """Returns the filter, extended to exclude the internal memory of a code memory."""
    if STATE not in index:
        return None if filter is None else dict(filter)
    own: Json = {"kind": {"$ne": "repository"}}
    return {"$and": [own, dict(filter)]} if filter else own


def _served(index: PredictiveAssociativeIndex, ids: set[str], quoted: bool) -> dict[str, list[str]]:
    """Returns reasons for each memory that served past questions: their number and, if ``quoted``, the last of them.

    A filter hides memories, and a question may be about hidden ones: then it is not quoted.
    """
    found: dict[str, list[str]] = {}
    for one in index.feedbacks() if index.overview().requests <= MOST_REQUESTS else ():
        for id, weight in one.used.items():
            if weight > 0 and id in ids:
                found.setdefault(id, []).append(one.text or "a question")
    reasons = {}
    for id, texts in found.items():
        last = f", the last one {shortened(texts[-1], SHOWN)[0]!r}" if quoted else ""
        reasons[id] = [f"served {counted(len(texts), 'past question')}{last}"]
    return reasons


def _file(hit: FileHit) -> RelatedFile:
    why = tuple(f"{(one.date or '')[:10]} {one.commit[:10]} {shortened(one.subject, 200)[0]}" for one in hit.reasons)
    return RelatedFile(hit.path, hit.score, hit.commits, why)


def _check_known(index: PredictiveAssociativeIndex, ids: Sequence[str]) -> None:
    unknown = [id for id in ids if id not in index]
    if unknown:
        raise InvalidInput(
            f"Got unknown ids: {unknown[:5]}.", "ids of memories", "Call recall, and take those it gives."
        )


def _last_time(index: PredictiveAssociativeIndex, session: str) -> float | None:
    """Returns the time of the last step of a session."""
    held = index.trajectories(ids=[session])
    return held[0].timestamps[-1] if held and held[0].timestamps else None
