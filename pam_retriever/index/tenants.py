"""Tenants: separate indexes inside an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pam_retriever.errors import InvalidInput
from pam_retriever.index.base import IndexBase
from pam_retriever.validation import check_flag

if TYPE_CHECKING:
    from pam_retriever.index import PredictiveAssociativeIndex
    from pam_retriever.index.open_tenants import OpenTenants


class Tenants(IndexBase):
    """The part of an index that has tenants."""

    def tenant(self, name: str, *, train: bool | None = None) -> PredictiveAssociativeIndex:
        """Returns a separate index inside this one, for one user, customer or project; creates it if it does not exist.

        It has the interface of an index, and its own ids, texts, words, trajectories, feedback, links, weights and
        calibration. Tenants, and this index, share no data and no weights: none affects the answers of another. So each
        tenant learns by its own ``fit``. It inherits dimension, backend, embedder, encoder and ``names`` from this
        index, and is closed with it. While a reference to a tenant exists, the same name returns the same object.

        Args:
            name: any string of 1 to 150 bytes of UTF-8 without NUL. Case matters, also on case-insensitive file
                systems.
            train: False forbids training on this tenant: its ``fit`` and ``auto_fit`` raise an error, and it answers
                from sources that need no training, and from weights of an earlier ``fit`` if there are any. True
                allows training again. The setting is stored with the tenant; None keeps it.

        Raises:
            InvalidInput: an argument is invalid; or the index is in an engine, is a tenant itself, or was opened with
                ``read_only=True`` and has no such tenant.
            IndexFormatError: the tenant's folder is damaged.
            IndexLocked: the tenant's own folder is open for writing elsewhere.
            StorageError: the disk is full or read-only.
        """
        if train is not None:
            check_flag("train", train)
        index = self._tenants_of_own().get(name)
        if train is not None:
            index.allow_training(train)
        return index

    def tenants(self) -> list[str]:
        """Returns the names of the tenants, sorted."""
        return self._tenants_of_own().names()

    def drop_tenant(self, name: str) -> bool:
        """Removes a tenant with all its data: when it returns, no file of the index holds a byte of it.

        Copies made by ``save`` are not changed. Later calls on the tenant raise ``IndexClosed``.

        Args:
            name: of the tenant; an unknown one is ignored.

        Returns:
            Whether it existed.

        Raises:
            InvalidInput: the name is invalid, or the index is in an engine or is a tenant itself.
            ReadOnlyIndex: the index was opened with ``read_only=True``.
            StorageError: the disk is full or read-only.
        """
        return self._tenants_of_own().drop(name)

    def _tenants_of_own(self) -> OpenTenants:
        self._lock.check_process()
        if self._tenants is None:
            raise InvalidInput("Got tenant(...) on a tenant.", "the index that it is in", "Ask that one.")
        return self._tenants
