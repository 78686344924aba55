"""Tenants: indexes of their own inside an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pam_retriever.errors import InvalidInput
from pam_retriever.index.base import IndexBase

if TYPE_CHECKING:
    from pam_retriever.index import PredictiveAssociativeIndex
    from pam_retriever.index.open_tenants import OpenTenants


class Tenants(IndexBase):
    """The part of an index that has tenants."""

    def tenant(self, name: str, *, train: bool | None = None) -> PredictiveAssociativeIndex:
        """An index of its own inside this one, for one user, customer or project; made if it is not there.

        It has the interface of an index, and ids, texts, words, trajectories, feedback, links, weights and
        calibration of its own. Nothing of another tenant, or of this index, shows in it, changes a score or is
        searched, and the other way round: no weights are shared, so each tenant learns by its own ``fit``. It takes
        over dimension, backend, embedder, encoder and ``names`` of this index, and is closed with it. While anybody
        holds a tenant, the same name gives the same object.

        Args:
            name: any string of 1 to 150 bytes of UTF-8 without NUL. Capital and small letters differ, also on file
                systems that do not tell them apart.
            train: False: no weights may be learnt from this tenant. Its own ``fit`` and ``auto_fit`` are refused then,
                and it answers by what needs none. It is stored with the tenant; None leaves the setting as it is, True
                allows training again.

        Raises:
            InvalidInput: of the arguments; the index is in an engine, is a tenant itself, or was opened with
                ``read_only=True`` and has no such tenant.
            IndexFormatError: what is in the tenant's folder is damaged.
            IndexLocked: the tenant's own folder is open for writing elsewhere.
            StorageError: the disk does not take it.
        """
        index = self._tenants_of_own().get(name)
        if train is not None:
            index.allow_training(train)
        return index

    def tenants(self) -> list[str]:
        """The names of the tenants, sorted."""
        return self._tenants_of_own().names()

    def drop_tenant(self, name: str) -> bool:
        """Removes a tenant with all that it stored: no file of the index holds a byte of it when this returns.

        Copies that ``save`` made before are other indexes. Whoever still holds the tenant gets ``IndexClosed``.

        Args:
            name: which one; an unknown one is ignored.

        Returns:
            Whether it was there.

        Raises:
            InvalidInput: of the name, or the index is in an engine or a tenant itself.
            ReadOnlyIndex: the index was opened with ``read_only=True``.
            StorageError: the disk does not take it.
        """
        return self._tenants_of_own().drop(name)

    def _tenants_of_own(self) -> OpenTenants:
        self._lock.check_process()
        if self._tenants is None:
            raise InvalidInput("A tenant was asked of a tenant.", "the index that it is in", "Ask that one.")
        return self._tenants
