"""Memory for agents: LlamaIndex's memory block, LangChain's tools and callback."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from llama_index.core.utils import get_tokenizer
from pydantic import ValidationError

from langchain_pam import CitationFeedback, PAMRetriever, PAMVectorStore, feedback_tool, recall_tool
from langchain_pam.tools import cited_in_brackets, read_answer
from llama_index_pam import PAMMemoryBlock
from pam_retriever import PredictiveAssociativeIndex

AXES = ["stairs", "wrist", "coffee", "train", "plaster", "wet", "late", "other"]


def embed(text: str) -> list[float]:
    """Returns a dimension for each known word; a text without known words looks like "other"."""
    row = [float(word in text.lower().split()) for word in AXES]
    return row if any(row) else [*row[:-1], 1.0]


class Words(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return embed(text)


class NodeWords(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return embed(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return embed(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return embed(query)


# ---- LlamaIndex


def block(index: PredictiveAssociativeIndex | None = None, **settings: Any) -> PAMMemoryBlock:
    index = PredictiveAssociativeIndex(dim=len(AXES)) if index is None else index
    return PAMMemoryBlock(index=index, embed_model=NodeWords(), **settings)


def test_a_misspelt_setting_of_a_block_is_refused():
    with pytest.raises(ValidationError, match="top_k"):
        block(top_k=2)


def said(*texts: str) -> list[ChatMessage]:
    return [ChatMessage(role="user" if at % 2 == 0 else "assistant", content=text) for at, text in enumerate(texts)]


async def test_turns_outside_the_window_are_recalled():
    made = block(similarity_top_k=2)
    memory = Memory.from_defaults(
        session_id="today", token_limit=60, chat_history_token_ratio=0.5, token_flush_size=10, memory_blocks=[made]
    )
    turns = ["the stairs were wet", "my wrist is in plaster", *(f"nothing much {number}" for number in range(16))]
    await memory.aput_messages(said(*turns))
    window = await memory.aget()
    assert "wet" not in str([message.blocks for message in window if message.role == "user"])
    asked = await memory.aget(input="stairs")
    assert "user: the stairs were wet\nassistant: my wrist is in plaster" in str(asked[0].content)
    kept, (session,) = made.index.find(), made.index.trajectories()
    assert [record.text for record in kept] == turns[: len(kept)]
    assert (session.id, session.ids) == ("today", tuple(record.id for record in kept))
    assert kept[1].metadata == {"session": "today", "role": "assistant"}


@pytest.mark.parametrize("across", [False, True])
async def test_sessions_are_separate_by_default(across):
    made = block(across_sessions=across)
    await made.aput(said("the stairs were wet"), session_id="ann")
    await made.aput(said("wet stairs again"), session_id="bob")
    await made.aput(said("wet stairs of nobody"))
    found = await made.aget(said("wet stairs"), session_id="ann")
    assert ("the stairs were wet" in found, "again" in found, "nobody" in found) == (True, across, across)


@pytest.mark.parametrize("session", [None, ""])
async def test_without_a_session_no_session_is_read(session):
    made = block()
    await made.aput(said("wet stairs of ann"), session_id="ann")
    await made.aput(said("wet stairs of nobody"), session_id=session)
    assert await made.aget(said("wet stairs"), session_id=session) == "user: wet stairs of nobody"


async def test_the_index_may_hold_other_memories():
    made = block()
    made.index.add([embed("wet"), embed("wet stairs")], texts=["notes on wet stairs", None])
    await made.aput(said("wet stairs"))
    assert set((await made.aget(said("wet stairs"))).split("\n")) == {"memory: notes on wet stairs", "user: wet stairs"}


async def test_an_empty_block_gives_no_text():
    made = block()
    assert await made.aget(said("stairs"), session_id="ann") == ""
    assert [await made.aget(messages) for messages in (None, [], said("  "))] == ["", "", ""]
    await made.aput([*said(" "), ChatMessage(role="assistant", blocks=[])])
    assert len(made.index) == 0


async def test_truncation_keeps_the_best_hits():
    made, content = block(), "user: one two three\nassistant: four five six\nuser: seven eight nine"
    assert await made.atruncate(content, 1) == "user: one two three\nassistant: four five six"
    assert await made.atruncate(content, 8) == "user: one two three"
    exactly = len(get_tokenizer()("user: seven eight nine"))
    assert await made.atruncate(content, exactly) == "user: one two three\nassistant: four five six"
    assert await made.atruncate(content, 1000) is None


# ---- LangChain


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_tool_refuses_a_question_without_words(blank):
    store = filled()
    with pytest.raises(ValidationError, match="question"):
        recall_tool(PAMRetriever(vectorstore=store)).invoke({"question": blank})
    with pytest.raises(ValidationError, match="question"):
        feedback_tool(store).invoke({"question": blank, "used": ["coffee"]})


def filled() -> PAMVectorStore:
    store = PAMVectorStore(Words(), group_by=None)
    texts = ["wet stairs", "coffee", "late train", "wrist in plaster", *(f"nothing {number}" for number in range(9))]
    store.add_documents([Document(text, id=text.replace(" ", "-")) for text in texts])
    return store


def test_an_agent_recalls_and_gives_feedback():
    store = filled()
    recall, feedback = recall_tool(PAMRetriever(vectorstore=store, k=2)), feedback_tool(store)
    assert recall.invoke({"question": "wet stairs"}).startswith("[wet-stairs] wet stairs\n\n[")
    answer = recall.invoke({"type": "tool_call", "id": "1", "name": "recall", "args": {"question": "wet stairs"}})
    assert answer.artifact[0].id == "wet-stairs"
    assert "nothing-8" not in recall.invoke({"question": "wet stairs"})
    assert feedback.invoke({"question": "wet stairs", "used": ["nothing-8"]}) == "Noted."
    assert "[nothing-8]" in recall.invoke({"question": "wet stairs"})
    assert asyncio.run(recall.ainvoke({"question": "wet stairs"})) == recall.invoke({"question": "wet stairs"})
    asyncio.run(feedback.ainvoke({"question": "late", "used": ["coffee"], "unused": ["late-train"]}))
    assert [one.text for one in store.feedbacks()] == ["wet stairs", "late"]


def test_tools_refuse_invalid_arguments():
    store = filled()
    recall, feedback = recall_tool(PAMRetriever(vectorstore=store)), feedback_tool(store)
    for tool, given in (
        (recall, {}),
        (recall, {"question": ""}),
        (recall, {"question": ["wet"]}),
        (feedback, {"question": "wet"}),
        (feedback, {"question": "wet", "used": []}),
        (feedback, {"question": "wet", "used": "coffee"}),
    ):
        with pytest.raises(ValidationError):
            tool.invoke(given)
    assert "nobody" in feedback.invoke({"question": "wet", "used": ["nobody"]})
    assert "used" in asyncio.run(feedback.ainvoke({"question": "wet", "used": ["coffee"], "unused": ["coffee"]}))
    empty = recall_tool(PAMRetriever(vectorstore=PAMVectorStore(Words())))
    assert empty.invoke({"question": "wet"}) == "Nothing is stored about that."
    assert store.feedbacks() == []


def test_a_graph_calls_the_tools_and_goes_on_after_an_unknown_id():
    store = filled()
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([recall_tool(PAMRetriever(vectorstore=store, k=1)), feedback_tool(store)]))
    graph.add_edge(START, "tools")
    asked = [
        {"name": "recall", "args": {"question": "wet stairs"}, "id": "1"},
        {"name": "feedback", "args": {"question": "wet stairs", "used": ["nobody"]}, "id": "2"},
    ]
    answers = graph.compile().invoke({"messages": [AIMessage("", tool_calls=asked)]})["messages"][1:]
    assert answers[0].content == "[wet-stairs] wet stairs"
    assert (answers[0].status, answers[1].status) == ("success", "error")


def chain(store: PAMVectorStore, answer: str) -> Any:
    model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
    retriever = PAMRetriever(vectorstore=store, k=2)
    return RunnableLambda(lambda question: str(retriever.invoke(question))) | model


@pytest.mark.parametrize(
    ("answer", "used"),
    [
        ("It was slippery [wet-stairs].", ["wet-stairs"]),
        ("It was slippery [1].", ["wet-stairs"]),
        ("Both [wet-stairs, coffee] and [coffee].", ["coffee", "wet-stairs"]),
        ("Nobody [nothing-8] knows [7].", []),
        ("wet-stairs, without brackets", []),
    ],
)
def test_what_an_answer_cites_is_feedback(answer, used):
    store = filled()
    chain(store, answer).invoke("wet stairs", {"callbacks": [CitationFeedback(store)]})
    assert [sorted(one.used) for one in store.feedbacks()] == ([used] if used else [])


def test_runs_do_not_mix_and_leave_nothing_behind():
    store = filled()
    learns = CitationFeedback(store, lambda answer, documents: [one for one in documents if one.id in answer])
    for question, answer in (("wet stairs", "wet-stairs"), ("late train", "late-train and nothing-8")):
        chain(store, answer).invoke(question, {"callbacks": [learns]})
    assert [(one.text, list(one.used)) for one in store.feedbacks()] == [
        ("wet stairs", ["wet-stairs"]),
        ("late train", ["late-train"]),
    ]
    PAMRetriever(vectorstore=store).invoke("wet", {"callbacks": [learns]})  # there is no answer to learn from
    recall_tool(PAMRetriever(vectorstore=store)).invoke({"question": "wet"}, {"callbacks": [learns]})
    broken = RunnableLambda(lambda question: PAMRetriever(vectorstore=store).invoke(question)[99])
    with pytest.raises(IndexError):
        broken.invoke("wet", {"callbacks": [learns]})
    assert len(store.feedbacks()) == 2
    assert (learns._runs, learns._root) == ({}, {})


def test_an_agent_that_recalls_by_a_tool_is_learnt_from():
    store = filled()
    recall = recall_tool(PAMRetriever(vectorstore=store, k=2))
    agent = RunnableLambda(lambda question: {"messages": [AIMessage(recall.invoke({"question": question})[:12])]})
    agent.invoke("wet stairs", {"callbacks": [CitationFeedback(store)]})
    assert [list(one.used) for one in store.feedbacks()] == [["wet-stairs"]]


def test_a_handler_of_a_part_learns_from_that_part():
    store = filled()
    learns = CitationFeedback(store)
    part = chain(store, "It was slippery [wet-stairs].").with_config(callbacks=[learns])
    whole = RunnableLambda(lambda question: part.invoke(question)) | (lambda answer: answer.text)
    whole.invoke("wet stairs")
    assert [list(one.used) for one in store.feedbacks()] == [["wet-stairs"]]
    assert (learns._runs, learns._root) == ({}, {})


def test_answers_are_found_where_chains_put_them():
    assert read_answer({"context": "a", "answer": "b"}) == "b"
    assert read_answer({"answer": None, "messages": [AIMessage("b")]}) == "b"  # a state whose other key is not yet set
    assert read_answer([AIMessage("a"), AIMessage("b")]) == "b"
    assert (read_answer({"messages": []}), read_answer({"x": "a"}), read_answer(3)) == (None, None, None)
    documents = [Document("a", id="2"), Document("b", id="x")]
    assert [one.id for one in cited_in_brackets("[2]", documents)] == ["2"]
    documents = [Document("a", id="Smith, 2020"), Document("b", id="x"), Document("c", id="y")]
    assert [one.id for one in cited_in_brackets("[Smith, 2020], and [x, 3].", documents)] == ["Smith, 2020", "x", "y"]


def test_documents_of_another_store_do_not_hinder():
    """A chain may have several retrievers; one handler is for one store."""
    store, elsewhere = filled(), PAMVectorStore(Words())
    elsewhere.add_texts(["wet stairs elsewhere"], ids=["foreign"])
    retrievers = [PAMRetriever(vectorstore=one) for one in (elsewhere, store)]

    def answer(question: str) -> str:
        for one in retrievers:
            one.invoke(question)
        return "It was slippery [foreign], [wet-stairs]."

    RunnableLambda(answer).invoke("wet stairs", {"callbacks": [CitationFeedback(store)]})
    assert [list(one.used) for one in store.feedbacks()] == [["wet-stairs"]]
