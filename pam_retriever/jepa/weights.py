"""The weights of a module in the database of an index."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import safetensors
import safetensors.torch
from torch import nn

if TYPE_CHECKING:
    from typing_extensions import Self


class StoredModule(nn.Module):
    """A module that an index stores."""

    def duplicate(self, trainable: bool) -> Self:
        """Returns a copy on the CPU, for further training or not."""
        twin = copy.deepcopy(self).requires_grad_(trainable)
        return twin if trainable else twin.cpu().eval()

    def pack_weights(self) -> bytes:
        """Returns the weights as safetensors."""
        return safetensors.torch.save({name: weight.contiguous() for name, weight in self.state_dict().items()})

    def load_weights(self, packed: bytes) -> None:
        """Replaces the weights by the output of ``pack_weights``.

        Raises:
            ValueError: the weights are damaged, or belong to another module.
        """
        try:
            self.load_state_dict(safetensors.torch.load(packed))
        except (RuntimeError, safetensors.SafetensorError) as error:
            raise ValueError(str(error)) from error
