"""The index behind a store and the stores of its tenants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from pam_retriever.errors import InvalidInput
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.locks import Mutex
from pam_retriever.store.folder.files import read_path
from pam_retriever.validation import check_tenant

Index = PredictiveAssociativeIndex
Tenant = TypeVar("Tenant")
"""The object that a store creates for each tenant."""
Result = TypeVar("Result")


class LazyIndex(Generic[Tenant]):
    """An index that is created with the first vector, which determines the dimension.

    Args:
        index: an existing index, or None.
        path: folder of a durable index; a folder with contents is opened.
        read_only: open the folder without changing it.
        make: creates an index in memory, with a dimension.
        open: opens a folder; the second argument is ``read_only``.

    Attributes:
        index: the index; None before the first vector.
        making: a lock, held while the index is created.

    Raises:
        InvalidInput: both an index and a path are given, or ``read_only`` without a path.
    """

    def __init__(
        self,
        index: Index | None,
        path: str | Path | None,
        read_only: bool,
        make: Callable[[int], Index],
        open: Callable[[str | Path, bool], Index],
    ) -> None:
        if index is not None and path is not None:
            raise InvalidInput("Got both index and path.", "one of them", "An index that was opened has its own path.")
        if read_only and path is None:
            raise InvalidInput("Got read_only=True without path.", "the folder to read", "Pass path=...")
        # absolute: the program may change its current folder before the first vector
        self._path, self._make, self._open = None if path is None else read_path("path", path), make, open
        filled = self._path is not None and (read_only or is_filled(self._path))
        self.index = open(self._path, read_only) if self._path is not None and filled else index
        self.making = Mutex()
        self._tenants: WeakValueDictionary[str, Tenant] = WeakValueDictionary()

    def of(self, tenant: str | None) -> Index | None:
        """Returns the index of a tenant, or the whole index for None; returns None before the first vector."""
        return self.index if self.index is None or tenant is None else self.index.tenant(tenant)

    def tenant(self, name: str, within: str | None, make: Callable[[], Tenant]) -> Tenant:
        """Returns the object that ``make`` created for a tenant, if something still refers to it; else a new one.

        Raises:
            InvalidInput: the name is invalid, or the store is ``within`` a tenant.
        """
        if within is not None:
            raise InvalidInput(
                f"The store of tenant {within!r} has no tenants.", "the whole store", "Call its tenant()."
            )
        with self.making:
            found = self._tenants.get(check_tenant(name))
            if found is None:
                found = self._tenants[name] = make()
        return found

    def store(self, tenant: str | None, dim: int, add: Callable[[Index], Result]) -> Result:
        """Stores vectors with ``add``; returns its result.

        If a new index refuses the first vectors, the next vectors may have another dimension.
        """
        with self.making if self.index is None else nullcontext():
            if (index := self.of(tenant)) is not None:
                return add(index)
            whole = self._make(dim)
            index = whole if tenant is None else whole.tenant(tenant)
            result = add(index)
            if self._path is not None:
                whole.save(self._path)
                whole = self._open(self._path, False)
            self.index = whole
            return result

    def close(self, tenant: str | None) -> None:
        """Closes the index of a tenant, or the whole index for None."""
        index = self.of(tenant)
        if index is not None:
            index.close()


def is_filled(path: str | Path) -> bool:
    """Returns whether a folder has any entry, or the path is a file."""
    folder = Path(path)
    return folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
