"""Writes the golden index of the current format: python tests/make_golden.py, once for each released format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.store.folder.manifest import FORMAT_VERSION


def main() -> None:
    folder = Path(__file__).parent / "golden" / str(FORMAT_VERSION)
    index = PredictiveAssociativeIndex(dim=3)
    ids = [f"m{n}" for n in range(6)]
    vectors = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    metadatas = [{"n": n, "tags": ["a", "é"], "none": None} for n in range(6)]
    index.add(vectors, ids, [None, "", "text 東京タワー किताब", "\U0001d54c \u202e", "x" * 100, "\n"], metadatas)
    index.observe(Trajectory(ids=["m5", "m4"], id="stored", timestamps=[1.5, 2], salience=[0, 1]))
    index.fit([Trajectory(ids=ids, id="given")], window=2, config=FitConfig(hidden=8, passes=2), progress=False)
    index.delete("m3")
    index.feedback([1.0, 0.0, 0.0], {"m1": 2.0}, unused=["m2"], text="words é", metadata={"user": "ann"}, id="f1")
    index.feedback([0.0, 1.0, 0.0], ["m4", "m5"], timestamp=1.5, id="f2")
    index.save(folder / "index")
    hits = index.recall("m0", k=3, faithful=True, explain=True)
    answers = {
        "records": [
            {"id": r.id, "vector": r.vector.tolist(), "text": r.text, "metadata": r.metadata} for r in index.find()
        ],
        "recall": [[hit.id, hit.evidence[0].offset] for hit in hits],
        "scores": [hit.score for hit in hits],
        "note": None,
        "feedback": [[f.id, f.vector.tolist(), f.text, f.used, f.metadata, f.timestamp] for f in index.feedbacks()],
        "asked": index.recall([1.0, 0.1, 0.0], text="words é").ids,
    }
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
