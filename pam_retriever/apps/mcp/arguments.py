"""The types of the arguments of tools, with their limits and the descriptions that a model reads."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pam_retriever.limits import MAX_ID_BYTES
from pam_retriever.types import Direction

LONGEST_TEXT, MOST_IDS = 100_000, 1_000

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, pattern=r"\S")]
Question = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"\S", description="What you want to know.")]
Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES)]
Count = Annotated[int, Field(strict=True, ge=1, le=100, description="Largest number of results.")]
Way = Annotated[
    Direction | None, Field(description="Only steps after the memory, or before it, in any session; null for both.")
]
When = Annotated[
    str | None, Field(max_length=200, description='Only memories of this time, such as "last week" or "July 2023".')
]
Offset = Annotated[int, Field(strict=True, ge=0)]
Ids = Annotated[list[Id], Field(max_length=MOST_IDS)]
UsedIds = Annotated[list[Id], Field(min_length=1, max_length=MOST_IDS)]
Paths = Annotated[list[Id], Field(max_length=100, description="Changed files, from the root.")]
ChangeInWords = Annotated[str, Field(max_length=10_000, description="The change that you want to make.")]
SessionName = Annotated[
    str,
    Field(
        max_length=MAX_ID_BYTES,
        description="Name of the session. If empty, the session of this connection; over HTTP it may be a new one: "
        "then pass the name that the first call returned.",
    ),
]
Filter = Annotated[
    dict[str, Any],
    Field(
        description="Limits memories by their metadata, such as {'session': 'x'} or {'year': {'$gte': 2020}}. "
        "Operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $contains $and $or $not."
    ),
]
Metadata = Annotated[
    dict[str, Any],
    Field(description="Facts about the memory, which filters can test later, such as {'user': 'ann', 'year': 2020}."),
]
