"""kill -9 of a working MCP server, next to another server on the same folder.

    python -m benchmarks.reliability.mcp_kills --kills 200

Two servers share a folder. The official client of each stores memories, gives feedback and deletes without a pause. One
server is killed at a random moment; the other must continue to answer every call. Then the folder must contain every
call that either server acknowledged, in the order of its session, and every call in flight completely or not at all;
``check`` must find no fault. Every 20 kills the second server is killed, too, and a new folder begins. ``--serve
FOLDER`` runs such a server; texts get vectors by their words. Servers are forked from a process that has imported the
library, so that each run takes a second. The program that the client starts passes its standard streams to a forked
server, and waits.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import torch
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks import report
from benchmarks.reliability.kills import warm_up
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.mcp.folder import SharedFolder
from pam_retriever.apps.mcp.server import MemoryServer
from pam_retriever.explore.loopback import listen
from pam_retriever.store.folder.repair import check

LIVES = 20  # kills per folder
SOCKET = "forks"
HAND_OVER = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
socket.send_fds(connection, ["\\n".join(sys.argv[2:]).encode()], [0, 1, 2])
connection.recv(1)  # until the server is dead
"""
LONGEST = 1.2  # seconds until the kill
DIM = 64


class WordModel:
    """Vectors that count words, instead of a model."""

    model_name = "words"

    def encode_document(self, texts: list[str], show_progress_bar: bool = False) -> np.ndarray:  # noqa: ARG002
        rows = np.full((len(texts), DIM), 1e-3, np.float32)
        for at, text in enumerate(texts):
            for word in text.lower().split():
                rows[at, sum(word.encode()) * 31 % DIM] += 1
        return rows

    encode_query = encode_document


@dataclass
class ClientLog:
    """The actions of a client in one session."""

    session: str
    remembered: list[str] = field(default_factory=list)
    forgotten: set[str] = field(default_factory=set)
    feedback: list[str] = field(default_factory=list)
    flight: str = ""  # the call that did not return
    failures: list[str] = field(default_factory=list)


async def work(client: Client, log: ClientLog, seed: int) -> None:
    """Calls tools until the server is killed."""
    random = np.random.default_rng(seed)
    number = 0
    while True:
        draw = float(random.random())
        there = [id for id in log.remembered if id not in log.forgotten]
        if draw < 0.7 or len(there) < 3:
            log.flight = "remember"
            found = await call(client, log, "remember", text=f"{log.session} step {number}", session=log.session)
            log.remembered += [found["id"]] if found else []
            number += 1
        elif draw < 0.8:
            log.flight = "feedback"
            used = there[int(random.integers(len(there)))]
            found = await call(client, log, "feedback", question=f"what of {number}?", used=[used])
            log.feedback += [f"{found['id']} {used}"] if found else []
        elif draw < 0.9:
            id = there[int(random.integers(len(there)))]
            log.flight = f"forget {id}"
            if await call(client, log, "forget", ids=[id], confirm=1):
                log.forgotten.add(id)
        else:
            log.flight = "recall"
            await call(client, log, "recall", question=f"{log.session} step {number - 1}", k=3)
        log.flight = ""


async def call(client: Client, log: ClientLog, tool: str, **arguments: Any) -> dict[str, Any] | None:
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        log.failures.append(f"{tool}: {answer.content[0]}")
        return None
    return answer.structured_content


async def live(folder: Path, log: ClientLog, seed: int, fit_after: int, seconds: float | None, ends: Ends) -> None:
    """Runs a server and its client until the server is killed: after some seconds, or when the others are done."""
    note = folder.parent / f"pid-{log.session}"
    arguments = [str(folder.parent / SOCKET), str(folder), str(note), str(fit_after)]
    parameters = StdioServerParameters(command=sys.executable, args=["-I", "-S", "-c", HAND_OVER, *arguments])
    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("status", {})
        ends.started.set()
        async with anyio.create_task_group() as tasks:

            async def kill() -> None:
                if seconds is None:
                    await ends.done.wait()
                else:
                    await anyio.sleep(seconds)
                ends.killed = True
                os.kill(int(note.read_text()), signal.SIGKILL)
                await anyio.sleep(0.3)
                tasks.cancel_scope.cancel()

            tasks.start_soon(kill)
            try:
                await work(client, log, seed)
            except (MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                if not ends.killed:
                    log.failures.append(f"the server died by itself: {error!r}")


@dataclass
class Ends:
    """Signals the start of a server, and the time to kill it; records whether it was killed."""

    started: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)
    killed: bool = False


