"""Tests an installed wheel without the project, without torch and without extras."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import pam_retriever
from pam_retriever import PredictiveAssociativeIndex

vectors = np.random.default_rng(0).standard_normal((50, 64))
ids = [str(number) for number in range(50)]
assert "site-packages" in str(pam_retriever.__file__), f"not the installed package: {pam_retriever.__file__}"
with tempfile.TemporaryDirectory() as scratch:
    folder = Path(scratch) / "index"
    with PredictiveAssociativeIndex.open(folder, dim=64) as index:
        index.add(vectors, ids, texts=[f"text {id}" for id in ids])
        index.observe(ids[:10])
        index.feedback(vectors[3], used=["4"])
    with PredictiveAssociativeIndex.open(folder) as index:
        assert len(index) == 50
        assert index.search("3", k=1).ids != ["3"]
        assert "4" in index.recall(vectors[3], text="text 7", k=5).ids
assert "torch" not in sys.modules
print(f"Python {sys.version.split()[0]}: pam-retriever {pam_retriever.__version__} works")
