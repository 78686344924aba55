"""What the command line writes: nothing that a text says may act on the terminal, nor end in a traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import Any

CLOSED_PIPE = 141  # what a shell reports of a program that wrote to a closed pipe
JOINERS = "\u200c\u200d"  # within words of some scripts, and within emoji


def safe(text: str) -> str:
    """A text on one line, without characters that move the cursor, change colours or turn the direction of writing."""
    return "".join(one if one.isprintable() or one in JOINERS else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")


def prepare() -> None:
    """Has what the encoding of a stream lacks written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def json_line(value: Mapping[str, Any]) -> str:
    """JSON on one line, in the characters that standard output has."""
    import json

    plain = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") != "utf8"
    return json.dumps(value, ensure_ascii=plain)


def end_of_pipe() -> int:
    """Nobody reads any more: what is still to be written goes nowhere; returns the exit status."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return CLOSED_PIPE
