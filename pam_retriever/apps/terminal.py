"""The terminal: arguments are checked, and texts cannot control the output or cause encoding errors."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pam_retriever.errors import InvalidInput, NotFitted, PAMError, UnknownId
from pam_retriever.store.faults import ADVICE

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
CLOSED_PIPE = 141  # the exit status that a shell reports for a write to a closed pipe
JOINERS = "\u200c\u200d"  # these occur within words of some scripts, and within emoji


class Parser(ArgumentParser):
    """Takes options by their whole names: otherwise ``search --mode association`` would name a model.

    The last argument may stand after options: ``recall notes -k 3 "wet stairs"``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parses like argparse of Python 3.13, where an optional argument may stand after an option."""
        parsed, left = super().parse_known_args(args, namespace)
        last = [one for one in self._actions if one.nargs == "?" and not one.option_strings]
        if len(left) == len(last) == 1 and left[0][:1] != "-" and getattr(parsed, last[0].dest) is None:
            try:
                setattr(parsed, last[0].dest, path(left[0]) if last[0].type is path else left[0])
            except ArgumentTypeError as error:
                self.error(str(error))
            return parsed, []
        return parsed, left


def safe(text: str) -> str:
    """Returns a text on one line, without characters that move the cursor, change colours or reverse the text."""
    return "".join(one if one.isprintable() or one in JOINERS else _escaped(one) for one in text)


def _escaped(character: str) -> str:
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")


def message(error: Exception, parsed: Namespace) -> str:
    """Returns what to print about an error, on one line, with a remedy on the command line.

    The system's own errors about a path name none.
    """
    if isinstance(error, OSError) and not isinstance(error, PAMError):
        if error.errno in FULL:
            told = f"{error.filename or 'The output'}: {error.strerror}. Expected a disk that takes it."
            return safe(f"{told} {ADVICE[error.errno]}")
        if error.filename is not None:
            told = f"{error.filename}: {error.strerror}. Expected a path that exists and may be used."
            return safe(f"{told} Check its spelling and its permissions.")
    if not isinstance(error, PAMError):
        return safe(str(error))
    fix = error.fix  # which names arguments and calls of Python
    if isinstance(error, NotFitted):
        tenant = f" --tenant {shlex.quote(parsed.tenant)}" if parsed.tenant else ""
        command = f"pam-retriever fit EVENTS.jsonl {shlex.quote(str(parsed.index))}{tenant}"
        fix = f"Use pam-retriever search, or fit events first: {command}"
    elif hasattr(parsed, "same_embedder"):
        fix = fix.replace("same_embedder=True", "--same-embedder")
    return safe(f"{error.got} Expected {error.expected}. {fix}")


def check_known(id: str | None, index: Container[str]) -> None:
    """Checks that a memory has the id of ``--id``, if it was given.

    Raises:
        UnknownId: no memory has it.
    """
    if id is not None and id not in index:
        raise UnknownId(f"Got --id {id}, which is not in the index.", "an id that is", "recall and search print ids.")


def path(text: str) -> Path:
    """Returns the path that an argument names.

    Raises:
        ArgumentTypeError: the argument is empty: Python would read it as the current folder.
    """
    if not text:
        raise ArgumentTypeError("expected a path, got ''; . is the current folder")
    return Path(text)


def json_object(given: str) -> dict[str, Any]:
    """Parses a JSON object from the command line.

    Raises:
        ArgumentTypeError: the argument is no JSON object.
    """
    try:
        read = json.loads(given)
    except ValueError as error:
        raise ArgumentTypeError(f'{given!r} is no JSON ({error}), such as \'{{"user": "ann"}}\'') from error
    if not isinstance(read, dict):
        raise ArgumentTypeError(f'{given!r} is no JSON object, such as \'{{"user": "ann"}}\'')
    return read


def refuse(parsed: Namespace, options: Sequence[str], beside: str, needed: str) -> None:
    """Refuses options that another argument makes useless.

    Raises:
        InvalidInput: one of the options was given.
    """
    given = [f"--{name}" for name in options if getattr(parsed, name.replace("-", "_"), None)]
    if given:
        raise InvalidInput(f"Got {' and '.join(given)} with {beside}.", needed, "Leave it out: it would be ignored.")


def refuse_model(parsed: Namespace, beside: str) -> None:
    """Refuses the options of the embedder where nothing is embedded.

    Raises:
        InvalidInput: one of the options was given.
    """
    refuse(parsed, ("model", "same-embedder"), beside, "a text to embed")


def prepare() -> None:
    """Sets up the output: characters outside the encoding become escapes; output to a closed stream is discarded."""
    if sys.stdout is None:  # the shell closed it: ``>&-``
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def clock() -> datetime:
    """Returns the time of this machine, with its offset: the days of the user are meant, not those of UTC."""
    return datetime.now(timezone.utc).astimezone()


def json_line(value: Mapping[str, Any]) -> str:
    """Returns JSON on one line, in characters that standard output supports."""
    plain = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") != "utf8"
    return json.dumps(value, ensure_ascii=plain)


def end_output() -> None:
    """Writes the remaining output, or discards it on failure: otherwise Python would exit with status 120."""
    try:
        sys.stdout.flush()
    except OSError:  # a closed pipe, a full disk
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
