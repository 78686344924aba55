"""Errors of PostgreSQL become errors of the library: to call again, to change the DSN, to mend the server."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from pam_retriever import InvalidInput, PAMError, StorageError
from pam_retriever.engines.postgres.faults import explained
from pam_retriever.errors import EngineUnavailable, Interrupted

WHERE = "PostgreSQL at here"


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (errors.CannotConnectNow("FATAL:  the database system is starting up"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError("FATAL:  the database system is shutting down"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError("FATAL:  sorry, too many clients already"), EngineUnavailable, "Start it"),
        (
            psycopg.OperationalError("FATAL:  remaining connection slots are reserved for x"),
            EngineUnavailable,
            "Start it",
        ),
        (psycopg.OperationalError("FATAL:  the database system is in recovery mode"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError("FATAL:  the database system is not yet accepting"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError("FATAL:  terminating connection"), EngineUnavailable, "Start it"),
        (errors.TooManyConnections("sorry, too many clients already"), EngineUnavailable, "Start it"),
        (errors.AdminShutdown("terminating connection"), EngineUnavailable, "Start it"),
        (errors.IdleInTransactionSessionTimeout("FATAL:  terminating connection"), EngineUnavailable, "Start it"),
        (errors.ConnectionFailure("gone"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError("server closed the connection\nmore"), EngineUnavailable, r"the connection\)"),
        (psycopg.InterfaceError("the connection is closed"), EngineUnavailable, "Start it"),
        (psycopg.OperationalError(""), EngineUnavailable, r"\(OperationalError\)"),
        (psycopg.OperationalError('FATAL:  role "x" does not exist'), InvalidInput, "Check the DSN"),
        (errors.InvalidPassword("no"), InvalidInput, "Check the DSN"),
        (errors.InvalidCatalogName("no such database"), InvalidInput, "Check the DSN"),
        (psycopg.ProgrammingError('missing "=" after "nonsense"'), InvalidInput, r'none \(missing "="\)'),
        (errors.DiskFull("full"), StorageError, "Make room on the server"),
        (errors.InsufficientPrivilege("no"), StorageError, "Grant it"),
        (errors.ReadOnlySqlTransaction("no"), StorageError, "primary"),
        (errors.LockNotAvailable("no"), StorageError, "Another process"),
        (errors.UndefinedTable("no"), StorageError, "drop the schema"),
        (errors.ProgramLimitExceeded("too long"), StorageError, "Store less"),
        (errors.QueryCanceled("canceling statement due to statement timeout"), StorageError, "statement_timeout"),
        (errors.InternalError_("broken"), StorageError, "See its log"),
        (errors.OutOfMemory("out of memory"), StorageError, "See its log"),
    ],
)
def test_each_kind_of_error_says_what_to_do(error, kind, says):
    with pytest.raises(PAMError, match=says) as raised, explained(WHERE):
        raise error
    assert type(raised.value) is kind
    if "a DSN that is none" not in str(raised.value):
        assert str(raised.value).startswith(WHERE)
        assert raised.value.__cause__ is error


def test_an_error_of_the_library_stays_as_it_is():
    error = Interrupted("lost", "a server", "Call again.")
    with pytest.raises(Interrupted) as raised, explained(WHERE):
        raise error
    assert raised.value is error
