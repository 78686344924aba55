"""Runs the server: a socket on this machine, a token, a thread, a browser."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from typing import TYPE_CHECKING

from pam_retriever.display import explorer_html
from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.explore.loopback import GRACE, HOST, hosts_at, listen
from pam_retriever.explore.source import Source

if TYPE_CHECKING:
    import socket

    import uvicorn


class Explorer:
    """A running explorer.

    Attributes:
        address: the address of the page, with its token.
    """

    def __init__(self, server: uvicorn.Server, listening: socket.socket, address: str) -> None:
        self.address = address
        self._server, self._listening = server, listening
        self._thread = threading.Thread(target=self._run, name="explorer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listening])

    def wait(self) -> None:
        """Waits until the explorer is closed. Ctrl-C closes it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)  # an unlimited wait would not see Ctrl-C on every system
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Stops the explorer. A second call does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.address})"

    def _repr_html_(self) -> str:
        return explorer_html(self.address)


def explore(source: Source, port: int = 0, browser: bool = True, fragment: str = "") -> Explorer:
    """Starts the explorer, and prints its address when it listens.

    Args:
        source: the index.
        port: the port of the server; 0 for a free one.
        browser: whether to open the page in the browser of this machine, if it has one.
        fragment: the part of the address after "#": the first view.

    Raises:
        InvalidInput: the port is taken, or is not a port.
        MissingExtra: starlette or uvicorn is not installed.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65_536:
        raise InvalidInput(f"Got port={port!r}.", "a port, 0 to 65535", "Use 0 for a free one.")
    try:
        import uvicorn

        from pam_retriever.explore.server import make_app
    except ImportError as error:
        raise MissingExtra(error.name or "uvicorn", "explore", "The explorer") from error
    try:
        listening = listen(port)
    except OSError as error:
        raise InvalidInput(f"Got port={port}, which cannot be used ({error}).", "a free port", "Use 0.") from error
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = make_app(source, token, hosts_at(port))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
    )
    address = f"http://{HOST}:{port}/?token={token}"
    explorer = Explorer(uvicorn.Server(config), listening, address)
    print(address, flush=True)  # noqa: T201 - a person needs it, and so does a script
    if browser:
        webbrowser.open(address + (f"#{fragment}" if fragment else ""))
    return explorer
