"""Full float32 keys in a memory-mapped file, for what a compressed index found.

A file is only ever appended to: who has mapped it sees no key change under a place.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import uuid
from pathlib import Path

import numpy as np

from pam_retriever.errors import IndexFormatError
from pam_retriever.types import Float32, Int64

GROWTH = 1.5
SMALLEST = 4_096  # keys


class KeyFile:
    """(n, width) keys by place, on disk.

    Args:
        width: length of a key.
        folder: where to make the file; None makes a temporary one, which is gone with this object.
        path: one that is there, to be read and appended to.
        count: how many keys it holds.
        read_only: it is another's.

    Raises:
        IndexFormatError: the file is shorter than ``count`` keys.
    """

    def __init__(
        self,
        width: int,
        folder: Path | None = None,
        path: Path | None = None,
        count: int = 0,
        read_only: bool = False,
    ) -> None:
        self.path = path if path or folder is None else folder / f"keys-{uuid.uuid4().hex[:12]}.f32"
        self._width, self._count, self._capacity = width, count, count
        if self.path is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        else:
            self._file = self.path.open("rb" if read_only else "r+b" if path else "x+b")
        if os.fstat(self._file.fileno()).st_size < 4 * width * count:
            self._file.close()
            raise IndexFormatError(f"{self.path} is too short.", f"{count:,} keys of {width}", "Delete the folder ann.")
        self._map = self._mapped() if count else np.empty((0, width), np.float32)

    def __len__(self) -> int:
        return self._count

    def append(self, keys: Float32) -> None:
        """Takes in (n, width) more."""
        if not len(keys):
            return
        self._file.seek(4 * self._width * self._count)
        self._file.write(np.ascontiguousarray(keys, np.float32).data)
        self._file.flush()
        self._count += len(keys)
        if self._count > self._capacity:
            # the file is made longer than it need be, so that few appends map it anew; a hole takes no disk
            self._capacity = max(SMALLEST, int(GROWTH * self._count))
            self._file.truncate(4 * self._width * self._capacity)
            self._map = self._mapped()

    def __getitem__(self, places: Int64) -> Float32:
        keys: Float32 = self._map[places]
        return keys

    def sync(self) -> None:
        """Waits until it is on the disk, without room to grow."""
        self._capacity = self._count
        self._file.truncate(4 * self._width * self._count)
        os.fsync(self._file.fileno())

    def _mapped(self) -> Float32:
        mapped = mmap.mmap(self._file.fileno(), 4 * self._width * self._capacity, access=mmap.ACCESS_READ)
        if hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_RANDOM)  # what was found lies all over the file
        return np.frombuffer(mapped, np.float32).reshape(self._capacity, self._width)
