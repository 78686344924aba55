"""A socket that listens on this machine only."""

from __future__ import annotations

import socket
import sys

HOST = "127.0.0.1"
BACKLOG = 128
GRACE = 3  # seconds that requests have to end when a server is closed; a client may never send the rest of one


def listen(port: int) -> socket.socket:
    """Returns a socket that accepts connections from now on; port 0 chooses a free port.

    Raises:
        OSError: the port is taken, or this user may not use it.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":  # on Windows it would let another program use the same port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def hosts_at(port: int) -> frozenset[str]:
    """Returns what the header Host names if it is meant for this port of this machine."""
    names = (HOST, "localhost")
    alone = names if port == 80 else ()  # browsers leave out the default port of http
    return frozenset({*(f"{name}:{port}" for name in names), *alone})
