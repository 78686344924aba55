"""A tool that refuses arguments in the words of the library's errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from pam_retriever.errors import InvalidInput

LONGEST_VALUE = 100  # characters of a value in an error
EXPECTED = {"string_pattern_mismatch": "text that is not blank", "dict_type": "an object"}  # the only pattern is \S


class PlainTool(Tool):
    """A tool whose error about its arguments says what was given, what was expected and what to do."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Runs the tool.

        Raises:
            ToolError: the arguments do not fit, or the tool raised one.
        """
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            said = in_words(error.__cause__, list(self.parameters["properties"]))
            raise ToolError(f"Error executing tool {self.name}: {said}") from error


def in_words(error: ValidationError, names: Sequence[str]) -> InvalidInput:
    """Returns the error of this library for the first argument that pydantic refuses; unknown ones come first.

    Args:
        error: what pydantic found.
        names: the arguments of the tool.
    """
    first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    name = str(first["loc"][0]) + "".join(f"[{part!r}]" for part in first["loc"][1:])
    if first["type"] == "extra_forbidden":
        return InvalidInput(
            f"Got {name}.", f"only {', '.join(names)}" if names else "no argument", "Correct its name, or leave it out."
        )
    if first["type"] == "missing":
        return InvalidInput(f"Got no {name}.", "one", f"Pass {name}.")
    value = repr(first["input"])
    return InvalidInput(
        f"Got {name}={value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + '...'}.",
        EXPECTED.get(first["type"]) or re.sub(r"^\w+ should (be |have )?| after validation.*", "", first["msg"]),
        "Correct it.",
    )
