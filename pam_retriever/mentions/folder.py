"""Reads a folder of documents and splits them at headings, and what is long at paragraphs and sentences.

``formats`` parses the files, and semantic-text-splitter cuts long texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from pam_retriever.errors import InvalidInput, MissingExtra, StorageError, counted
from pam_retriever.mentions.folding import fold
from pam_retriever.mentions.formats import MARKDOWN, SUFFIXES, Section, parse

MOST_BYTES = 64 << 20  # of one file
VERSION = b"3"  # increased when the splitting changes, so that all files are read again
LONGEST_SLUG = 80
LONGEST_PASSAGE = 1_000  # characters without the heading; all-MiniLM embeds about as many, and ignores the rest
CUT_AT_ONCE = 100_000  # characters; the splitter takes time quadratic in the length of a paragraph
_CUT_AT_ONCE = re.compile(rf"(?s).{{1,{CUT_AT_ONCE}}}(?:\s|\Z)|.{{1,{CUT_AT_ONCE}}}")


@dataclass(frozen=True)
class Passage:
    """The text under one heading, or a part of it if it is long.

    Attributes:
        id: the file's path, then ``#`` and the heading in lower case. It changes only if the path or heading changes.
            ``~2`` is added to the next part, or to another passage with the same heading.
        text: the text, with the heading as its first line.
        metadata: ``title`` of the document, ``source`` (the path, with ``/``), ``heading`` (None before the first),
            ``order`` in the file, from 0, and ``aliases`` if the front matter of a Markdown file has some.
    """

    id: str
    text: str
    metadata: dict[str, str | int | list[str] | None]


@dataclass(frozen=True)
class FolderFile:
    """A new or changed file.

    Attributes:
        source: its path within the folder, with ``/``.
        digest: digest of its contents, for ``known`` in the next call.
        passages: its passages, in order; none for an empty file.
    """

    source: str
    digest: str
    passages: list[Passage]


def read_folder(folder: str | Path, known: Mapping[str, str] | None = None) -> Iterator[FolderFile]:
    """Yields the new and changed files of a folder and its subfolders, by path.

    Hidden files and folders, and links that lead out of the folder, are skipped.

    Args:
        folder: the folder to read.
        known: the digest of each file that was read before, by its path within the folder.

    Raises:
        InvalidInput: the folder does not exist; or, when it is read, a file is not UTF-8 or is too large.
        MissingExtra: a parser is not installed.
        StorageError: a file cannot be read.
    """
    known = known or {}
    for source, path in _files(Path(folder)).items():
        contents = _contents(path)
        digest = blake2b(contents, digest_size=16, key=VERSION).hexdigest()
        if known.get(source) != digest:
            yield FolderFile(source, digest, passages_of(source, _decoded(path, contents)))


def check_files(folder: str | Path) -> int:
    """Reads all files of a folder and its subfolders without parsing them; returns how many there are.

    Raises:
        InvalidInput: the folder does not exist; or files are not UTF-8 or too large. The message names them.
        StorageError: a file cannot be read.
    """
    files = _files(Path(folder))
    if wrong := {source: error for source, path in files.items() if (error := _refusal(path))}:
        first, *others = wrong
        more = f" {counted(len(others), 'other file')} cannot be read: {', '.join(others)}." if others else ""
        raise InvalidInput(f"{wrong[first].got}{more}", wrong[first].expected, wrong[first].fix)
    return len(files)


def removed_files(folder: str | Path, known: Mapping[str, str]) -> list[str]:
    """Returns the ``known`` paths that are no longer in the folder."""
    there = _files(Path(folder))
    return [source for source in known if source not in there]


def passages_of(source: str, text: str) -> list[Passage]:
    """Returns the passages of one file.

    Args:
        source: its path within the folder; its suffix selects the parser.
        text: its contents.
    """
    suffix = Path(source).suffix.lower()
    document = parse(suffix, text)
    headings = [one.heading for one in document.sections if one.heading]
    title = document.title or (headings[0] if headings else Path(source).stem)
    path = source.replace("%", "%25").replace("#", "%23")
    taken: set[str] = set()
    found = []
    for order, section in enumerate(part for one in document.sections for part in _parts(one, suffix in MARKDOWN)):
        metadata: dict[str, str | int | list[str] | None] = {
            "title": title,
            "source": source,
            "heading": section.heading,
            "order": order,
        }
        if document.aliases:
            metadata["aliases"] = document.aliases
        found.append(Passage(_id(path, section.heading, taken), section.text, metadata))
    return found


def _parts(section: Section, markdown: bool) -> list[Section]:
    """Returns the parts of a section, each with the heading; the section itself if it is short."""
    head, _, body = section.text.partition("\n") if section.heading else ("", "", section.text)
    if len(body) <= LONGEST_PASSAGE:
        return [section]
    try:
        from semantic_text_splitter import MarkdownSplitter, TextSplitter
    except ImportError as error:
        raise MissingExtra("semantic-text-splitter", "folders", "Reading a long document") from error
    splitter = MarkdownSplitter(LONGEST_PASSAGE) if markdown else TextSplitter(LONGEST_PASSAGE)
    parts = [part for piece in _CUT_AT_ONCE.findall(body) for part in splitter.chunks(piece)]
    return [Section(section.heading, f"{head}\n\n{part}" if head else part) for part in parts]


def _id(path: str, heading: str | None, taken: set[str]) -> str:
    slug = "-".join(fold(heading).split())[:LONGEST_SLUG] if heading else ""
    first = f"{path}#{slug}" if heading is not None else path
    id, count = first, 1
    while id in taken:
        count += 1
        id = f"{first}~{count}"  # no slug contains a tilde
    taken.add(id)
    return id


def _files(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder.", "a folder of documents", "Pass the path of a folder that exists.")
    inside = folder.resolve()
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in relative.parts)
        if not hidden and path.suffix.lower() in SUFFIXES and path.is_file() and inside in path.resolve().parents:
            found[relative.as_posix()] = path
    return found


def _contents(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InvalidInput(f"{path} has {size} bytes.", f"at most {MOST_BYTES}", "Cut it into several files.")
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error}).", "a file to read", "Check its permissions.") from error


def _refusal(path: Path) -> InvalidInput | None:
    """Returns why a file is refused; None if it is not."""
    try:
        _decoded(path, _contents(path))
    except InvalidInput as error:
        return error
    return None


def _decoded(path: Path, contents: bytes) -> str:
    try:
        return contents.decode("utf-8-sig").replace("\x00", " ")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is no UTF-8 ({error}).", "text in UTF-8", "Convert it, or move it out of the folder."
        ) from error
