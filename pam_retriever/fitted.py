"""What ``fit`` leaves with an index: the setting "model", and the weights that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    predictor = read_predictor(folder, model, dim)
    try:
        return predictor, int(model["window"]), read_trust(model.get("trust"))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise IndexFormatError(
            f"The index describes its trust in the predictor wrongly ({error!r}).", "what fit stored", "Restore it."
        ) from error


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
