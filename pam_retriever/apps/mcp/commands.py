"""The command line of the server: ``pam-retriever mcp FOLDER``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from pam_retriever.apps import terminal
from pam_retriever.apps.code import state_of
from pam_retriever.apps.mcp.folder import FIT_AFTER, SharedFolder
from pam_retriever.embedding.text_models import TextModel
from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.store.folder.manifest import has_manifest

if TYPE_CHECKING:
    import socket

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

HIGHEST_PORT = 65_535
INTERRUPTED = 130  # exit status, as of the other commands


def add_mcp(commands: Commands, model: Callable[[argparse.Namespace, str | None], str]) -> None:
    """Adds the command ``mcp``."""
    command = commands.add_parser("mcp", help="serve an index to agents, by the Model Context Protocol")
    command.add_argument("index", type=terminal.path, help="folder of the index; created if it does not exist")
    command.add_argument(
        "--model",
        help="sentence-transformers model, by name or folder (default: the model of the index, else the built-in one)",
    )
    command.add_argument("--read-only", action="store_true", help="offer only tools that do not change the index")
    command.add_argument(
        "--http", type=int, metavar="PORT", help="serve HTTP on this port of localhost, instead of stdio"
    )
    command.set_defaults(run=lambda parsed: _serve(parsed, model))


def _serve(parsed: argparse.Namespace, model: Callable[[argparse.Namespace, str | None], str]) -> None:
    if parsed.http is not None and not 0 <= parsed.http <= HIGHEST_PORT:
        raise InvalidInput(f"Got --http {parsed.http}.", f"a port from 0 to {HIGHEST_PORT}", "0 takes a free one.")
    try:
        import anyio

        from pam_retriever.apps.mcp.server import MemoryServer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {
            "mcp",
            "mcp_types",
            "anyio",
            "uvicorn",
            "pydantic",
        }:
            raise
        raise MissingExtra("mcp", "mcp", "The server") from error
    os.environ.setdefault("TQDM_DISABLE", "1")
    used, code = None, False
    if has_manifest(parsed.index):
        with PredictiveAssociativeIndex.open(parsed.index, read_only=True) as index:
            used, code = index.embedder_name, state_of(index) is not None
    folder = SharedFolder(
        parsed.index,
        TextModel(model(parsed, used)),
        read_only=parsed.read_only,
        fit_after=None if code else FIT_AFTER,
    )
    folder.reader()  # reports errors before an agent asks
    server = MemoryServer(folder, code)
    try:
        if parsed.http is None:
            if sys.stdin.isatty():  # no client has started this command
                sys.stderr.write(
                    f"{terminal.safe(str(parsed.index))} is served on standard input and output, to the client that "
                    "starts this command. --http PORT serves it over HTTP. Ctrl-C ends it.\n"
                )
            signal.signal(signal.SIGINT, _end)
            anyio.run(server.run_stdio_async)
        else:
            with _socket(parsed.http) as listening:
                anyio.run(server.serve_http, listening)
    finally:
        folder.close()


def _end(*_: object) -> NoReturn:
    """Ends the process on Ctrl-C: a thread waits for the next line of the client, and nothing can interrupt it.

    What was acknowledged is on disk already, as after any kill.
    """
    sys.stderr.write("\npam-retriever: interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _socket(port: int) -> socket.socket:
    from pam_retriever.explore.loopback import listen

    try:
        return listen(port)
    except OSError as error:
        raise InvalidInput(f"Got --http {port}: {error.strerror}.", "a free port", "0 takes one.") from error
