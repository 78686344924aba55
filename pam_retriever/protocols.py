"""Protocols of the encoders that the core takes."""

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
        """n."""

    def pack(self) -> list[bytes]:
        """Each of them as bytes, for the database."""


@runtime_checkable
class Trainable(Protocol):
    """A module whose weights are stored with an index."""

    @property
    def dim(self) -> int:
        """d, the length of its outputs."""

    def duplicate(self, trainable: bool) -> Self:
        """A copy, to go on training, or a frozen one on the CPU."""

    def to_json(self) -> dict[str, object]:
        """The arguments that rebuild it, without its weights."""

    def pack_weights(self) -> bytes:
        """Its weights as safetensors."""

    def load_weights(self, packed: bytes) -> None:
        """Replaces its weights by what ``pack_weights`` made.

        Raises:
            ValueError: they do not fit.
        """


@runtime_checkable
class Encoder(Trainable, Protocol):
    """Makes vectors of observations, such as ``CompositeEncoder``."""

    @property
    def modalities(self) -> Mapping[str, object]:
        """What it observes, by name."""

    def read(self, given: object, where: str) -> Observed:
        """Checks n observations of any form.

        Raises:
            InvalidInput: of the observations; the message names ``where``.
        """

    def unpack(self, packed: Sequence[bytes]) -> Observed:
        """The observations that ``Observed.pack`` made bytes of."""

    def encode(self, observations: ObservationsLike | Observed) -> Float32:
        """The states (n, dim) of n observations."""
