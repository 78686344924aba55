"""Modalities: the check and the storage of their observations, and the modules that encode them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pam_retriever.arrays import kind_of_no_number
from pam_retriever.errors import InvalidInput
from pam_retriever.validation import check_count, check_positive, check_text, read_list

Array = npt.NDArray[Any]
Loader = Callable[[list[str]], npt.ArrayLike]
DAY = 86_400.0
PERIODS = (DAY, 7 * DAY, 365.2425 * DAY)


@dataclass(frozen=True)
class Modality:
    """A modality. Create one with ``vector``, ``image``, ``category``, ``time`` or ``custom``.

    Attributes:
        kind: the name of the constructor.
        shape: the shape of one observation; () for a single value.
        dtype: the dtype of stored observations; the module gets "uint8" observations divided by 255.
        features: length of the module's output; None for the width of the encoder.
        options: other arguments that rebuild the module, as JSON.
        module: for "custom": maps (B, *shape) float32 to (B, features).
        loader: loads references, see ``custom``.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    features: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    loader: Loader | None = None

    @classmethod
    def vector(cls, dim: int, precomputed: bool = False) -> Modality:
        """Numbers (dim,), encoded by a small MLP; ``precomputed`` embeddings are used unchanged."""
        dim = check_count("dim", dim)
        return cls("vector", (dim,), features=dim if precomputed else None, options={"precomputed": precomputed})

    @classmethod
    def image(cls, shape: tuple[int, int, int], dtype: str = "uint8") -> Modality:
        """Images (channels, height, width), at least 8 x 8, encoded by two convolutions over patches."""
        if len(shape) != 3:
            raise InvalidInput(f"Got shape={shape!r}.", "(channels, height, width)", "Add an axis for one channel.")
        return cls("image", tuple(shape), dtype)

    @classmethod
    def category(cls, values: Sequence[str]) -> Modality:
        """One of some strings, for example a speaker or a tool; each has an embedding."""
        names = [check_text(value, "values") for value in read_list("values", values)]
        return cls("category", (), "int64", options={"values": names})

    @classmethod
    def time(cls, periods: Sequence[float] = PERIODS) -> Modality:
        """Seconds, encoded by their phase in each of the ``periods`` (seconds: day, week and year)."""
        lengths = [check_positive("periods", period) for period in read_list("periods", periods)]
        return cls("time", (), "float64", 2 * len(lengths), {"periods": lengths})

    @classmethod
    def custom(
        cls,
        module: nn.Module,
        shape: tuple[int, ...],
        features: int,
        dtype: str = "float32",
        loader: Loader | None = None,
    ) -> Modality:
        """Any torch module. To load an index with it, pass an encoder with such a module again.

        Args:
            module: maps (B, *shape) float32 to (B, features).
            shape: the shape of one observation.
            features: length of its output.
            dtype: the dtype of stored observations.
            loader: if given, observations are strings, for example file names, and the index stores these. Each
                encoding calls ``loader(strings)``, which returns (n, *shape).
        """
        return cls("custom", tuple(shape), dtype, features, module=module, loader=loader)

    @property
    def stored(self) -> npt.DTypeLike:
        """The dtype in which memories store an observation; references are stored as text."""
        return np.dtype(object) if self.loader else np.dtype(self.dtype)

    def read(self, values: Sequence[object] | Array, where: str) -> Array:
        """Returns the present observations (n, *shape), checked and in the stored dtype.

        Raises:
            InvalidInput: a shape, kind or value is wrong. The message names ``where``.
        """
        if self.loader:
            bad = [value for value in values if not isinstance(value, str)]
            if bad:
                raise InvalidInput(f"Got {bad[0]!r} for {where}.", "a string that its loader reads", "Use str().")
            return np.array([*values, None], object)[:-1]  # without None, an array of str_
        if self.kind == "category":
            return self._read_categories(values, where)
        return self._read_numbers(values, self.dtype, where)

    def load(self, stored: Array, where: str) -> Array:
        """Returns the input of the module from stored observations (n, ...); loads references."""
        if self.loader is None:
            return stored
        return self._read_numbers(self.loader(stored.tolist()), self.dtype, f"{where}, from its loader")

    def build(self, width: int) -> nn.Module:
        """Returns the module, (B, *shape) float32 to (B, features or ``width``)."""
        if self.module is not None:
            return copy.deepcopy(self.module)  # two encoders with one modality share no weights
        if self.kind == "image":
            return _image_net(self.shape, width)
        if self.kind == "category":
            return _Categories(len(self.options["values"]), width)
        if self.kind == "time":
            return _Periods(self.options["periods"])
        if self.features is not None:
            return nn.Identity()
        return nn.Sequential(nn.Linear(self.shape[0], 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def to_json(self) -> dict[str, object]:
        """Returns all but the module and the loader."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "features": self.features,
            "options": self.options,
            "loader": self.loader is not None,
        }

    def _read_numbers(self, values: object, dtype: str, where: str) -> Array:
        try:
            given = np.asarray(values)
            if (kind := kind_of_no_number(given)) is not None:
                raise TypeError(kind)
            numbers = given.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"The observations of {where} are no array of numbers ({error}).",
                f"shape (n, {', '.join(map(str, self.shape))})",
                "Check that all have the same shape.",
            ) from error
        if given.shape[1:] != self.shape:
            raise InvalidInput(
                f"One observation of {where} has the shape {given.shape[1:]}.", f"{self.shape}", "Reshape or resize it."
            )
        if not np.isfinite(numbers).all():
            bad = int(np.flatnonzero(~np.isfinite(numbers).reshape(len(numbers), -1).all(1))[0])
            raise InvalidInput(
                f"Observation {bad} of {where} holds NaN or infinity.",
                "finite numbers",
                "Leave a missing observation out, or pass None for it.",
            )
        if np.dtype(dtype).kind in "iu" and (numbers != np.floor(numbers)).any():
            raise InvalidInput(
                f"The observations of {where} hold fractions.",
                f"whole numbers, as {dtype} holds them",
                "Scale and round them, or give the modality dtype='float32'.",
            )
        limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
        if numbers.size and (numbers.min() < limits.min or numbers.max() > limits.max):
            raise InvalidInput(
                f"The observations of {where} reach from {numbers.min():g} to {numbers.max():g}.",
                f"numbers that {dtype} can hold",
                "Rescale them, or give the modality another dtype.",
            )
        return np.ascontiguousarray(given.astype(dtype))

    def _read_categories(self, values: Sequence[object] | Array, where: str) -> Array:
        names = {name: at for at, name in enumerate(self.options["values"])}
        unknown = [value for value in values if not isinstance(value, str) or value not in names]
        if unknown:
            raise InvalidInput(
                f"Got {unknown[0]!r} for {where}.",
                f"one of {list(names)[:10]}",
                "Leave it out where it is unknown, or add a value for 'other' to the modality.",
            )
        return np.array([names[value] for value in values], np.int64)


class _Categories(nn.Module):
    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, width)

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(x.long())
        return embedded


class _Periods(nn.Module):
    """Sine and cosine of the phase of a time in each period, (B,) float64 to (B, 2 * periods)."""

    def __init__(self, periods: Sequence[float]) -> None:
        super().__init__()
        self.periods = list(periods)

    def forward(self, x: Tensor) -> Tensor:
        angles = 2 * math.pi * x[:, None] / torch.tensor(self.periods, dtype=x.dtype, device=x.device)
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def _image_net(shape: tuple[int, ...], width: int) -> nn.Module:
    channels, height, breadth = shape
    if min(height, breadth) < 8:
        raise InvalidInput(f"Got images of {height} x {breadth}.", "at least 8 x 8", "Use Modality.vector.")
    side = [math.ceil(length // 4 / 2) for length in (height, breadth)]
    return nn.Sequential(
        nn.Conv2d(channels, 32, 4, stride=4),  # patches
        nn.GELU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.GroupNorm(8, 64),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(64 * side[0] * side[1], 2 * width),
        nn.GELU(),
        nn.Linear(2 * width, width),
    )
