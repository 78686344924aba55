"""The setting "model", written by ``fit``, and the weights that it names."""

from __future__ import annotations

from typing import cast

from pam_retriever.errors import IndexFormatError
from pam_retriever.model.scoring import read_calibration, to_stored
from pam_retriever.store.database import Settings
from pam_retriever.store.folder.weights import ModelMetadata, PackedPredictor
from pam_retriever.store.rebuild import TrainedModel
from pam_retriever.types import Calibration

REMEDY = "Restore the folder from a copy, or run pam-retriever repair on it and fit again."
MODEL = "model"  # the setting; in an engine each generation of keys has its own
FORGOTTEN = "forgotten"  # a setting: how many times experience was deleted since the predictor learnt it; False for 0


def read_model(settings: Settings) -> ModelMetadata | None:
    """Returns the setting "model"; None before ``fit``. Checks only the entry "sha256".

    Raises:
        IndexFormatError: the setting names no predictor.
    """
    model = settings.get(MODEL)
    if model is not None and not (isinstance(model, dict) and isinstance(model.get("sha256"), str)):
        raise IndexFormatError(
            f"The index has an invalid description of its predictor ({model!r}).",
            "the data that fit stored",
            REMEDY,
        )
    return cast("ModelMetadata | None", model)


def read_window_and_calibration(model: ModelMetadata) -> tuple[int, Calibration | None]:
    """Reads the window and the calibration that the setting "model" describes.

    Raises:
        IndexFormatError: they are damaged.
    """
    try:
        return int(model["window"]), read_calibration(model.get("trust"), int(model["predictor"]["dim"]))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise IndexFormatError(
            f"The index has an invalid calibration ({error!r}).", "the data that fit stored", REMEDY
        ) from error


def mark_forgotten(settings: Settings) -> None:
    """Inside a transaction: counts a deletion of experience, which the predictor may have learnt."""
    before = settings.get(FORGOTTEN)
    settings.set(FORGOTTEN, 1 + (before if isinstance(before, int) else 0))


def write_model(
    settings: Settings, packed: PackedPredictor, trained: TrainedModel, last_trained: int, forgotten: object
) -> None:
    """Writes the setting "model", inside a transaction.

    Args:
        settings: of the database.
        packed: the first result of ``pack_predictor``.
        trained: the result of the training.
        last_trained: the highest number of a trajectory that was learnt.
        forgotten: the setting "forgotten" of the replaced model. If experience was deleted during the training, the
            new weights know of it, too.
    """
    about = {
        "window": trained.window,
        "trust": to_stored(trained.calibration),
        "learnt_to": last_trained,
        "recipe": None if trained.recipe is None else dict(trained.recipe),
    }
    settings.set(MODEL, {**packed, **about})
    settings.set(FORGOTTEN, forgotten if forgotten != trained.forgotten else False)


def check_fitted(memories: int, weights: bool, associations: bool) -> None:
    """Checks that the database has both association vectors and the weights that made them, or neither.

    Raises:
        IndexFormatError: it has only one of the two.
    """
    if memories and weights != associations:
        raise IndexFormatError(
            f"The index has {'no ' * (not weights)}weights and {'no ' * (not associations)}association vectors.",
            "both or neither",
            "Restore the folder from a copy, or run pam-retriever repair on it.",
        )
