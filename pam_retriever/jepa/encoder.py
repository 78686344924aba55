"""f_theta: the encoder from several modalities to one state (Dury, section 3.3)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam_retriever.arrays import is_finite
from pam_retriever.errors import InvalidInput
from pam_retriever.jepa.modalities import Modality
from pam_retriever.jepa.observations import Observations, read_observations, unpack
from pam_retriever.protocols import ObservationsLike, Observed
from pam_retriever.types import Float32
from pam_retriever.validation import check_count

if TYPE_CHECKING:
    from typing_extensions import Self


Fusion = Literal["mlp", "concatenate"]


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


class CompositeEncoder(StoredModule):
    """Encodes each modality with its own module, and fuses them into one state vector.

    Modalities may be missing: "mlp" uses a learned token instead, "concatenate" uses zeros, so that it has no effect on
    any cosine.

    Args:
        modalities: name -> modality; names without dots.
        dim: d, length of a state; for "concatenate" the modalities determine it.
        width: length of the features of a modality without its own length.
        hidden: width of the fusing MLP.
        fusion: "mlp" is learned. "concatenate" joins unit vectors: without training, the cosine of two states is the
            weighted mean of the cosines of the modalities that both have.
        weights: for "concatenate", the weight of each modality; 1 by default.
        seed: the seed of the weights.

    Raises:
        InvalidInput: an argument is invalid.

    Example:
        >>> kinds = {"text": Modality.vector(4), "speaker": Modality.category(["Ada", "Ben"])}
        >>> encoder = CompositeEncoder(kinds, dim=8)
        >>> encoder.encode([{"text": [0, 1, 0, 0], "speaker": "Ada"}, {"speaker": "Ben"}]).shape
        (2, 8)
    """

    def __init__(
        self,
        modalities: Mapping[str, Modality],
        dim: int | None = None,
        width: int = 64,
        hidden: int = 256,
        fusion: Fusion = "mlp",
        weights: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        _check_names(modalities, weights or {})
        if weights and fusion == "mlp":
            raise InvalidInput(f"Got weights={weights} with fusion='mlp'.", "fusion='concatenate'", "Leave them out.")
        if fusion not in ("mlp", "concatenate"):
            raise InvalidInput(f"Got fusion={fusion!r}.", "'mlp' or 'concatenate'", "Use 'mlp' to train it.")
        self.modalities = dict(modalities)
        self.width, self.hidden, self.fusion = check_count("width", width), check_count("hidden", hidden), fusion
        self.weights = {name: float((weights or {}).get(name, 1.0)) for name in modalities}
        lengths = {name: kind.features or width for name, kind in modalities.items()}
        total = sum(lengths.values())
        if fusion == "concatenate" and dim not in (None, total):
            raise InvalidInput(f"Got dim={dim} for modalities of {lengths}.", str(total), "Leave dim out.")
        self.dim = total if fusion == "concatenate" else check_count("dim", 128 if dim is None else dim)
        with torch.random.fork_rng(devices=[]):  # torch's initialisation uses the global generator
            torch.manual_seed(seed)
            self.senses = nn.ModuleDict({name: kind.build(width) for name, kind in modalities.items()})
            if fusion == "mlp":
                self.norms = nn.ModuleDict({name: nn.LayerNorm(length) for name, length in lengths.items()})
                self.absent = nn.ParameterDict({n: nn.Parameter(torch.zeros(k)) for n, k in lengths.items()})
                self.fuse = nn.Sequential(nn.Linear(total, hidden), nn.GELU(), nn.Linear(hidden, self.dim))
                self.straight = nn.Linear(total, self.dim, bias=False)

    def forward(self, values: Mapping[str, Tensor], present: Mapping[str, Tensor]) -> Tensor:
        """Encodes B moments.

        Args:
            values: name -> (B, *shape), observations.
            present: name -> (B,) bool.

        Returns:
            (B, d); with "mlp" every state has mean 0 and variance 1 over its dimensions.
        """
        tokens = []
        for name, kind in self.modalities.items():
            x, there = values[name], present[name][:, None]
            if kind.dtype == "uint8":
                x = x.float() / 255
            features: Tensor = self.senses[name](x)  # (B, features)
            if self.fusion == "mlp":
                tokens.append(torch.where(there, self.norms[name](features), self.absent[name]))
            else:
                tokens.append(F.normalize(features, dim=-1) * there * self.weights[name] ** 0.5)
        joined = torch.cat(tokens, dim=-1)
        if self.fusion == "concatenate":
            return joined
        return F.layer_norm(self.fuse(joined) + self.straight(joined), (self.dim,))

    @torch.inference_mode()
    def encode(self, observations: ObservationsLike | Observed, batch_size: int = 512) -> Float32:
        """Returns the states (n, d) of n observations: a list of dicts, a dict of columns, or ``Observations``.

        Raises:
            InvalidInput: an observation is invalid.
        """
        read = observations
        if not isinstance(read, Observations):
            read = read_observations(observations, self.modalities, "the observations")
        device, training = next((p.device for p in self.parameters()), torch.device("cpu")), self.training
        self.eval()
        try:
            states = [self(*self.tensors(read[at : at + batch_size], device)) for at in range(0, len(read), batch_size)]
        finally:
            self.train(training)
        encoded: Float32 = torch.cat(states).float().cpu().numpy()
        return encoded

    def read(self, given: object, where: str) -> Observations:
        """Checks n observations of any form.

        Raises:
            InvalidInput: an observation is invalid. The message names ``where``.
        """
        return read_observations(given, self.modalities, where)

    def unpack(self, packed: Sequence[bytes]) -> Observations:
        """Returns observations from the bytes of ``Observations.pack``."""
        return unpack(packed, self.modalities)

    def tensors(self, observations: Observations, device: torch.device) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Returns the arguments of ``forward``; loads references, and uses zeros for missing modalities."""
        values = {}
        for name, kind in self.modalities.items():
            value, there = observations.values[name], observations.present[name]
            if kind.loader:
                loaded = np.zeros((len(value), *kind.shape), kind.dtype)
                if there.any():
                    loaded[there] = kind.load(value[there], repr(name))
                value = loaded
            values[name] = torch.from_numpy(value).to(device)
        present = {name: torch.from_numpy(there).to(device) for name, there in observations.present.items()}
        return values, present

    def to_json(self) -> dict[str, object]:
        """Returns the arguments that rebuild it, without weights and custom modules."""
        return {
            "modalities": {name: kind.to_json() for name, kind in self.modalities.items()},
            "dim": self.dim,
            "width": self.width,
            "hidden": self.hidden,
            "fusion": self.fusion,
            "weights": self.weights,
        }


def _check_names(modalities: Mapping[str, Modality], weights: Mapping[str, float]) -> None:
    if (
        not isinstance(modalities, Mapping)
        or not modalities
        or not all(isinstance(kind, Modality) for kind in modalities.values())
    ):
        raise InvalidInput(
            f"Got modalities={modalities!r}.", "a dict of name -> Modality, at least one", "Use Modality.vector(dim)."
        )
    bad = [name for name in modalities if not isinstance(name, str) or not name or "." in name]
    if bad:
        raise InvalidInput(f"Got the name {bad[0]!r}.", "a non-empty string without dots", "Rename the modality.")
    wrong = {
        name: weight
        for name, weight in weights.items()
        if name not in modalities or not is_finite(weight) or weight <= 0
    }
    if wrong:
        raise InvalidInput(f"Got weights={wrong}.", f"numbers above 0 for {list(modalities)}", "Leave them out.")
