"""Step 2, further on: how much each association counts in training (pam.tex 3.4, 3.8)."""

from __future__ import annotations

import numpy as np

from pam_retriever.cooccurrence import Associations, Experience
from pam_retriever.errors import InvalidInput
from pam_retriever.familiarity import Familiarity, running_counts, unfamiliarity
from pam_retriever.types import Float32


def training_weights(
    associations: Associations, experience: Experience, window: int, distance_weights: str, familiarity: Familiarity
) -> Float32:
    """(E,) how much each association counts in training: distance x salience x unfamiliarity.

    Raises:
        InvalidInput: an unknown familiarity, or nothing counts.
    """
    if familiarity not in ("none", "log", "difference"):
        raise InvalidInput(f"Got familiarity={familiarity!r}.", "'none', 'log' or 'difference'", "Use 'log' or none.")
    base = associations.weights if distance_weights == "inverse" else np.ones(len(associations), np.float32)
    counts = running_counts(experience, len(associations.indptr) - 1)
    weights = base * associations.salience * unfamiliarity(associations, counts, window, familiarity)
    if not weights.any():
        raise InvalidInput("Every association has the weight 0.", "some above 0", "Check the salience.")
    return weights
