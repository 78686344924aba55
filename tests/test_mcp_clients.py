"""The MCP server with several clients at once, and with ids that look like paths."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
from mcp import Client
from test_mcp import SERVE, ask, folder  # noqa: F401

from benchmarks.reliability.mcp_kills import WordModel
from pam_retriever.apps.mcp.folder import SharedFolder
from pam_retriever.apps.mcp.server import MemoryServer
from pam_retriever.limits import MAX_ID_BYTES

COMMAND = [sys.executable, "-m", "pam_retriever", "mcp"]


async def test_memories_of_programs_with_long_ids_can_be_named(folder):  # noqa: F811
    """The index is a normal one, so programs may have stored memories under any id and in any session."""
    id, session = "i" * MAX_ID_BYTES, "s" * MAX_ID_BYTES
    with folder.writing() as index:
        index.append(session, text="The stairs were damp", id=id)
    async with Client(MemoryServer(folder, code=False)) as client:
        then = await ask(client, "remember", text="I slipped", session=session)
        (after,) = (await ask(client, "what_happened_with", id=id))["after"]
        assert after["id"] == then["id"]
        await ask(client, "feedback", question="Where is it damp?", used=[id], unused=[then["id"]])
        assert (await ask(client, "forget", ids=[id], confirm=1))["forgotten"] == 1


async def test_metadata_are_not_described_as_a_filter(folder):  # noqa: F811
    async with Client(MemoryServer(folder, code=False)) as client:
        schemas = {tool.name: json.dumps(tool.input_schema) for tool in (await client.list_tools()).tools}
    assert {name for name, schema in schemas.items() if "Limits memories" in schema} == {"recall", "forget"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_over_http_do_not_share_a_session(tmp_path, mode):
    command = [sys.executable, *SERVE, str(tmp_path / "memory"), "--http", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent) as server:
        try:
            url = re.search(r"http://\S+/mcp", next(line for line in server.stderr if "listening" in line))
            assert url
            with anyio.fail_after(60):
                async with Client(url.group(), mode=mode) as one, Client(url.group(), mode=mode) as other:
                    first = await ask(one, "remember", text="Ann has the key")
                    second = await ask(other, "remember", text="Ben has the key")
                    assert first["session"] != second["session"]
                    then = await ask(one, "remember", text="Ann lost it", session=first["session"])
                    around = await ask(one, "what_happened_with", id=first["id"])
                    assert [step["id"] for step in around["after"]] == [then["id"]]
                    if mode == "legacy":  # the connection has an id, so that it need not be named
                        assert (await ask(other, "remember", text="Ben, too"))["session"] == second["session"]
        finally:
            server.kill()


async def test_a_question_is_answered_while_many_writes_wait(tmp_path):
    patient = SharedFolder(tmp_path / "memory", WordModel(), wait=600.0, fit_after=None)
    async with Client(MemoryServer(patient, code=False)) as client, anyio.create_task_group() as tasks:
        with patient.writing() as index:
            index.append("s", text="a note")
            for number in range(60):
                tasks.start_soon(lambda number=number: ask(client, "remember", text=f"step {number}"))
            with anyio.fail_after(60):
                await anyio.wait_all_tasks_blocked()
                await ask(client, "status")
    assert len(patient.reader()) == 61
    patient.close()


async def test_what_is_forgotten_is_in_no_file(tmp_path):
    """Servers that rest after a write must not keep the journal: it would grow, and hold what was deleted."""
    folders = [SharedFolder(tmp_path / "memory", WordModel(), fit_after=None) for _ in range(2)]
    async with (
        Client(MemoryServer(folders[0], code=False)) as one,
        Client(MemoryServer(folders[1], code=False)) as other,
    ):
        for number in range(4):
            await ask(one, "status")
            await ask(other, "status")
            await ask((one, other)[number % 2], "remember", text=f"password {number}", session="private")
        await ask(one, "forget", filter={}, confirm=4)
        files = [file for file in (tmp_path / "memory").iterdir() if file.is_file()]
        assert not [file.name for file in files for word in (b"password", b"private") if word in file.read_bytes()]
        assert sum(file.stat().st_size for file in files if file.name.endswith("-wal")) == 0
    for shared in folders:
        shared.close()


@pytest.mark.parametrize("id", ["/etc/hosts", "../notes", "..", "C:\\notes", "//server/notes", "/"])
async def test_an_id_that_looks_like_a_path_is_a_resource(folder, id):  # noqa: F811
    with folder.writing() as index:
        index.add(ids=[id], texts=["a note"])
    async with Client(MemoryServer(folder, code=False)) as client:
        (listed,) = (await client.list_resources()).resources
        assert (await client.read_resource(listed.uri)).contents[0].text == "a note"


def interrupt(server: subprocess.Popen[str]) -> None:
    """Presses Ctrl-C, and waits for the end."""
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) == 130
    assert server.stderr is not None
    said = server.stderr.read()
    assert said.endswith("\npam-retriever: interrupted\n")
    assert "Traceback" not in said


@pytest.mark.slow
def test_ctrl_c_ends_a_server_that_waits_for_its_client(tmp_path):
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    with subprocess.Popen(
        [*COMMAND, str(tmp_path / "memory")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            server.stdin.write(json.dumps(first) + "\n")
            server.stdin.flush()
            assert "result" in json.loads(server.stdout.readline())
            interrupt(server)
        finally:
            server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_ctrl_c_ends_a_server_whose_clients_are_connected(tmp_path, mode):
    command = [*COMMAND, str(tmp_path / "memory"), "--http", "0"]
    # a shell starts what runs in the background with SIGINT ignored, and a child inherits that
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=default) as server:
        try:
            url = re.search(r"http://\S+/mcp", server.stderr.readline())
            assert url
            client = Client(url.group(), mode=mode)
            await client.__aenter__()
            assert (await ask(client, "status"))["memories"] == 0
            await anyio.to_thread.run_sync(interrupt, server)
            with suppress(Exception):  # it cannot say goodbye to the server
                await client.__aexit__(None, None, None)
        finally:
            server.kill()


@pytest.mark.slow
def test_ctrl_c_ends_a_server_although_a_request_never_ends(tmp_path):
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [*COMMAND, str(tmp_path / "memory"), "--http", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=default) as server:
        try:
            found = re.search(r"http://(127.0.0.1):(\d+)/mcp", server.stderr.readline())
            assert found
            with socket.create_connection((found[1], int(found[2])), timeout=10) as stalled:
                head = f"POST /mcp HTTP/1.1\r\nHost: {found[1]}:{found[2]}\r\nContent-Length: 9\r\n"
                kinds = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                stalled.sendall(f"{head}{kinds}\r\n".encode())
                time.sleep(1)
                server.send_signal(signal.SIGINT)
                assert server.wait(timeout=60) == 130
        finally:
            server.kill()
