"""The open tenants of an index: the tenants in use, and a few recently used tenants."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pam_retriever.errors import IndexClosed, IndexFormatError, InvalidInput, PAMError, StorageError
from pam_retriever.index.background import BackgroundFits
from pam_retriever.locks import Mutex
from pam_retriever.store import naming
from pam_retriever.store.base import Store
from pam_retriever.store.faults import closed_error
from pam_retriever.store.folder.manifest import new_manifest
from pam_retriever.store.folder.opening import load_store, new_store, open_store, open_tenant
from pam_retriever.store.folder.tenant_names import folder_of
from pam_retriever.store.folder.tenants import no_tenants, write_empty
from pam_retriever.store.sqlite.pages import OF_TENANTS
from pam_retriever.validation import check_tenant

if TYPE_CHECKING:
    from pam_retriever.index import PredictiveAssociativeIndex

Make = Callable[[naming.Names | None, Store], tuple["PredictiveAssociativeIndex", BackgroundFits]]
ATTEMPTS = 3  # attempts to copy a tenant that is dropped and created again meanwhile
MOST_OPEN = 64  # each has up to four files open; systems allow 1,024 or more per process


class _Opened(NamedTuple):
    """An open tenant.

    Attributes:
        held: weak reference to the index; a strong reference elsewhere keeps it open.
        store: the store of the tenant.
        background: the background fits of the tenant.
    """

    held: weakref.ref[PredictiveAssociativeIndex]
    store: Store
    background: BackgroundFits


class OpenTenants:
    """Opens, creates, removes and closes the tenants of one index.

    Args:
        store: the store of the index.
        make: creates an index from the store of a tenant.
        most: number of tenants that stay open without references.
    """

    def __init__(self, store: Store, make: Make, most: int) -> None:
        self._store, self._make, self._most = store, make, most
        self._mutex = Mutex()
        self._opened: dict[str, _Opened] = {}
        self._recent: OrderedDict[str, PredictiveAssociativeIndex] = OrderedDict()  # in the order of use, latest last
        self._unheld: deque[str] = deque()  # names of tenants without references
        self._dropped: set[str] = set()  # of a copy in memory: removed from the copy, but still in its folder
        self._closed = False

    def names(self) -> list[str]:
        """Returns the names of the tenants, sorted."""
        with self._mutex:
            self._check()
            folders = self._store.tenant_folders
            stored = set() if folders is None else set(folders.names())
            if folders is not None and folders.mode == "follow":  # the writer may have dropped an open one
                return sorted(stored)
            return sorted((stored - self._dropped) | set(self._opened))

    def get(self, name: str, new: bool = True) -> PredictiveAssociativeIndex:
        """Returns a tenant; opens it, or with ``new`` creates it."""
        name = check_tenant(name)
        with self._mutex:
            self._check()
            self._close_unheld()
            index = self._find(name)
            if index is None:
                store, gone = self._open(name, new), self._unheld
                index, background = self._make(self._names(), store)
                store.database.mentions.give(self._store.database.mentions.naming)  # where nothing may be changed, too
                self._opened[name] = _Opened(weakref.ref(index, lambda _: gone.append(name)), store, background)
            self._recent[name] = index
            self._recent.move_to_end(name)
            self._keep_few_open()
        return index

    def drop(self, name: str) -> bool:
        """Removes a tenant with its files; returns whether it existed."""
        name = check_tenant(name)
        with self._mutex:
            self._check()
            self._store.database.check_writable()
            there = name in self._opened
            try:
                self._close(name)
            except PAMError:  # a damaged tenant can be removed, too
                self._remove(name)
                raise
            return self._remove(name) or there

    def _remove(self, name: str) -> bool:
        """Removes a closed tenant; returns whether it was stored."""
        folders = self._store.tenant_folders
        if folders is None:
            return False
        if folders.writable:
            return folders.remove(name)
        there = name not in self._dropped and folders.find(name) is not None
        self._dropped.add(name)
        return there

    def write(self, folder: Path) -> None:
        """Writes the folder of each tenant into one folder, without the tenants that are dropped meanwhile."""
        for name in self.names():
            for attempt in range(ATTEMPTS):
                try:
                    self.get(name, new=False).save(folder / folder_of(name))
                    break
                except (IndexClosed, IndexFormatError, InvalidInput):
                    if name not in self.names():  # another thread or process dropped it
                        break
                    if attempt == ATTEMPTS - 1:  # it was not dropped and created again: the error is its own
                        raise

    def close(self) -> None:
        """Closes all tenants, also the tenants in use."""
        with self._mutex, ExitStack() as closing:
            self._closed = True
            for name in list(self._opened):
                closing.callback(self._close, name)

    def _check(self) -> None:
        if self._closed:
            raise closed_error()
        if not self._store.holds_tenants:
            raise no_tenants(self._store.backend)

    def _find(self, name: str) -> PredictiveAssociativeIndex | None:
        """Returns a tenant if it is open."""
        opened, folders = self._opened.get(name), self._store.tenant_folders
        if opened is None:
            return None
        if not opened.store.closed:
            current = folders is None or folders.mode != "follow" or folders.find(name) == opened.store.opened
            index = opened.held() if current else None
            if index is None:  # its close was interrupted; or the writer dropped it, or replaced the whole index
                self._close(name)
            return index
        with opened.store.lock.exclusive():  # waits until its own ``close`` has ended
            opened.store.close()  # after an interrupt of that, the folder is locked still
            del self._opened[name]
        self._recent.pop(name, None)
        return None

    def _open(self, name: str, new: bool) -> Store:
        """Opens the store of a tenant that is not open; with ``new`` it may be a new tenant."""
        store, folders = self._store, self._store.tenant_folders
        path = None if folders is None or name in self._dropped else folders.find(name)
        if path is None and not new:
            raise InvalidInput(f"There is no tenant {name!r} any more.", "the name of a tenant", "See tenants().")
        encoder = None if store.space is None else store.space.encoder.duplicate(trainable=True)
        if folders is not None and folders.writable:
            if path is None:
                manifest = new_manifest(store.dim, store.backend)
                path = folders.make(name, lambda made: write_empty(made, manifest))
                try:
                    return open_tenant(path, store.dim, encoder, folders.lock)
                except StorageError:
                    folders.remove(name)  # otherwise a new tenant would exist although the call failed
                    raise
            return open_tenant(path, store.dim, encoder, folders.lock)
        if folders is None or not folders.read_only:
            if path is not None:
                return load_store(path, encoder)
            return new_store(store.dim, store.backend, None, encoder, OF_TENANTS)
        if path is None:
            raise InvalidInput(
                f"There is no tenant {name!r} in this index, which was opened with read_only=True.",
                "the name of a tenant",
                "tenants() lists them; a new one is made in an index that may be changed.",
            )
        return open_store(path, store.dim, store.backend, None, encoder, folders.mode)

    def _names(self) -> naming.Names | None:
        """Returns the names and links of the index, which its tenants share."""
        mentions, folders = self._store.database.mentions, self._store.tenant_folders
        changing = folders is None or not folders.read_only
        return mentions.naming if changing else None

    def _keep_few_open(self) -> None:
        """Closes the least recently used tenants, down to the largest number of open tenants."""
        folders = self._store.tenant_folders
        if folders is None or not (folders.writable or folders.read_only):
            return  # tenants in memory exist nowhere else
        for name in list(self._recent)[: max(0, len(self._recent) - self._most)]:
            if not self._opened[name].background.by_itself:  # its count of new steps is not stored
                del self._recent[name]
        self._close_unheld()

    def _close_unheld(self) -> None:
        """Closes the stores of tenants to which no reference exists any more."""
        while self._unheld:
            name = self._unheld.popleft()
            opened = self._opened.get(name)
            if opened is not None and opened.held() is None:
                self._close(name)

    def _close(self, name: str) -> None:
        opened = self._opened.get(name)
        self._recent.pop(name, None)
        if opened is None:
            return
        index = opened.held()
        if index is not None:
            index.close()
        else:
            with opened.store.lock.exclusive():
                naming.close(opened.store)
        self._opened.pop(name, None)  # at the end: an interrupted call can be repeated
