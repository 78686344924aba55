"""What ``fit`` leaves with an index: the setting "model", and the weights that it names."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pam_retriever.config import FitConfig
from pam_retriever.errors import IndexFormatError
from pam_retriever.predictor import Predictor
from pam_retriever.storage.weights import read_predictor
from pam_retriever.trust import read_trust
from pam_retriever.types import Trust


def read_fitted(folder: Path, model: dict[str, Any], dim: int) -> tuple[Predictor, int, Trust | None]:
    """The predictor, the window and the trust that the setting ``model`` describes.

    Raises:
        IndexFormatError: they are damaged.
    """
    return read_predictor(folder, model, dim), *read_learnt(model)


def read_learnt(model: dict[str, Any]) -> tuple[int, Trust | None]:
    """The window and the trust that the setting ``model`` describes.

    Raises:
        IndexFormatError: they are damaged.
    """
    try:
        return int(model["window"]), read_trust(model.get("trust"))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise IndexFormatError(
            f"The index describes its trust in the predictor wrongly ({error!r}).", "what fit stored", "Restore it."
        ) from error


def describe(trust: Trust | None, learnt_to: int, recipe: FitConfig | None) -> dict[str, Any]:
    """What the setting "model" says beside the predictor and the window."""
    return {
        "trust": None if trust is None else asdict(trust),
        "learnt_to": learnt_to,
        "recipe": None if recipe is None else asdict(recipe),
    }


def check_fitted(memories: int, weights: bool, associations: bool) -> None:
    """Association vectors come with the weights that made them.

    Raises:
        IndexFormatError: one is there without the other.
    """
    if memories and weights != associations:
        raise IndexFormatError(
            f"The index has {'no ' * (not weights)}weights and {'no ' * (not associations)}association vectors.",
            "both or neither",
            "Restore the folder from a copy, or run pam-retriever repair on it.",
        )
