"""Step 2, further on: how much each association counts in training (pam.tex 3.4, 3.8)."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from pam_retriever.cooccurrence import Associations, Experience
from pam_retriever.errors import InvalidInput
from pam_retriever.familiarity import running_counts, unfamiliarity
from pam_retriever.types import Familiarity


def training_weights(
    associations: Associations, experience: Experience, window: int, distance_weights: str, familiarity: Familiarity
) -> Associations:
    """The associations as training weighs them.

    Their salience becomes salience x unfamiliarity; their weights that too, times 1 / distance if
    ``distance_weights`` is "inverse".

    Raises:
        InvalidInput: an unknown familiarity, or nothing counts.
    """
    if familiarity not in get_args(Familiarity):
        raise InvalidInput(f"Got familiarity={familiarity!r}.", "'none', 'log' or 'difference'", "Use 'log' or none.")
    counts = running_counts(experience, len(associations.indptr) - 1)
    one, other = counts[associations.anchors()], counts[associations.indices]
    salience = associations.salience * unfamiliarity(
        associations.meetings, one, other, float(counts.sum()), window, familiarity
    )
    if not salience.any():
        raise InvalidInput("Every association has the weight 0.", "some above 0", "Check the salience.")
    weights = associations.weights * salience if distance_weights == "inverse" else salience
    return replace(associations, weights=weights, salience=salience)
