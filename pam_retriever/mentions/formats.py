"""Parses documents into titles and sections: Markdown, reStructuredText, HTML and plain text.

markdown-it-py parses Markdown, PyYAML its front matter, docutils reStructuredText, and selectolax HTML. A section of
Markdown is the source text with its links. A section of another format is its words, with links in Markdown syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pam_retriever.errors import MissingExtra
from pam_retriever.mentions.names import MOST_NAMES

if TYPE_CHECKING:
    from docutils import nodes

MARKDOWN = (".md", ".markdown")
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
class Section:
    """The text under one heading, which is its first line; None before the first heading."""

    heading: str | None
    text: str


@dataclass(frozen=True)
class Document:
    """A parsed file.

    Attributes:
        title: its title; None if it says none.
        aliases: further names, from the front matter of Markdown.
        sections: its sections that have text, in order.
    """

    title: str | None
    aliases: list[str]
    sections: list[Section]


@dataclass(frozen=True)
class _Front:
    """The names of a Markdown file in its front matter."""

    title: str | None = None
    aliases: list[str] = field(default_factory=list)


def parse(suffix: str, text: str) -> Document:
    """Parses the contents of a file.

    Args:
        suffix: of its name, in lower case; one of ``SUFFIXES``, or it is read as plain text.
        text: its contents.

    Raises:
        MissingExtra: the parser is not installed.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as the parsers count lines
    front, body = _front_matter(text) if suffix in MARKDOWN else (_Front(), text)
    title, sections = _READERS.get(suffix, _plain)(body)
    return Document(front.title or title, front.aliases, sections)


def _plain(text: str) -> tuple[str | None, list[Section]]:
    return None, [Section(None, text.strip())] if text.strip() else []


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


def _markdown(text: str) -> tuple[str | None, list[Section]]:
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
        Section(heading, "\n".join(lines[line:end]).strip()) for (line, heading), end in zip(starts, ends, strict=True)
    ]
    return None, [one for one in sections if one.text]


def _restructured(text: str) -> tuple[str | None, list[Section]]:
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
    sections: list[Section] = []

    def read(node: nodes.Element, heading: str | None) -> None:
        skipped = (nodes.section, nodes.title, nodes.system_message, nodes.comment)
        texts = [_with_targets(one) for one in node.children if not isinstance(one, skipped)]
        text = "\n\n".join(one for one in ([heading] if heading else []) + texts if one.strip())
        if text:
            sections.append(Section(heading, text))
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


def _html(text: str) -> tuple[str | None, list[Section]]:
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
        Section(heading or None, _tidy("".join(parts[at:end]))) for (at, heading), end in zip(starts, ends, strict=True)
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


_READERS: dict[str, Callable[[str], tuple[str | None, list[Section]]]] = {
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _restructured,
    ".html": _html,
    ".htm": _html,
    ".txt": _plain,
}
SUFFIXES = tuple(_READERS)
