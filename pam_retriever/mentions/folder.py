"""Reads a folder of documents and splits them at headings, and what is long at paragraphs and sentences.

markdown-it-py parses Markdown, PyYAML its front matter, docutils reStructuredText, and selectolax HTML.
semantic-text-splitter cuts long texts. A passage of Markdown is the source text with its links. A passage of another
format is its words, with links in Markdown syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from pam_retriever.errors import InvalidInput, MissingExtra, StorageError, counted
from pam_retriever.mentions.folding import fold
from pam_retriever.mentions.names import MOST_NAMES

if TYPE_CHECKING:
    from docutils import nodes

MARKDOWN = (".md", ".markdown")
SUFFIXES = (*MARKDOWN, ".txt", ".rst", ".html", ".htm")
MOST_BYTES = 64 << 20  # of one file
VERSION = b"3"  # increased when the splitting changes, so that all files are read again
LONGEST_SLUG = 80
LONGEST_PASSAGE = 1_000  # characters without the heading; all-MiniLM embeds about as many, and ignores the rest
CUT_AT_ONCE = 100_000  # characters; the splitter takes time quadratic in the length of a paragraph
_CUT_AT_ONCE = re.compile(rf"(?s).{{1,{CUT_AT_ONCE}}}(?:\s|\Z)|.{{1,{CUT_AT_ONCE}}}")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)??---[ \t]*(?:\n|\Z)", re.S)
_FRONT_TITLE = re.compile(r"^title:[ \t]*(.+?)[ \t]*$", re.M)
_SILENT = ["script", "style", "template", "noscript", "head"]
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote br dd div dl dt figcaption figure footer form header hr li main nav ol p pre "
        "section table td th tr ul",
    )
)


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


@dataclass(frozen=True)
class _Front:
    """The names of a Markdown file in its front matter."""

    title: str | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Section:
    heading: str | None
    text: str


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
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parsers count lines
    front, body = _front_matter(text) if suffix in MARKDOWN else (_Front(), text)
    title, sections = _READERS.get(suffix, _plain)(body)
    headings = [one.heading for one in sections if one.heading]
    title = front.title or title or (headings[0] if headings else Path(source).stem)
    path = source.replace("%", "%25").replace("#", "%23")
    taken: set[str] = set()
    found = []
    for order, section in enumerate(part for one in sections for part in _parts(one, suffix in MARKDOWN)):
        metadata: dict[str, str | int | list[str] | None] = {
            "title": title,
            "source": source,
            "heading": section.heading,
            "order": order,
        }
        if front.aliases:
            metadata["aliases"] = front.aliases
        found.append(Passage(_id(path, section.heading, taken), section.text, metadata))
    return found


def _parts(section: _Section, markdown: bool) -> list[_Section]:
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
    return [_Section(section.heading, f"{head}\n\n{part}" if head else part) for part in parts]


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


def _plain(text: str) -> tuple[str | None, list[_Section]]:
    return None, [_Section(None, text.strip())] if text.strip() else []


def _front_matter(text: str) -> tuple[_Front, str]:
    """Reads the YAML between two lines ``---`` at the beginning of a Markdown file; returns also the rest."""
    found = _FRONT_MATTER.match(text)
    if not found:
        return _Front(), text
    try:
        import yaml
    except ImportError as error:
        raise MissingExtra("pyyaml", "folders", "Reading the front matter of Markdown") from error
    body = text[found.end() :]
    try:
        # strings stay strings (a title may be a year or a date), and nothing but lists and dicts is made of them
        read = yaml.load(found[1] or "", yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError):  # for example a title with a colon and without quotes
        title = _FRONT_TITLE.search(found[1])
        return _Front(title[1] if title else None), body
    if not isinstance(read, dict):
        return _Front(), body
    title, aliases = read.get("title"), read.get("aliases")
    listed = [aliases] if isinstance(aliases, str) else aliases if isinstance(aliases, list) else []
    names = [one for one in listed if isinstance(one, str) and one]
    return _Front(title if isinstance(title, str) else None, names[:MOST_NAMES]), body


def _markdown(text: str) -> tuple[str | None, list[_Section]]:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra("markdown-it-py", "folders", "Reading Markdown") from error
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").parse(text)
    heads: list[tuple[int, str]] = []  # line, heading
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.level == 0 and token.map:
            inline = tokens[at + 1]
            spoken = "".join(child.content for child in inline.children or [] if child.type != "html_inline")
            heads.append((token.map[0], spoken.strip()))
    starts = [(0, None), *heads]
    ends = [line for line, _ in heads] + [len(lines)]
    sections = [
        _Section(heading, "\n".join(lines[line:end]).strip()) for (line, heading), end in zip(starts, ends, strict=True)
    ]
    return None, [one for one in sections if one.text]


def _restructured(text: str) -> tuple[str | None, list[_Section]]:
    try:
        from docutils import nodes
        from docutils.core import publish_doctree
    except ImportError as error:
        raise MissingExtra("docutils", "folders", "Reading reStructuredText") from error
    settings = {
        "report_level": 5,
        "halt_level": 5,
        "file_insertion_enabled": False,
        "raw_enabled": False,
        "doctitle_xform": False,
        "_disable_config": True,
    }
    sections: list[_Section] = []

    def read(node: nodes.Element, heading: str | None) -> None:
        skipped = (nodes.section, nodes.title, nodes.system_message, nodes.comment)
        texts = [_with_targets(one) for one in node.children if not isinstance(one, skipped)]
        text = "\n\n".join(one for one in ([heading] if heading else []) + texts if one.strip())
        if text:
            sections.append(_Section(heading, text))
        for one in node.children:
            if isinstance(one, nodes.section):
                title = next((child.astext() for child in one.children if isinstance(child, nodes.title)), None)
                read(one, title)

    read(publish_doctree(text, settings_overrides=settings), None)
    return None, sections


def _with_targets(node: nodes.Node) -> str:
    """Returns the words of a node, with links in Markdown syntax."""
    from docutils import nodes

    targets = [f"[{link.astext()}]({link['refuri']})" for link in node.findall(nodes.reference) if link.get("refuri")]
    return " ".join([node.astext(), *targets])


def _html(text: str) -> tuple[str | None, list[_Section]]:
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingExtra("selectolax", "folders", "Reading HTML") from error
    tree = LexborHTMLParser(text)
    named = tree.css_first("head > title")
    title = named.text(strip=True) if named is not None else None
    tree.strip_tags(_SILENT, recursive=True)
    parts: list[str] = []
    heads: list[tuple[int, str]] = []  # position in parts, heading
    for node in tree.body.traverse(include_text=True) if tree.body is not None else ():
        tag = node.tag
        if tag in _HEADINGS:
            heading = " ".join(node.text(strip=False).split())
            heads.append((len(parts), heading))
            parts.append("\n")
        elif tag in _BLOCKS:
            parts.append("\n")
        elif tag == "a" and (target := node.attributes.get("href")):
            parts.append(f" [{' '.join(node.text().split())}](<{target}>) ")
        elif tag == "-text" and not _within(node, "a"):
            parts.append(node.text_content or "")
    starts = [(0, None), *heads]
    ends = [at for at, _ in heads] + [len(parts)]
    sections = [
        _Section(heading or None, _tidy("".join(parts[at:end])))
        for (at, heading), end in zip(starts, ends, strict=True)
    ]
    return title or None, [one for one in sections if one.text]


def _within(node: object, tag: str) -> bool:
    """Whether a node is inside a link, whose words are counted already."""
    parent = getattr(node, "parent", None)
    while parent is not None:
        if parent.tag == tag and parent.attributes.get("href"):
            return True
        parent = parent.parent
    return False


def _tidy(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


_READERS: dict[str, Callable[[str], tuple[str | None, list[_Section]]]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _restructured,
    ".html": _html,
    ".htm": _html,
    ".txt": _plain,
}
