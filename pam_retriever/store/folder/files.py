"""Atomic writes of files, and checksums."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import translate
from functools import lru_cache
from pathlib import Path

from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.store.faults import explained
from pam_retriever.store.folder import handles

BLOCK = 1 << 22  # bytes per read


def read_path(name: str, path: object) -> Path:
    """Returns a path that the system can look up, whether or not it exists.

    It is absolute, because a program may change its current folder while the index is open.

    Raises:
        InvalidInput: the value is no path, or a path that the system does not allow.
    """
    if isinstance(path, str) and not path:  # as a path it would be the current folder
        raise InvalidInput(f"Got {name}=''.", "a path", "Name one; '.' is the current folder.")
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise InvalidInput(f"Got {name}={path!r} ({type(path).__name__}).", "a string or a Path", "Name a path.")
    try:
        os.lstat(found := Path(path))
    except ValueError as error:  # a NUL, or a lone surrogate
        raise InvalidInput(f"Got {name}={path!r}, which can be no path ({error}).", "text", "Name another.") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidInput(f"Got {name}={path!r}.", "a path that the system can hold", "Name a shorter.") from error
    try:
        return found.absolute()
    except FileNotFoundError:  # the current folder was removed
        return found


def mode_of(path: Path) -> int:
    """Returns the type and the permissions of what is at a path; 0 if nothing is there.

    From Python 3.14 on, ``Path.exists`` and ``Path.is_file`` return False for a path that may not be looked up.

    Raises:
        OSError: the path may not be looked up.
    """
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return 0
        raise


def write_atomically(path: Path, contents: bytes) -> None:
    """Writes a file atomically: the path has the old contents or the new ones. On return the file is on the disk.

    Raises:
        StorageError: the file could not be written; the old contents are unchanged.
    """
    with explained(path):
        with replacing(path) as written:
            written.write_bytes(contents)
            sync(written)
        sync(path.parent)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields the path of a new file, which then takes the place of ``path``. After an error it is deleted."""
    written = path.with_name(f"{path.name}.new")
    try:
        yield written
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def matching(folder: Path, *patterns: str) -> list[Path]:
    """Returns the entries of a folder whose name matches a pattern; an empty list if the folder does not exist."""
    try:
        with os.scandir(folder) as found:  # one scan: a glob for each pattern takes several
            names = [entry.name for entry in found]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in names if _compiled(patterns).match(name)]


def discard(path: Path) -> None:
    """Deletes a file if it is there, or a folder as far as possible."""
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@lru_cache(64)  # a pattern may have the name of a folder, of which a process may open any number
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def check_file(path: Path, sha256: str | None) -> None:
    """Checks that a file has the saved checksum.

    Raises:
        IndexFormatError: the file is missing, is outside the folder, or its checksum differs.
        StorageError: the file cannot be read.
    """
    with explained(path):
        there = stat.S_ISREG(mode_of(path))
    if path.is_symlink() or not there:
        what = "is a link" if path.is_symlink() else "is missing"
        raise IndexFormatError(f"{path} {what}.", "the file that the index names", "Restore it from a copy.")
    if sha256 is not None and checksum_of(path) != sha256:
        raise IndexFormatError(
            f"{path} is damaged: its checksum differs.",
            f"sha256 {sha256}",
            "Restore it from a copy, or run pam-retriever repair on the folder.",
        )


def checksum_of(path: Path) -> str:
    """SHA-256 of a file."""
    with explained(path):
        return sha256_of(blocks(path))


def sha256_of(contents: Iterable[bytes]) -> str:
    """SHA-256 of blocks of bytes."""
    digest = hashlib.sha256()
    for block in contents:
        digest.update(block)
    return digest.hexdigest()


def crc32_of(contents: Iterable[bytes]) -> int:
    """CRC-32 of blocks of bytes."""
    found = 0
    for block in contents:
        found = zlib.crc32(block, found)
    return found


def blocks(path: Path, size: int | None = None) -> Iterator[bytes]:
    """Yields a file, or its first ``size`` bytes, block by block."""
    file = handles.read(path)
    try:
        left = os.fstat(file.fileno()).st_size if size is None else size
        while left and (block := file.read(min(BLOCK, left))):
            left -= len(block)
            yield block
    finally:
        handles.close(file)


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders; it flushes their entries itself
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync alone leaves it in the drive's cache
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
