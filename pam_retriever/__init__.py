"""A retriever that also finds what happened with the query, not only what looks like it.

The flow, one module a step::

    trajectories -> cooccurrence -> predictor, losses, objectives, training -> channels
                 -> backends -> recall

``index.PredictiveAssociativeIndex`` wires them to ``storage``; start there. The method is that of
"Predictive Associative Memory" (Dury).
"""

from pam_retriever.__about__ import __version__
from pam_retriever.channels import Channels
from pam_retriever.config import FitConfig
from pam_retriever.engines import MilvusBackend, PgVectorBackend
from pam_retriever.errors import (
    EmptyIndex,
    EngineUnavailable,
    IndexClosed,
    IndexFormatError,
    IndexLocked,
    InvalidInput,
    MissingExtra,
    NotFitted,
    PAMError,
    ReadOnlyIndex,
    StorageError,
    TrainingDiverged,
    UnknownId,
)
from pam_retriever.imagine import Imagination
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.jepa import CompositeEncoder, JointConfig, JointTrainer, Modality, OutwardPredictor
from pam_retriever.parquet import read_parquet
from pam_retriever.predictor import PredictorConfig
from pam_retriever.types import Evidence, FitReport, Hit, Record, Trajectory

__all__ = [
    "Channels",
    "CompositeEncoder",
    "EmptyIndex",
    "EngineUnavailable",
    "Evidence",
    "FitConfig",
    "FitReport",
    "Hit",
    "Imagination",
    "IndexClosed",
    "IndexFormatError",
    "IndexLocked",
    "InvalidInput",
    "JointConfig",
    "JointTrainer",
    "MilvusBackend",
    "MissingExtra",
    "Modality",
    "NotFitted",
    "OutwardPredictor",
    "PAMError",
    "PgVectorBackend",
    "PredictiveAssociativeIndex",
    "PredictorConfig",
    "ReadOnlyIndex",
    "Record",
    "StorageError",
    "TrainingDiverged",
    "Trajectory",
    "UnknownId",
    "__version__",
    "read_parquet",
]
