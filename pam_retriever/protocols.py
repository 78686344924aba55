"""Interfaces of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pam_retriever.types import Float32

if TYPE_CHECKING:
    from typing_extensions import Self

ObservationsLike = Mapping[str, object] | Sequence[Mapping[str, object]]
"""n moments: a list of dicts of modalities, or a dict of columns."""


@runtime_checkable
class Observed(Protocol):
    """n checked observations."""

    def __len__(self) -> int:
        """The number n."""

    def pack(self) -> list[bytes]:
        """Returns each observation as bytes, for the database."""


@runtime_checkable
class Trainable(Protocol):
    """A module whose weights are stored with an index."""

    @property
    def dim(self) -> int:
        """d, the length of the outputs."""

    def duplicate(self, trainable: bool) -> Self:
        """Returns a copy for further training, or a frozen one on the CPU."""

    def to_json(self) -> dict[str, object]:
        """Returns the arguments that rebuild it, without its weights."""

    def pack_weights(self) -> bytes:
        """Returns the weights as safetensors."""

    def load_weights(self, packed: bytes) -> None:
        """Replaces the weights by the output of ``pack_weights``.

        Raises:
            ValueError: the weights do not fit the module.
        """


@runtime_checkable
class Encoder(Trainable, Protocol):
    """Makes vectors from observations; ``CompositeEncoder`` implements this interface."""

    @property
    def modalities(self) -> Mapping[str, object]:
        """The names of the modalities."""

    def read(self, given: object, where: str) -> Observed:
        """Checks n observations of any form.

        Raises:
            InvalidInput: an observation is invalid. The message names ``where``.
        """

    def unpack(self, packed: Sequence[bytes]) -> Observed:
        """Returns observations from the bytes of ``Observed.pack``."""

    def encode(self, observations: ObservationsLike | Observed) -> Float32:
        """Returns the states (n, dim) of n observations."""
