"""Verifies a database in the background, so that opening a large one need not wait for its checksum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pam_retriever.errors import IndexFormatError, PAMError
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import blocks, check_file, crc32_of, sha256_of


@dataclass(frozen=True)
class Copy:
    """A file beside the database that can be derived from it again.

    Attributes:
        path: path of the file.
        size: number of bytes in use; later bytes are ignored.
        checksum: CRC-32 of these bytes.
        in_use: whether the database still names it with this checksum. Else a writer overwrote or deleted it meanwhile.
    """

    path: Path
    size: int
    checksum: int
    in_use: Callable[[], bool]


class Stopped(Exception):
    """Raised inside a verification that was stopped."""


class Verification:
    """The verification of a database that has a checksum, in this thread or in the background.

    In the background, ``check`` raises an error that was found so far, and ``finish`` waits for the end. Nobody may
    write to the file itself meanwhile, but its journal may grow.

    Args:
        path: the database.
        sha256: its checksum when it was closed.
        check_types: checks the types of its columns, over a separate connection.
    """

    def __init__(self, path: Path, sha256: str, check_types: Callable[[], None]) -> None:
        self._path, self._sha256, self._check_types = path, sha256, check_types
        self._thread: threading.Thread | None = None
        self._error: PAMError | None = None
        self._stopped = threading.Event()
        self._contents: Iterator[bytes] = iter(())

    @property
    def size(self) -> int:
        """The size of the database."""
        with explained(self._path):
            return self._path.stat().st_size

    def now(self) -> None:
        """Verifies the database in this thread.

        Raises:
            IndexFormatError: the database is damaged.
        """
        check_file(self._path, self._sha256)
        self._check_types()

    def begin(self, copies: Sequence[Copy], then: Callable[[], None]) -> None:
        """Starts to verify the database and files beside it; calls ``then`` if all are sound."""
        with explained(self._path):
            contents = blocks(self._path)
            # opens the file now: a later save over the index replaces it
            self._contents = chain([next(contents, b"")], contents)
        self._thread = threading.Thread(target=self._run, args=(copies, then), name="verify", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises IndexFormatError if damage was found."""
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Waits for the end, and raises IndexFormatError if damage was found."""
        if self._thread is not None:
            self._thread.join()
        self.check()

    def stop(self) -> None:
        """Stops the verification."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, copies: Sequence[Copy], then: Callable[[], None]) -> None:
        try:
            with explained(self._path):
                self._verify(copies)
            then()
        except Stopped:
            return
        except PAMError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - such as MemoryError: what is not verified is not sound
            self._error = IndexFormatError(
                f"{self._path} could not be verified ({error!r}). Do not trust its answers.",
                "a file that can be read as a whole",
                "Open the index again, or run pam-retriever check on the folder.",
            )

    def _verify(self, copies: Sequence[Copy]) -> None:
        if sha256_of(self._wanted(self._contents)) != self._sha256:
            raise IndexFormatError(
                f"{self._path} is damaged: its checksum differs. Do not trust its answers.",
                f"sha256 {self._sha256}",
                "Restore it from a copy, or run pam-retriever repair on the folder.",
            )
        for copy in copies:
            if not self._is_whole(copy) and copy.in_use():
                raise IndexFormatError(
                    f"{copy.path} is damaged: its checksum differs. Do not trust its answers.",
                    "the file that was saved when the index was closed",
                    "Delete it and open the index again: it is built from the database.",
                )
        self._check_types()

    def _is_whole(self, copy: Copy) -> bool:
        try:
            return crc32_of(self._wanted(blocks(copy.path, copy.size))) == copy.checksum
        except FileNotFoundError:
            return False

    def _wanted(self, contents: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the same blocks until the verification is stopped."""
        for block in contents:
            if self._stopped.is_set():
                raise Stopped
            yield block
