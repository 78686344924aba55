"""Full float32 keys in a memory-mapped file, for what a compressed index found.

The file has no name: it is gone with the process, however that ends, and SQLite stays the only place where a
vector is kept. Keys are only ever appended.
"""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import numpy as np

from pam_retriever.errors import StorageError
from pam_retriever.types import Float32, Int64

GROWTH, SMALLEST = 1.5, 4_096  # keys


class KeyFile:
    """(n, width) keys by place, on disk.

    Args:
        width: length of a key.
        folder: on whose disk; None for that of temporary files.
    """

    def __init__(self, width: int, folder: Path | None = None) -> None:
        self._width, self._count, self._capacity = width, 0, 0
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as this object
        self._map: Float32 = np.empty((0, width), np.float32)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, places: Int64) -> Float32:
        keys: Float32 = self._map[places]
        return keys

    def append(self, keys: Float32) -> None:
        """Takes in (n, width) more.

        Raises:
            StorageError: the disk is full.
        """
        try:
            self._file.seek(4 * self._width * self._count)
            self._file.write(np.ascontiguousarray(keys, np.float32).data)
            self._file.flush()
            if self._count + len(keys) > self._capacity:
                self._grow(self._count + len(keys))
        except OSError as error:
            raise StorageError(
                f"The full keys of a compressed index cannot be written ({error}).",
                f"{4 * self._width * (self._count + len(keys)):,} bytes of disk",
                "Free some, or name a folder on another disk: open(path), or TMPDIR for an index in memory.",
            ) from error
        self._count += len(keys)

    def _grow(self, count: int) -> None:
        """Makes room for more than is there, so that few appends map it anew; a hole takes no disk."""
        self._capacity = max(SMALLEST, int(GROWTH * count))
        self._file.truncate(4 * self._width * self._capacity)
        mapped = mmap.mmap(self._file.fileno(), 4 * self._width * self._capacity, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)  # what was found lies all over the file
        self._map = np.frombuffer(mapped, np.float32).reshape(self._capacity, self._width)
