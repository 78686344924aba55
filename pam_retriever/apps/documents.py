"""``pam-retriever fit FOLDER INDEX``: stores the documents of a folder, one memory per passage."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.mentions.folder import FolderFile, Passage, check_files, read_folder, removed_files
from pam_retriever.mentions.formats import SUFFIXES
from pam_retriever.types import Trajectory

AT_ONCE = 256  # passages that are embedded and stored per call, at least
FOLDER, DIGEST = "folder", "digest"  # metadata keys; the first passage of a file has its digest


@dataclass
class Counts:
    """The numbers of files by outcome."""

    new: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    passages: int = 0

    def __str__(self) -> str:
        files = self.new + self.changed + self.same
        return (
            f"{counted(files, 'file')}: {self.new:,} new, {self.changed:,} changed, {self.same:,} as they were, "
            f"{self.removed:,} gone; {counted(self.passages, 'passage')} stored"
        )


def check_folder(parsed: argparse.Namespace) -> None:
    """Checks that there are documents, and no option for events or training: these do not apply to documents.

    Raises:
        InvalidInput: such an option was given, no file has a suffix that is read, or a file is not UTF-8.
        StorageError: a file cannot be read.
    """
    given = [one for one in parsed.of_events if getattr(parsed, one.dest) != one.default]
    if given:
        raise InvalidInput(
            f"Got {given[0].option_strings[0]} with the folder {parsed.events}.",
            "a file of events, which it is about",
            "Leave it out: documents are stored, and need no training.",
        )
    if not check_files(parsed.events):
        raise InvalidInput(
            f"{parsed.events} has no documents.", f"files that end in {', '.join(SUFFIXES)}", "Check the folder."
        )


def store_folder(index: PredictiveAssociativeIndex, folder: Path, name: str | None = None) -> Counts:
    """Stores new and changed files of a folder, and deletes removed ones from the index.

    The passages of a file are a trajectory in their order. After an interruption, stored files stay, and the next call
    continues.

    Args:
        index: an index with an embedder.
        folder: a folder of Markdown, plain text, reStructuredText and HTML.
        name: name for the folder in the index; None for the name of the folder.

    Raises:
        InvalidInput: most of the files that the index has under this name are missing, so that it is probably another
            folder: nothing was stored. Or a file is not UTF-8, which ``check_folder`` finds before.
        MissingExtra: a parser is not installed.
        StorageError: a file cannot be read, or the disk is full.
    """
    name = name or folder.resolve().name
    stored = _stored(index, name)
    known = {source: str(digest) for source, (digest, _) in stored.items()}
    gone = removed_files(folder, known)
    if 2 * len(gone) > len(known):
        raise InvalidInput(
            f"Of {counted(len(known), 'file')} that the index has of the folder {name!r}, "
            f"{len(gone):,} cannot be found in {folder}.",
            "the folder that was read before",
            f"Pass --name for another folder, or delete(where={{{FOLDER!r}: {name!r}}}) first.",
        )
    index.delete([id for source in gone for id in stored[source][1]])
    counts = Counts(removed=len(gone))
    for files in _batches(read_folder(folder, known)):
        _store(index, name, files, {id for file in files for id in stored.get(file.source, ("", []))[1]})
        for file in files:
            counts.new += file.source not in stored and bool(file.passages)  # a file without text is never stored
            counts.changed += file.source in stored
            counts.passages += len(file.passages)
    counts.same = len(known) - len(gone) - counts.changed
    return counts


def _stored(index: PredictiveAssociativeIndex, name: str) -> dict[str, tuple[object, list[str]]]:
    """Returns digest and passage ids of each stored file; None as digest if the file was not stored completely."""
    found: dict[str, tuple[object, list[str]]] = {}
    for record in index.find({FOLDER: name}):
        digest, ids = found.get(record.metadata["source"], (None, []))
        found[record.metadata["source"]] = record.metadata.get(DIGEST) or digest, [*ids, record.id]
    return found


def _batches(files: Iterable[FolderFile]) -> Iterator[list[FolderFile]]:
    from tqdm.auto import tqdm

    batch: list[FolderFile] = []
    for file in tqdm(files, desc="files", unit="file", disable=None):
        batch.append(file)
        if sum(len(one.passages) for one in batch) >= AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _store(index: PredictiveAssociativeIndex, name: str, files: list[FolderFile], before: set[str]) -> None:
    """Stores files. Their digests are stored last: after a kill, the next call reads the files again."""
    passages = [(_id(name, one), one) for file in files for one in file.passages]
    index.delete(sorted(before - {id for id, _ in passages}))
    if not passages:
        return
    metadatas = {id: {**one.metadata, FOLDER: name} for id, one in passages}
    index.add(ids=list(metadatas), texts=[one.text for _, one in passages], metadatas=list(metadatas.values()))
    orders = [(file, [_id(name, one) for one in file.passages]) for file in files if file.passages]
    index.observe_many([Trajectory(ids=ids, id=f"{name}/{file.source}") for file, ids in orders if len(ids) > 1])
    firsts = index.get([ids[0] for _, ids in orders])
    index.add(
        [first.vector for first in firsts],
        [first.id for first in firsts],
        [first.text for first in firsts],
        [{**first.metadata, DIGEST: file.digest} for first, (file, _) in zip(firsts, orders, strict=True)],
    )


def _id(name: str, passage: Passage) -> str:
    return f"{name}/{passage.id}"
