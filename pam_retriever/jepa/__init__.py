"""Two predictors over one learned space (Dury, sections 3.1 to 3.5).

The flow, one module per step::

    modalities -> observations -> encoder -> outward, ema, collapse -> joint -> store

An observation has the values of all modalities at one time. ``CompositeEncoder`` fuses it to a state.
``OutwardPredictor`` predicts the next state, and ``Predictor`` (inward) the states that were experienced with it.
``JointTrainer`` trains all three.
"""

from pam_retriever.jepa.encoder import CompositeEncoder
from pam_retriever.jepa.joint import JointConfig, JointReport, JointTrainer, salience_of
from pam_retriever.jepa.modalities import Modality
from pam_retriever.jepa.observations import Observations
from pam_retriever.jepa.outward import OutwardPredictor

__all__ = [
    "CompositeEncoder",
    "JointConfig",
    "JointReport",
    "JointTrainer",
    "Modality",
    "Observations",
    "OutwardPredictor",
    "salience_of",
]
