"""The option ``--tenant NAME``, which limits a command to one tenant."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from pam_retriever.errors import InvalidInput
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.validation import check_tenant


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


@contextmanager
def within(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> Iterator[PredictiveAssociativeIndex]:
    """Like ``tenant_of``; closes the whole index at the end."""
    with index:
        yield tenant_of(index, parsed)
