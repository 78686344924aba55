"""Documents and nodes have times, from a key of their metadata; both adapters use the times in questions."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pytest
from engine_servers import ENGINES, fresh_engine
from langchain_core.documents import Document
from langchain_samples import DIM, TableEmbedder
from llama_index_samples import make_node

from langchain_pam import PAMRetriever, PAMVectorStore
from llama_index_pam import PAMVectorStore as NodeStore
from pam_retriever import InvalidInput, PredictiveAssociativeIndex

UTC = timezone.utc
MONTHS = ["January", "March", "July", "October"]
STAMPS = ["2023-01-05", "2023-03-07T10:00:00Z", "2023-07-03", datetime(2023, 10, 9, tzinfo=UTC)]
NOW = datetime(2024, 1, 2, tzinfo=UTC)


def documents(key: str) -> list[Document]:
    return [
        Document(f"we talked of topic {n}", id=str(n), metadata={key: stamp, "n": n}) for n, stamp in enumerate(STAMPS)
    ]


def ids(found) -> list[str]:
    return [document.id for document in found]


@pytest.mark.parametrize("key", ["timestamp", "date", "created_at", "last_modified"])
def test_documents_have_the_time_that_their_metadata_say(key):
    store = PAMVectorStore(TableEmbedder())
    store.add_documents(documents(key))
    assert ids(store.recall("topic", when="July 2023")) == ["2"]
    assert ids(store.recall("topic", when=(date(2023, 3, 1), None), k=9, mode="similarity", now=NOW)) != []
    assert ids(store.similarity_search("topic", filter={"$time": {"$lt": date(2023, 2, 1)}})) == ["0"]
    asked = PAMRetriever(vectorstore=store, k=1, now=NOW)
    for n, month in enumerate(MONTHS):
        assert ids(asked.invoke(f"what did we talk of in {month} 2023?")) == [str(n)]
    assert [record.metadata[key] for record in store.index.get(["2"])] == ["2023-07-03"]  # unchanged


def test_a_retriever_refuses_a_number_as_the_time_and_keeps_other_forms():
    """Pydantic would take 5 for the fifth second of 1970: then nothing was found."""
    store = PAMVectorStore(TableEmbedder())
    store.add_documents(documents("date"))
    for wrong in (5, 5.0, True, b"July", (True, None)):
        with pytest.raises(InvalidInput, match="when"):
            PAMRetriever(vectorstore=store, when=wrong)
    for right in ("July 2023", date(2023, 7, 3), ("July 2023", None), ["2023-07-01", datetime(2023, 8, 1)]):
        assert "2" in ids(PAMRetriever(vectorstore=store, when=right).invoke("topic"))
    assert PAMRetriever(vectorstore=store, when=(1, 2.5)).when == (1, 2.5)  # where times are numbers


async def test_documents_that_are_added_asynchronously_have_it_too():
    store = PAMVectorStore(TableEmbedder())
    await store.aadd_documents(documents("date"))
    assert ids(await store.arecall("topic", when="July 2023")) == ["2"]


def test_a_key_of_ones_own_and_none():
    """``time_key`` makes a store read times from another key, from the first of several keys, or from none."""
    store = PAMVectorStore(TableEmbedder(), time_key="seen")
    store.add_documents([*documents("seen"), Document("later", id="later", metadata={"date": "2023-07-08"})])
    assert ids(store.recall("topic", when="July 2023")) == ["2"]
    several = PAMVectorStore(TableEmbedder(), time_key=["seen", "date"])
    several.add_documents([Document("a", id="a", metadata={"date": "2023-07-08", "seen": "2023-03-01"})])
    assert ids(several.recall("a", when="March 2023")) == ["a"]
    without = PAMVectorStore(TableEmbedder(), time_key=None)
    without.add_documents(documents("date"))
    with pytest.raises(InvalidInput, match="no times"):
        without.recall("topic", when="July 2023")
    for wrong in (7, ""):
        with pytest.raises((InvalidInput, TypeError)):
            PAMVectorStore(TableEmbedder(), time_key=wrong)


def test_what_is_no_date_is_no_time():
    """A metadata value that is not a date gives a document no time."""
    store = PAMVectorStore(TableEmbedder())
    values = [1_690_000_000, "last week", None, ["2023-07-03"], True, "2023-13-45"]
    store.add_documents([Document("a", id=str(n), metadata={"date": value}) for n, value in enumerate(values)])
    assert [record.time for record in store.index.find()] == [None] * 6


@pytest.mark.parametrize("kind", ENGINES)
def test_documents_in_an_engine_have_their_times(kind):
    index = PredictiveAssociativeIndex(dim=DIM, backend=fresh_engine(kind))
    store = PAMVectorStore(TableEmbedder(), index=index)
    store.add_documents(documents("date"))
    assert ids(store.similarity_search("topic", filter={"date": "2023-07-03"})) == ["2"]
    assert ids(store.recall("topic", when="July 2023")) == ["2"]
    store.close()


def test_nodes_have_the_time_that_their_metadata_say():
    vectors = [[1.0, n / 10, 0] for n in range(4)]
    nodes = [make_node(str(n), vectors[n], created_at=str(stamp)) for n, stamp in enumerate(STAMPS)]
    for options in ({}, {"time_key": "created_at"}):
        store = NodeStore(**options)
        store.add(nodes)
        found = store.recall([1.0, 0, 0], when="July 2023", mode="similarity")
        assert [node.node.node_id for node in found] == ["2"]
    store = NodeStore(time_key=None)
    store.add(nodes)
    assert [record.time for record in store.client.find()] == [None] * 4


def test_the_stores_of_tenants_read_the_same_key():
    store = PAMVectorStore(TableEmbedder(), time_key="seen")
    ann = store.tenant("ann")
    ann.add_documents(documents("seen"))
    assert ids(ann.recall("topic", when="July 2023")) == ["2"]
    nodes = NodeStore(time_key="seen").tenant("ann")
    nodes.add([make_node("a", [1.0, 0, 0], seen="2023-07-03"), make_node("b", [1.0, 1, 0], date="2023-07-03")])
    assert [record.time for record in nodes.client.find()] == [datetime(2023, 7, 3, tzinfo=UTC), None]
