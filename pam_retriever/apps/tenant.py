"""The option ``--tenant NAME``, which limits a command to one tenant."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.validation import check_tenant

SHOWN = 5  # names of tenants in a message


def add_tenant(command: argparse.ArgumentParser) -> None:
    """Adds the option to a command that has the argument ``index``."""
    command.add_argument("--tenant", metavar="NAME", help="use only this tenant of the index")


def tenant_of(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> PredictiveAssociativeIndex:
    """Returns the given tenant, which must exist; the index itself without the option.

    Raises:
        InvalidInput: there is no such tenant.
    """
    if parsed.tenant is None:
        return index
    if check_tenant(parsed.tenant) not in index.tenants():
        raise InvalidInput(
            f"There is no tenant {parsed.tenant!r} in {parsed.index}.", "the name of a tenant", "See: inspect."
        )
    return index.tenant(parsed.tenant)


def asked(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> PredictiveAssociativeIndex:
    """Like ``tenant_of``, for a command that needs memories.

    Raises:
        InvalidInput: only tenants of the index have memories, and none was named.
    """
    if parsed.tenant is None and not len(index) and (names := index.tenants()):
        shown = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
        raise InvalidInput(
            f"The index at {parsed.index} has no memories outside its {counted(len(names), 'tenant')}.",
            "--tenant NAME",
            f"Pass one of {shown}.",
        )
    return tenant_of(index, parsed)


@contextmanager
def within(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> Iterator[PredictiveAssociativeIndex]:
    """Like ``asked``; closes the whole index at the end."""
    with index:
        yield asked(index, parsed)
