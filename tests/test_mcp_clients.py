"""The MCP server with several clients at once, and with ids that look like paths."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client
from test_mcp import SERVE, ask, folder  # noqa: F401

from benchmarks.reliability.mcp_kills import WordModel
from pam_retriever.apps.mcp.folder import SharedFolder
from pam_retriever.apps.mcp.server import MemoryServer


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


@pytest.mark.parametrize("id", ["/etc/hosts", "../notes", "..", "C:\\notes", "//server/notes", "/"])
async def test_an_id_that_looks_like_a_path_is_a_resource(folder, id):  # noqa: F811
    with folder.writing() as index:
        index.add(ids=[id], texts=["a note"])
    async with Client(MemoryServer(folder, code=False)) as client:
        (listed,) = (await client.list_resources()).resources
        assert (await client.read_resource(listed.uri)).contents[0].text == "a note"
