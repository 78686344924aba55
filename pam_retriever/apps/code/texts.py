"""The texts of files and commits, in the form that an index stores."""

from __future__ import annotations

import re

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
CONTENT = 2_000  # stored characters of a file: sentence models read about the first thousand
MESSAGE = 1_000  # characters of the message of a commit
TRAILER = re.compile(r"^(?:[A-Z][A-Za-z]*(?:-[A-Za-z]+)*-(?:by|id|Id)|Change-Id|git-svn-id|Cc|Fixes|Closes): .*$", re.M)
COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|;|<!--|\.\.)")
LICENCE = re.compile(r"copyright|licen[cs]e|spdx", re.IGNORECASE)


def file_text(path: str, content: str) -> str:
    """Returns a file as a text: its path, the words of the path, and the beginning of its contents."""
    return f"{path}\n{path_words(path)}\n{_without_licence(content)[:CONTENT]}".rstrip()


def path_words(path: str) -> str:
    """Returns the words of a path: ``src/HTTPServer_v2.py`` has src, http, server, v, 2 and py."""
    return " ".join(word.lower() for word in WORD.findall(path))


def message_text(message: str) -> str:
    """Returns a message as a request, without trailer lines such as "Signed-off-by"."""
    return re.sub(r"\n{3,}", "\n\n", TRAILER.sub("", message)).strip()[:MESSAGE].rstrip()


def subject(message: str) -> str:
    """Returns the first line of a message."""
    return message.strip().split("\n", 1)[0].strip()


def _without_licence(content: str) -> str:
    """Returns the contents without a leading comment about copyright."""
    lines = content.lstrip("\ufeff").splitlines()
    end = 0
    while end < len(lines) and (not lines[end].strip() or COMMENT.match(lines[end])):
        end += 1
    return "\n".join(lines[end:] if LICENCE.search("\n".join(lines[:end])) else lines)
