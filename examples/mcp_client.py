"""An agent's memory over the Model Context Protocol: two agents share a folder, and call every tool.

Run it with: pip install ".[text,mcp]" && python examples/mcp_client.py
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def ask(client: Client, tool: str, **arguments: object) -> dict:
    """Returns the answer of a tool."""
    answer = await client.call_tool(tool, arguments)
    if answer.is_error:
        raise RuntimeError(answer.content[0].text)
    return answer.structured_content


async def main() -> None:
    folder = str(Path(tempfile.mkdtemp()) / "memory")
    # the equivalent settings of an MCP client: {"command": "pam-retriever", "args": ["mcp", folder]}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pam_retriever.apps.cli", "mcp", folder],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    async with Client(stdio_client(server)) as first:
        tools = (await first.list_tools()).tools
        print("tools:", ", ".join(tool.name for tool in tools))
        for text in (
            "The stairs to the cellar were damp this morning.",
            "I slipped and bruised my elbow.",
            "The chemist sold me an ointment.",
        ):
            stored = await ask(first, "remember", text=text, session="monday", metadata={"place": "home"})
        print("stored:", stored)

        async with Client(stdio_client(server)) as second:  # another agent, with a separate server process
            found = await ask(second, "recall", question="What was wrong with the steps?", k=1)
            (best,) = found["memories"]
            print("recalled:", best["text"], best["why"])
            happened = await ask(second, "what_happened_with", id=best["id"])
            print("then:", [one["text"] for one in happened["after"]])
            await ask(second, "feedback", question="What helps against a bruise?", used=[stored["id"]])

        found = await ask(first, "recall", question="What helps against bruises?", k=1)
        print("learnt:", found["memories"][0]["text"], found["memories"][0]["why"])
        print("sessions:", (await ask(first, "sessions"))["sessions"])
        asked = await ask(first, "forget", filter={"session": "monday"})
        print("would forget:", asked["would_forget"])
        print("forgot:", (await ask(first, "forget", filter={"session": "monday"}, confirm=3))["forgotten"])
        print("status:", await ask(first, "status"))


if __name__ == "__main__":
    asyncio.run(main())
