"""Sizes of the pages of a database. SQLite stores a row in one page if it fits; all tables take a page or more."""

from __future__ import annotations

from pathlib import Path

# bytes. In a page of 4,096, the default of SQLite, a row with 384 or 768 numbers leaves a quarter unused. An index of
# 50,000 such rows is a fifth smaller in these pages, and is stored in three quarters of the time
PAGE = 1 << 14
SMALL_PAGE = 1 << 12  # for tenants, most of which have few rows in few tables
PLACE, LARGEST = 16, 1  # where a file says it: sqlite.org/fileformat2.html 1.3; there 1 stands for 65,536


def page_size_of(path: Path) -> int:
    """Returns the page size of a database, or ``PAGE`` if the file does not say a possible one."""
    with path.open("rb") as file:
        said = int.from_bytes(file.read(PLACE + 2)[PLACE:], "big")
    size = 1 << 16 if said == LARGEST else said
    return size if 512 <= size <= 1 << 16 and not size & (size - 1) else PAGE
