"""Errors of PostgreSQL, translated to errors of this library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from pam_retriever.errors import EngineUnavailable, Interrupted, InvalidInput, PAMError, StorageError

# FATAL at login, but worth another attempt
PASSING = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "slots are reserved",
    "terminating",
    "not yet accepting",
)
BEFORE_QUOTED = re.compile(r'(?: after|:| option) "')  # in libpq's messages about a DSN, what follows is a part of it
ADVICE: list[tuple[type[psycopg.Error], str]] = [
    (errors.DiskFull, "Make room on the server's disk and call again."),
    (errors.InsufficientPrivilege, "Grant it to the user of the DSN, or let an administrator make the tables."),
    (errors.ReadOnlySqlTransaction, "Connect to the primary server: this one only takes reads."),
    (errors.LockNotAvailable, "Another process has been writing all the while: end it there, or call again later."),
    (errors.QueryCanceled, "Raise statement_timeout of the user of the DSN, or call again later."),
    (errors.UndefinedTable, "Did somebody drop the schema? Make the index again, or restore it."),
    (errors.ProgramLimitExceeded, "Store less in one value."),
]


@contextmanager
def explained(location: str) -> Iterator[None]:
    """Turns errors of PostgreSQL into errors of this library that name a remedy.

    Args:
        location: a description of the location of the tables.

    Raises:
        EngineUnavailable: the server cannot be reached, or the connection is lost.
        InvalidInput: the DSN is wrong, or the server refuses the login.
        StorageError: the server refused the write.
    """
    try:
        yield
    except PAMError:
        raise
    except psycopg.Error as error:
        # libpq quotes the DSN that it cannot read, with the password
        raise _as_pam_error(error, location) from (None if _is_about_dsn(error) else error)


def interrupted(location: str) -> Interrupted:
    """Returns the error for a call that lost its connection and stored nothing."""
    return Interrupted(
        f"The connection to {location} was lost in the middle of a call.", "a server that stays", "Call again."
    )


def _as_pam_error(error: psycopg.Error, location: str) -> PAMError:
    words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    state = error.sqlstate or ""
    for kind, advice in ADVICE:
        if isinstance(error, kind):
            return StorageError(f"{location}: {words}.", "a server that takes it; the index is as it was", advice)
    if _is_about_dsn(error):
        what = BEFORE_QUOTED.split(words)[0]
        return InvalidInput(
            f"Got a DSN that is none ({what}).", "postgresql://user:password@host:port/database", "Check it."
        )
    if state[:2] == "28" or state == "3D000" or ("FATAL" in words and not any(p in words for p in PASSING)):
        return InvalidInput(
            f"{location} does not let one in ({words}).", "a user and a database that it knows", "Check the DSN."
        )
    if _is_lost(error):
        return EngineUnavailable(
            f"{location} cannot be reached ({words}).", "a server that runs", "Start it, or check the DSN."
        )
    return StorageError(f"{location}: {words}.", "a server that takes it; the index is as it was", "See its log.")


def _is_about_dsn(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.ProgrammingError) and not error.sqlstate


def _is_lost(error: psycopg.Error) -> bool:
    state = error.sqlstate or ""
    if isinstance(error, errors.IdleInTransactionSessionTimeout):  # to psycopg an error of the program
        return True
    is_of_server = isinstance(error, psycopg.InterfaceError | psycopg.OperationalError)
    return is_of_server and (not state or state[:2] in ("08", "57") or state == "53300")
