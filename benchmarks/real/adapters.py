"""``python -m benchmarks.real.adapters``: the LangChain and LlamaIndex adapters before ``fit``, relative to the core.

LoCoMo (Maharana et al., ACL 2024; CC BY-NC 4.0, so it is not in this repository): download ``data/locomo10.json`` from
https://github.com/snap-research/locomo and pass its path, or set ``PAM_DATA_DIR`` to its folder. Core, LangChain
and LlamaIndex link the turns of a session by ``append``, ``group_by``, and PREVIOUS and NEXT. The measure is R@10.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode

import langchain_pam
import llama_index_pam
from benchmarks import report
from benchmarks.real.data import find, load_embedder
from benchmarks.real.dialogue import Conversation, evaluate, read
from benchmarks.real.locomo import FILES
from pam_retriever import PredictiveAssociativeIndex

K = 10
Float32 = np.ndarray[Any, np.dtype[np.float32]]


class PrecomputedEmbedder(Embeddings):
    """An embedder that looks up precomputed embeddings by text."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._vectors[text]


def core(conversation: Conversation, turns: Float32, questions: Float32) -> list[list[str]]:
    index = PredictiveAssociativeIndex(dim=turns.shape[1])
    for turn, vector in zip(conversation.turns, turns, strict=True):
        index.append(str(turn["session"]), vector, text=turn["text"], id=turn["id"])
    texts = [text for text, _, _ in conversation.questions]
    return [index.recall(vector, k=K, text=text).ids for vector, text in zip(questions, texts, strict=True)]


def langchain(conversation: Conversation, turns: Float32, questions: Float32) -> list[list[str]]:
    texts = [text for text, _, _ in conversation.questions]
    table = dict(zip(texts, questions.tolist(), strict=True))
    table |= {turn["text"]: vector for turn, vector in zip(conversation.turns, turns.tolist(), strict=True)}
    store = langchain_pam.PAMVectorStore(PrecomputedEmbedder(table), group_by="session")
    store.add_documents(
        [Document(turn["text"], id=turn["id"], metadata={"session": turn["session"]}) for turn in conversation.turns]
    )
    retriever = langchain_pam.PAMRetriever(vectorstore=store, k=K)
    return [[str(found.id) for found in retriever.invoke(text)] for text in texts]


def llama_index(conversation: Conversation, turns: Float32, questions: Float32) -> list[list[str]]:
    nodes = [
        TextNode(id_=turn["id"], text=turn["text"], embedding=vector)
        for turn, vector in zip(conversation.turns, turns.tolist(), strict=True)
    ]
    sessions = conversation.sessions
    for at in np.flatnonzero(sessions[1:] == sessions[:-1]).tolist():
        nodes[at].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=nodes[at + 1].node_id)
        nodes[at + 1].relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=nodes[at].node_id)
    store = llama_index_pam.PAMVectorStore()
    store.add(nodes)
    retriever = llama_index_pam.PAMRetriever(store, similarity_top_k=K)
    return [
        [hit.node.node_id for hit in retriever.retrieve(QueryBundle(text, embedding=vector))]
        for (text, _, _), vector in zip(conversation.questions, questions.tolist(), strict=True)
    ]


def recall_at_k(conversation: Conversation, found: list[list[str]]) -> Float32:
    """Returns (Q,) R@10."""
    position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
    ranked = np.full((len(found), K), -1, np.int64)
    for row, ids in zip(ranked, found, strict=True):
        row[: len(ids)] = [position[id] for id in ids]
    return evaluate(ranked, conversation)[:, 1].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", help="folder of a sentence-transformers model")
    parser.add_argument(
        "--conversations", type=int, default=1, help="number of conversations, from the first on (default: 1)"
    )
    arguments = parser.parse_args()
    embedder = load_embedder(arguments.model)
    scores: dict[str, list[Float32]] = {"core": [], "LangChain": [], "LlamaIndex": []}
    for conversation in read(find(arguments.data, FILES, __doc__ or ""))[: arguments.conversations]:
        turns = np.asarray(embedder.encode([turn["text"] for turn in conversation.turns]), np.float32)
        questions = np.asarray(embedder.encode([text for text, _, _ in conversation.questions]), np.float32)
        for name, ask in (("core", core), ("LangChain", langchain), ("LlamaIndex", llama_index)):
            scores[name].append(recall_at_k(conversation, ask(conversation, turns, questions)))
    result = {name: round(float(np.concatenate(found).mean()), 4) for name, found in scores.items()}
    questions_asked = sum(len(found) for found in scores["core"])
    print(result)
    found = {"conversations": arguments.conversations, "questions": questions_asked, "R@10": result}
    print(f"written to {report.write('real/adapters', found)}")


if __name__ == "__main__":
    main()
