"""The names of the folders of tenants; see ``tenants``."""

from __future__ import annotations

import base64
import re
from pathlib import Path

NAMED = re.compile(r"tenants-[0-9a-f]{12}")  # a folder of tenants that is written completely
PREFIX = "t-"  # with this prefix no name is reserved by a system, as "con" and "nul" are


def folder_of(name: str) -> str:
    """Returns the name of a tenant's folder."""
    return PREFIX + base64.b32encode(name.encode()).decode().rstrip("=").lower()


def name_of(folder: str) -> str | None:
    """Returns the tenant whose folder has this name; None for other names."""
    letters = folder.removeprefix(PREFIX).upper()
    try:
        name = base64.b32decode(letters + "=" * (-len(letters) % 8)).decode()
    except ValueError:  # not base32, or not UTF-8
        return None
    return name if name and folder_of(name) == folder else None


def tenant_at(folder: Path) -> str | None:
    """Returns the tenant whose folder has this path, stored or not; None for the folder of another index."""
    return name_of(folder.name) if NAMED.fullmatch(folder.parent.name) else None
