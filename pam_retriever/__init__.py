"""A retriever that finds memories that happened with the query, and memories that look like it.

Start with ``PredictiveAssociativeIndex``. The method is that of "Predictive Associative Memory" (Dury). Names are
imported on first use, so that torch is loaded only when it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pam_retriever.__about__ import __version__
from pam_retriever.errors import (
    EmbedderUnavailable,
    EmptyIndex,
    EngineUnavailable,
    IndexClosed,
    IndexForked,
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

if TYPE_CHECKING:
    from pam_retriever.engines import MilvusBackend, PgVectorBackend
    from pam_retriever.evaluation import Evaluation, evaluate
    from pam_retriever.experience.feedback import Feedback
    from pam_retriever.experience.parquet import read_parquet
    from pam_retriever.index import PredictiveAssociativeIndex
    from pam_retriever.index.inspecting import Overview, TimeCounts
    from pam_retriever.jepa import CompositeEncoder, JointConfig, JointTrainer, Modality, OutwardPredictor
    from pam_retriever.mentions.names import Naming
    from pam_retriever.model.forward import PredictorConfig
    from pam_retriever.model.keys import Channels
    from pam_retriever.retrieval.imagination import Imagination
    from pam_retriever.retrieval.projection import Projection
    from pam_retriever.store.erasure import ErasureReport
    from pam_retriever.training.config import FitConfig
    from pam_retriever.types import (
        Evidence,
        FitReport,
        Hit,
        Hits,
        Mention,
        Record,
        Trajectory,
        TrajectoryRecord,
    )


__all__ = [
    "Channels",
    "CompositeEncoder",
    "EmbedderUnavailable",
    "EmptyIndex",
    "EngineUnavailable",
    "ErasureReport",
    "Evaluation",
    "Evidence",
    "Feedback",
    "FitConfig",
    "FitReport",
    "Hit",
    "Hits",
    "Imagination",
    "IndexClosed",
    "IndexForked",
    "IndexFormatError",
    "IndexLocked",
    "InvalidInput",
    "JointConfig",
    "JointTrainer",
    "Mention",
    "MilvusBackend",
    "MissingExtra",
    "Modality",
    "Naming",
    "NotFitted",
    "OutwardPredictor",
    "Overview",
    "PAMError",
    "PgVectorBackend",
    "PredictiveAssociativeIndex",
    "PredictorConfig",
    "Projection",
    "ReadOnlyIndex",
    "Record",
    "StorageError",
    "TimeCounts",
    "TrainingDiverged",
    "Trajectory",
    "TrajectoryRecord",
    "UnknownId",
    "__version__",
    "evaluate",
    "read_parquet",
]

_LATER = {  # public name -> its module
    "Channels": "pam_retriever.model.keys",
    "CompositeEncoder": "pam_retriever.jepa",
    "ErasureReport": "pam_retriever.store.erasure",
    "Evaluation": "pam_retriever.evaluation",
    "Evidence": "pam_retriever.types",
    "Feedback": "pam_retriever.experience.feedback",
    "FitConfig": "pam_retriever.training.config",
    "FitReport": "pam_retriever.types",
    "Hit": "pam_retriever.types",
    "Hits": "pam_retriever.types",
    "Imagination": "pam_retriever.retrieval.imagination",
    "JointConfig": "pam_retriever.jepa",
    "JointTrainer": "pam_retriever.jepa",
    "MilvusBackend": "pam_retriever.engines",
    "Modality": "pam_retriever.jepa",
    "Naming": "pam_retriever.mentions.names",
    "OutwardPredictor": "pam_retriever.jepa",
    "Overview": "pam_retriever.index.inspecting",
    "Projection": "pam_retriever.retrieval.projection",
    "PgVectorBackend": "pam_retriever.engines",
    "PredictiveAssociativeIndex": "pam_retriever.index",
    "PredictorConfig": "pam_retriever.model.forward",
    "Mention": "pam_retriever.types",
    "Record": "pam_retriever.types",
    "TimeCounts": "pam_retriever.index.inspecting",
    "Trajectory": "pam_retriever.types",
    "TrajectoryRecord": "pam_retriever.types",
    "evaluate": "pam_retriever.evaluation",
    "read_parquet": "pam_retriever.experience.parquet",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = value  # later look-ups do not call this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
