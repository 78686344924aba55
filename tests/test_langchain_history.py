"""``PAMHistoryRetriever`` uses a chat as a trajectory, and finds the next steps."""

from __future__ import annotations

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_samples import TableEmbedder

from langchain_pam import PAMHistoryRetriever, PAMVectorStore
from pam_retriever import InvalidInput

STEPS = ["the disk is full", "restart the service", "rotate the logs", "close the ticket"]
CHAT = [HumanMessage("the disk is full"), AIMessage("restart the service")]


@pytest.fixture
def store() -> PAMVectorStore:
    made = PAMVectorStore(TableEmbedder(dim=256))  # no two texts are similar
    made.add_texts([*STEPS, "feed the cat", "water the plants"], ids=["a", "b", "c", "d", "e", "f"])
    assert made.index is not None
    for _ in range(3):
        made.index.observe(["a", "b", "c", "d"])
        made.index.observe(["e", "b", "f"])
    return made


def ids(documents) -> list[str]:
    return [document.id for document in documents]


async def test_what_came_after_such_messages_is_found(store):
    retriever = PAMHistoryRetriever(vectorstore=store, k=1)
    assert ids(retriever.invoke(CHAT)) == ids(await retriever.ainvoke(CHAT)) == ["c"]
    other = [("human", "feed the cat"), {"role": "assistant", "content": "restart the service"}]
    assert ids(retriever.invoke(other)) == ids(await retriever.ainvoke(other)) == ["f"]
    assert [ids(one) for one in retriever.batch([CHAT, other])] == [["c"], ["f"]]
    prompt = ChatPromptTemplate.from_messages([("system", "Help."), ("placeholder", "{chat}")])
    assert ids((prompt | retriever).invoke({"chat": CHAT})) == ["c"]


async def test_the_embedder_is_awaited(store):
    before = store.embedding.sync_calls, store.embedding.async_calls
    await PAMHistoryRetriever(vectorstore=store).ainvoke(CHAT)
    assert (store.embedding.sync_calls, store.embedding.async_calls) == (before[0], before[1] + 1)


def test_in_a_chain(store):
    chain = RunnablePassthrough.assign(
        context=RunnableLambda(lambda state: state["messages"]) | PAMHistoryRetriever(vectorstore=store, k=2)
    )
    assert ids(chain.invoke({"messages": CHAT})["context"])[0] == "c"


async def test_messages_as_a_model_streams_them_are_steps(store):
    answer = AIMessageChunk("restart ") + AIMessageChunk("the service")
    streamed = [HumanMessageChunk("the disk is full"), answer]
    retriever = PAMHistoryRetriever(vectorstore=store, k=1)
    assert ids(retriever.invoke(streamed)) == ids(await retriever.ainvoke(streamed)) == ["c"]


def test_only_what_is_said_is_a_step(store):
    retriever = PAMHistoryRetriever(vectorstore=store, k=1)
    noise = [SystemMessage("feed the cat"), AIMessage(" "), ToolMessage("feed the cat", tool_call_id="1")]
    assert ids(retriever.invoke([*CHAT, *noise])) == ["c"]
    assert ids(PAMHistoryRetriever(vectorstore=store, k=1, types=("tool",)).invoke([*CHAT, *noise])) == ["b"]
    assert retriever.invoke([]) == retriever.invoke([SystemMessage("feed the cat")]) == []
    assert PAMHistoryRetriever(vectorstore=PAMVectorStore(TableEmbedder(dim=256))).invoke(CHAT) == []


def test_a_message_may_be_a_stored_document(store):
    calls = store.embedding.sync_calls
    found = PAMHistoryRetriever(vectorstore=store, k=1).invoke([HumanMessage("as yesterday", id="a"), ("ai", STEPS[1])])
    assert ids(found) == ["c"]
    assert store.embedding.sync_calls == calls + 1


async def test_a_document_that_the_filter_hides_is_as_one_that_is_not_stored(store):
    """Its message is embedded: an error would say that somebody else's document has this id."""
    store.add_texts(["secret", "mine"], ids=["x", "y"], metadatas=[{"user": "ben"}, {"user": "ann"}])
    store.index.observe(["x", "y"])
    for settings in ({"where": {"user": "ann"}}, {"cue_where": {"user": "ann"}}, {"where": {"user": "nobody"}}):
        retriever = PAMHistoryRetriever(vectorstore=store, **settings)
        hidden = [HumanMessage("restart the service", id="x")]
        unknown = [HumanMessage("restart the service", id="not stored")]
        assert ids(retriever.invoke(hidden)) == ids(await retriever.ainvoke(hidden)) == ids(retriever.invoke(unknown))
        both = [*hidden, HumanMessage("mine", id="y")]
        assert ids(retriever.invoke(both)) == ids(await retriever.ainvoke(both))
    shown = PAMHistoryRetriever(vectorstore=store, where={"user": "ann"}, cue_where={}, k=1)
    assert ids(shown.invoke([HumanMessage("something else", id="x")])) == ["y"]


def test_its_settings(store):
    store.index.update("c", metadata={"kind": "fix"})
    store.index.update("f", metadata={"kind": "fix"})
    settings = {"k": 2, "where": {"kind": "fix"}, "cue_where": {}, "score_key": "score"}
    first, second = PAMHistoryRetriever(vectorstore=store, **settings).invoke(CHAT)
    assert (first.id, second.id) == ("c", "f")
    assert first.metadata["score"] > second.metadata["score"]
    assert len(PAMHistoryRetriever(vectorstore=store, k=6, min_score=0.5).invoke(CHAT)) == 1
    ann = store.tenant("ann")
    assert PAMHistoryRetriever(vectorstore=store, tenant="ann").invoke(CHAT) == []
    ann.add_texts(STEPS[:2], ids=["x", "y"])
    ann.index.observe(["x", "y"])
    assert ids(PAMHistoryRetriever(vectorstore=store, tenant="ann", k=1).invoke(CHAT[:1])) == ["y"]


def test_invalid_arguments_are_refused(store):
    retriever = PAMHistoryRetriever(vectorstore=store)
    for wrong in ("the disk is full", CHAT[0], [object()], {"messages": CHAT}):
        with pytest.raises(InvalidInput, match="history"):
            retriever.invoke(wrong)
    with pytest.raises(InvalidInput, match="unknown options"):
        retriever.invoke(CHAT, k=3)
    with pytest.raises(InvalidInput, match="unknown options"):
        PAMHistoryRetriever(vectorstore=store, filter={"a": 1})