async def folder_of_lives(folder: Path, lives: int, seed: int, counts: Counter[str]) -> list[str]:
    """Runs ``lives`` kills on one folder; returns lost or wrong data."""
    random = np.random.default_rng(seed)
    stays, ends = ClientLog(f"stays {seed}"), Ends()
    log = [stays]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live, folder, stays, seed, 40, None, ends)
        await ends.started.wait()
        for life in range(lives):
            log.append(ClientLog(f"dies {seed} {life}"))
            await live(folder, log[-1], seed + life, 10_000, float(random.uniform(0, LONGEST)), Ends())
            counts["kills"] += 1
            counts[f"in flight: {log[-1].flight.split()[0] if log[-1].flight else 'nothing'}"] += 1
        ends.done.set()
        counts["kills of the other server"] += 1
    return compare(folder, log, counts)


def compare(folder: Path, log: list[ClientLog], counts: Counter[str]) -> list[str]:
    """Returns acknowledged data that the folder lacks, and data that no client sent."""
    wrong = [f"{folder.name}: {line}" for line in check(folder)]
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        steps = {one.id: list(one.ids) for one in index.trajectories()}
        feedback = {one.id for one in index.feedbacks()}
        for one in log:
            counts["acknowledged"] += len(one.remembered) + len(one.forgotten) + len(one.feedback)
            wrong += [f"{one.session}: {failure}" for failure in one.failures]
            maybe = one.flight.removeprefix("forget ")
            there = [id for id in one.remembered if id not in one.forgotten and id != maybe]
            found = [id for id in steps.get(one.session, []) if id != maybe]
            extra = found[len(there) :]
            if found[: len(there)] != there or len(extra) > (one.flight == "remember"):
                wrong.append(f"{one.session}: {len(there)} steps acknowledged, {len(found)} there, or in another order")
            wrong += [f"{one.session}: {id} was forgotten and is there" for id in one.forgotten if id in index]
            wrong += [f"{one.session}: {id} is lost" for id in there if id not in index]
            for row in one.feedback:  # deleting a memory also deletes the feedback that used it
                id, used = row.split()
                if used in index and id not in feedback:
                    wrong.append(f"{one.session}: feedback {id} is lost")
    return wrong


def serve(folder: Path, fit_after: int, port: int | None) -> None:
    """Runs a server that needs no model."""
    shared = SharedFolder(folder, WordModel(), fit_after=fit_after)
    server = MemoryServer(shared, code=False)
    if port is None:
        anyio.run(server.run_stdio_async)
    else:
        with listen(port) as listening:
            anyio.run(server.serve_http, listening)
    shared.close()


def fork_servers(listening: socket.socket) -> None:
    """Forks a server process for each connection, which takes over the client's streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listening.accept()
        message, streams, _, _ = socket.recv_fds(connection, 10_000, 3)
        if not os.fork():
            folder, note, fit_after = message.decode().split("\n")
            listening.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            Path(note).write_text(str(os.getpid()))
            try:
                serve(Path(folder), int(fit_after), None)
            finally:
                os._exit(0)
        for stream in streams:
            os.close(stream)
        connection.close()


def run(kills: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Returns the counts, and every difference."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(Path(folder) / SOCKET))
        listening.listen()
        forks = os.fork()
        if not forks:
            try:
                fork_servers(listening)
            finally:
                os._exit(1)
        for first in range(0, kills, LIVES):
            path = Path(folder) / f"index{first}"
            lives = min(LIVES, kills - first)
            failures += anyio.run(folder_of_lives, path, lives, seed * 1_000_000 + first, counts)
            print(dict(counts), failures, flush=True)
        os.kill(forks, signal.SIGKILL)
    return dict(counts), failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", type=Path, help="run one server on this folder, and no kills")
    parser.add_argument("--fit-after", type=int, default=50, help="with --serve: fit after this many new steps")
    parser.add_argument("--http", type=int, help="with --serve: listen on this port of localhost")
    parsed = parser.parse_args()
    if parsed.serve:
        serve(parsed.serve, parsed.fit_after, parsed.http)
        return
    torch.set_num_threads(1)  # threads do not survive a fork
    warm_up()
    counts, failures = run(parsed.kills, parsed.seed)
    path = report.write("reliability/mcp-kills", {"seed": parsed.seed, "counts": counts, "failures": failures})
    print(counts, failures, path, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
