"""An operations log: which fix worked for earlier incidents like this one?

    python examples/next_step.py

Each incident is a trajectory: a symptom, a fix that failed, the cause, and the fix that worked. The query is
the known steps of a new incident.
"""

import zlib

import numpy as np

from pam_retriever import PredictiveAssociativeIndex

SYMPTOMS = ["disk is full", "queries are slow", "workers restart", "certificate has expired"]
CAUSES = ["logs are not rotated", "an index is missing", "memory runs out", "renewal was disabled"]
FIXES = ["rotate the logs", "create the index", "raise the memory limit", "renew the certificate"]


def embed(texts: list[str]) -> np.ndarray:
    """Returns a sum of random vectors, one per word; replace it by your embedder."""
    words = {word for text in texts for word in text.split()}
    vectors = {word: np.random.default_rng(zlib.crc32(word.encode())).standard_normal(64) for word in words}
    return np.array([sum(vectors[word] for word in text.split()) for text in texts], np.float32)


def main() -> None:
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(dim=64, embedder=embed)
    for kind, texts in (("symptom", SYMPTOMS), ("cause", CAUSES), ("fix", FIXES)):
        index.add(ids=texts, texts=texts, metadatas=[{"kind": kind}] * len(texts))
    for number in range(60):
        at = int(random.integers(4))
        wrong = FIXES[int(random.integers(4))]  # the first fix fails
        index.observe([SYMPTOMS[at], wrong, CAUSES[at], FIXES[at]])
        if number == 0:
            print("after one incident:", index.recall_next([SYMPTOMS[at], wrong, CAUSES[at]], k=1).ids)

    report = index.fit(progress=False)
    print(f"weights fitted on {report.next_steps} held-out steps")

    # ``where`` allows only fixes as answers; ``cue_where={}`` allows any memory as a step of the query
    seen = [{"text": "queries are slow"}, "an index is missing"]
    for hit in index.recall_next(seen, k=2, where={"kind": "fix"}, cue_where={}, explain=True):
        print(f"{hit.score:.2f} {hit.id}: in {len(hit.evidence or ())} incidents before; else {hit.others}")


if __name__ == "__main__":
    main()
