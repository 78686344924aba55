"""A database that is verified while it is read already, so that opening a large one need not wait for its checksum."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pam_retriever.errors import IndexFormatError, PAMError
from pam_retriever.store.faults import explained
from pam_retriever.store.files import blocks, check_file, crc32_of, sha256_of


@dataclass(frozen=True)
class Copy:
    """A file beside the database that can be made again from it.

    Attributes:
        path: where it is.
        size: bytes that count; what follows is not used.
        checksum: CRC-32 of them.
    """

    path: Path
    size: int
    checksum: int


class Stopped(Exception):
    """Nobody wants to know any more."""


class Verification:
    """The check of a database that has a checksum: at once, or in the background.

    In the background, ``check`` raises what was found so far, and ``finish`` waits for the end. Nobody may write to
    the file itself meanwhile (a journal may grow beside it).

    Args:
        path: the database.
        sha256: what it was closed with.
        check_types: what looks at its columns, in a connection of its own.
    """

    def __init__(self, path: Path, sha256: str, check_types: Callable[[], None]) -> None:
        self._path, self._sha256, self._check_types = path, sha256, check_types
        self._thread: threading.Thread | None = None
        self._error: PAMError | None = None
        self._stopped = threading.Event()

    def now(self) -> None:
        """Verifies it here and now.

        Raises:
            IndexFormatError: it is damaged.
        """
        check_file(self._path, self._sha256)
        self._check_types()

    def begin(self, copies: Sequence[Copy], then: Callable[[], None]) -> None:
        """Verifies it, and files beside it, in the background; calls ``then`` if all is well."""
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
        """Ends it, finished or not."""
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

    def _verify(self, copies: Sequence[Copy]) -> None:
        if sha256_of(self._wanted(blocks(self._path))) != self._sha256:
            raise IndexFormatError(
                f"{self._path} is damaged: its checksum differs. Do not trust what it answered.",
                f"sha256 {self._sha256}",
                "Restore it from a copy, or run pam-retriever repair on the folder.",
            )
        for copy in copies:
            if crc32_of(self._wanted(blocks(copy.path, copy.size))) != copy.checksum:
                raise IndexFormatError(
                    f"{copy.path} is damaged: its checksum differs. Do not trust what it answered.",
                    "what was kept when the index was closed",
                    "Delete it and open the index again: it is built from the database.",
                )
        self._check_types()

    def _wanted(self, contents: Iterator[bytes]) -> Iterator[bytes]:
        """The same blocks, for as long as anybody wants to know."""
        for block in contents:
            if self._stopped.is_set():
                raise Stopped
            yield block
