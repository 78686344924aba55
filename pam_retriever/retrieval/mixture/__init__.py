"""From evidence to one ranking: sources score candidates, and a mixture weights them.

``sources`` computes the features, ``mixture`` sums them, ``fitting`` learns the weights on ``holdout``, and ``report``
computes means with intervals.
"""

from pam_retriever.evaluation import Validation, Worth
from pam_retriever.retrieval.mixture.fitting import MixtureFit, fit_mixture
from pam_retriever.retrieval.mixture.holdout import History
from pam_retriever.retrieval.mixture.mixture import Evidence, Mixture, Priors, kinds, rank
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses
from pam_retriever.retrieval.mixture.sources import Source

__all__ = [
    "Cues",
    "Evidence",
    "History",
    "Mixture",
    "MixtureFit",
    "Pools",
    "Priors",
    "RequestLog",
    "Source",
    "Uses",
    "Validation",
    "Worth",
    "fit_mixture",
    "kinds",
    "rank",
]
