"""Sizes of the pages of a database. SQLite stores a row in one page if it fits; each table takes a page or more."""

from __future__ import annotations

from pathlib import Path

from pam_retriever.store.folder import handles

SMALLEST, LARGEST = 1 << 12, 1 << 14  # bytes; the first is the default of SQLite
# With fewer, more than a sixth of a page may stay unused: a row with 384 numbers takes 1,544 bytes, so two fill three
# quarters of the smallest page. Larger pages than that make an add of one memory slower, which writes eleven of them
ROWS = 5
# for tenants: most of them have few rows, and each of some thirty tables and indexes takes a page or more
OF_TENANTS = 1 << 11
OTHER_COLUMNS = 16  # bytes of a row beside its vector, or a little more
PLACE, OF_64_KIB = 16, 1  # where a file says its size, and what says 65,536: sqlite.org/fileformat2.html 1.3


def page_size_for(dim: int) -> int:
    """Returns the page size of a new database for vectors of ``dim`` numbers."""
    size = SMALLEST
    while size < LARGEST and size // (4 * dim + OTHER_COLUMNS) < ROWS:
        size *= 2
    return size


def page_size_of(path: Path) -> int:
    """Returns the page size of a database, or ``SMALLEST`` if the file does not say a possible one."""
    file = handles.read(path)
    try:
        said = int.from_bytes(file.read(PLACE + 2)[PLACE:], "big")
    finally:
        handles.close(file)
    size = 1 << 16 if said == OF_64_KIB else said
    return size if 512 <= size <= 1 << 16 and not size & (size - 1) else SMALLEST
