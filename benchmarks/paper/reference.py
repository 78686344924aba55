"""The paper's figures, from its tables and result files; means over training seeds."""

from __future__ import annotations

PREDICTOR = {
    "AP@1": 0.970, "AP@5": 0.703, "AP@10": 0.4064, "AP@20": 0.216, "CBR@20": 0.421, "AUC": 0.916,
    "AUC_cross_room": 0.849, "Specificity@20": 0.338, "MRR_cross_room": 0.633,
}  # fmt: skip
PREDICTOR_SD = {
    "AP@1": 0.005, "AP@5": 0.001, "AP@20": 0.001, "CBR@20": 0.002, "AUC": 0.0, "AUC_cross_room": 0.004,
    "Specificity@20": 0.005,
}  # fmt: skip
COSINE = {
    "AP@1": 0.0, "AP@5": 0.0848, "AP@10": 0.0628, "AP@20": 0.0454, "CBR@20": 0.00033, "AUC": 0.7892,
    "AUC_cross_room": 0.5033, "Specificity@20": 0.0, "MRR_cross_room": 0.0003,
}  # fmt: skip
BILINEAR = {
    "AP@1": 0.015, "AP@5": 0.037, "AP@10": 0.0301, "AP@20": 0.022, "CBR@20": 0.0, "AUC": 0.791,
    "AUC_cross_room": 0.514, "Specificity@20": 0.0, "MRR_cross_room": 0.0002,
}  # fmt: skip
MAIN = {"paper: predictor": PREDICTOR, "paper: SD": PREDICTOR_SD, "paper: cosine": COSINE, "paper: bilinear": BILINEAR}
RESAMPLING_SD = {"AP@1": 0.012, "CBR@20": 0.010, "AUC": 0.007, "AP@20": 0.003}
SHUFFLE = {
    "paper: seed 42": {
        "CBR@20": 0.044, "AP@20": 0.0195, "AUC": 0.612, "AUC_cross_room": 0.569, "Specificity@20": 0.115,
    },
    "paper: seed 123": {"CBR@20": 0.0426, "AP@20": 0.0175},
}  # fmt: skip
MATCHED = {"paper: predictor": {"AUC": 0.848}, "paper: cosine": {"AUC": 0.732}}
HELD_OUT = {
    "paper: trained anchors": {"CBR@20": 0.508},
    "paper: held-out anchors": {"CBR@20": 0.0, "AUC": 0.719, "AUC_cross_room": 0.526, "AP@1": 0.014},
}
EDGES = {
    "paper: trained edges": {"R@20": 0.578, "MRR": 0.678},
    "paper: held-out edges": {"R@20": 0.023, "MRR": 0.014},
    "paper: cosine": {"R@20": 0.0},
}
CHAINS = {"paper": {"1 hop": 0.455, "2 hops": 0.355, "3 hops": 0.280, "cosine": 0.0}}
DECAY = {"paper": {"with decay": 0.607, "without": 0.424}}
SELECTION = {
    "baseline": {"R@20": 0.037, "MRR": 0.060},
    "capacity": {"R@20": 0.218, "MRR": 0.530},
    "B depth": {"R@20": 0.222, "MRR": 0.567},
    "C coverage": {"R@20": 0.305, "MRR": 0.469},
    "D online": {"R@20": 0.398, "MRR": 0.423},
    "D2 both fixed": {"R@20": 0.421, "MRR": 0.635},
}
