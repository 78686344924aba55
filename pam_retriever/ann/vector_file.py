"""Full float32 keys in a memory-mapped file, to rank the candidates of a compressed index.

Keys are only appended, so that a process that has mapped the file sees no key change. The file is a copy of the vectors
in SQLite. It is deleted with this object unless ``keep`` was called.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import uuid
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.ann.base import chunks
from pam_retriever.errors import StorageError
from pam_retriever.types import Float32, Int64

GROWTH, SMALLEST = 1.5, 4_096  # growth factor of the file, and smallest capacity in keys
COPIED_AT_ONCE = 16 << 20  # bytes
IN_A_ROW = 1_000  # from this many keys on, consecutive keys are read as one block


class VectorFile:
    """Keys (n, width) by position, on the disk.

    Args:
        width: length of a key.
        folder: the folder of the file; None for a temporary file.
        name: the name of an existing file to continue; None creates a new one.
        count: number of keys in an existing file.
        checksum: the checksum of these keys.
        read_only: whether the file belongs to another process. The first append makes a temporary copy then.

    Attributes:
        name: the name of the file in its folder; None for a temporary file.
        checksum: CRC-32 of all keys.

    Raises:
        OSError: the file is missing, is a link, or is shorter than ``count`` keys.
        StorageError: there is no folder for temporary files.
    """

    def __init__(
        self,
        width: int,
        folder: Path | None = None,
        name: str | None = None,
        count: int = 0,
        checksum: int = 0,
        read_only: bool = False,
    ) -> None:
        self._width, self._count, self._capacity, self.checksum = width, count, count, checksum
        self._map: Float32 = np.empty((0, width), np.float32)
        self._deletion: Any = None
        self._file: Any
        self._of_other_process = read_only
        self.name = None if folder is None else name or f"keys-{uuid.uuid4().hex[:12]}.f32"
        if folder is None or self.name is None:
            self._file = self._temporary()
            return
        path = folder / self.name
        self._file = open(path, "rb" if read_only else "r+b" if name else "x+b", opener=_open_itself)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        if name is None:
            self._deletion = weakref.finalize(self, _delete, path, os.getpid())
        elif os.fstat(self._file.fileno()).st_size < 4 * width * count:
            raise OSError(f"{path} is too short")
        if count:
            self._open_map()

    def __len__(self) -> int:
        return self._count

    @property
    def mapped(self) -> Float32:
        """All keys (n, width), read on access. The file may end after the last: to read further is a bus error."""
        return self._map[: self._count]

    def __getitem__(self, positions: Int64) -> Float32:
        if (
            hasattr(os, "pread")
            and positions.ndim == 1
            and len(positions) >= IN_A_ROW
            and (np.diff(positions) == 1).all()
        ):
            return self._read(int(positions[0]), len(positions))
        keys: Float32 = self._map[positions]
        return keys

    def _read(self, first: int, count: int) -> Float32:
        """Reads consecutive keys without the map, which would read by page and stay in memory."""
        size, at, blocks = 4 * self._width * count, 4 * self._width * first, []
        while size:
            blocks.append(os.pread(self._file.fileno(), size, at))
            if not blocks[-1]:
                raise OSError(f"{self.name} is too short")
            size, at = size - len(blocks[-1]), at + len(blocks[-1])
        return np.frombuffer(b"".join(blocks), np.float32).reshape(count, self._width)

    def append(self, keys: Float32) -> None:
        """Appends keys (n, width).

        Raises:
            StorageError: the disk is full.
        """
        block = np.ascontiguousarray(keys, np.float32).data.cast("B")
        with self._explained(len(keys)):
            if self._of_other_process:
                self._copy()
            self._file.seek(4 * self._width * self._count)
            self._file.write(block)
            self._file.flush()
            if self._count + len(keys) > self._capacity:
                self._grow(self._count + len(keys))
        self._count += len(keys)
        self.checksum = zlib.crc32(block, self.checksum)

    def _copy(self) -> None:
        """Goes on in a temporary copy."""
        copy = self._temporary()
        left = 4 * self._width * self._count
        self._file.seek(0)
        while left:
            block = self._file.read(min(left, COPIED_AT_ONCE))
            if not block:
                raise OSError(f"{self.name} is too short")
            copy.write(block)
            left -= len(block)
        copy.flush()
        self._file, self.name, self._capacity, self._of_other_process = copy, None, self._count, False
        if self._count:
            self._open_map()

    def _temporary(self) -> Any:
        """Opens a temporary file for as long as this object exists."""
        with self._explained(1):
            file = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, file.close)
        return file

    def erase(self, positions: Int64) -> None:
        """Overwrites the keys at ``positions`` by zeros, which are on the disk on return.

        Raises:
            StorageError: the disk cannot be written.
        """
        zeros = bytes(4 * self._width)
        with self._explained(0):
            for position in positions.tolist():
                self._file.seek(4 * self._width * position)
                self._file.write(zeros)
            self._file.flush()
            os.fsync(self._file.fileno())
        self.checksum = 0
        for part in chunks(self._count):
            self.checksum = zlib.crc32(self._map[part].data.cast("B"), self.checksum)

    def reserve_disk(self, count: int) -> None:
        """Reserves disk space for ``count`` keys before they are appended, if the system can do that.

        Raises:
            StorageError: the disk is full.
        """
        if count and hasattr(os, "posix_fallocate"):
            with self._explained(count):
                os.posix_fallocate(self._file.fileno(), 4 * self._width * self._count, 4 * self._width * count)

    @contextmanager
    def _explained(self, count: int) -> Iterator[None]:
        """Adds a remedy to an error of a disk that has no space for ``count`` more keys."""
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"The full keys of a compressed index cannot be written ({error}).",
                f"{4 * self._width * (self._count + count):,} bytes of disk",
                "Free some, or name a folder elsewhere: TMPDIR for a reader or an index in memory, else open(path).",
            ) from error

    def _grow(self, count: int) -> None:
        """Enlarges the file in large steps, so that few appends map it again. The hole takes no disk space."""
        self._capacity = max(SMALLEST, int(GROWTH * count))
        self._file.truncate(4 * self._width * self._capacity)
        self._open_map()

    def keep(self) -> None:
        """Keeps the file after this object is gone. Its keys are on the disk on return."""
        self._file.truncate(4 * self._width * self._count)
        os.fsync(self._file.fileno())
        if self._deletion is not None:
            self._deletion.detach()

    def _open_map(self) -> None:
        mapped = mmap.mmap(self._file.fileno(), 4 * self._width * self._capacity, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            mapped.madvise(mmap.MADV_RANDOM)  # candidates lie all over the file
        self._map = np.frombuffer(mapped, np.float32).reshape(self._capacity, self._width)


def _open_itself(path: str, flags: int) -> int:
    """Opens the file itself, and refuses a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _delete(path: Path, process: int) -> None:
    if os.getpid() != process:
        return  # in a forked child the file belongs to the parent
    with suppress(OSError):  # the next open deletes a file that stays
        path.unlink(missing_ok=True)
