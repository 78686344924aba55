"""The LangChain store has none of the faults that users of vector stores often report."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from datetime import datetime, timezone

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_samples import DIM, TableEmbedder, fitted_sessions, ids_of, ladder, near

from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import InvalidInput, PredictiveAssociativeIndex

# ---- adding


def test_the_same_id_replaces_text_metadata_and_vector():
    store = PAMVectorStore(TableEmbedder())
    store.add_texts(["old"], [{"version": 1}], ids=["a"])
    store.add_texts(["new"], [{"version": 2}], ids=["a"])
    ((document, score),) = store.similarity_search_with_score("new", k=5)
    assert document == Document("new", id="a", metadata={"version": 2})
    assert score == pytest.approx(1.0, abs=1e-6)
    assert store.similarity_search("old", k=5, filter={"version": 1}) == []


def test_of_the_same_id_in_one_call_the_last_wins_and_all_ids_come_back():
    store = PAMVectorStore(TableEmbedder())
    assert store.add_texts(["one", "two", "three"], ids=["a", "b", "a"]) == ["a", "b", "a"]
    assert {document.id: document.page_content for document in store.get_by_ids(["a", "b"])} == {
        "a": "three",
        "b": "two",
    }


def test_ids_come_from_the_call_then_the_document_then_uuid4():
    store = PAMVectorStore(TableEmbedder())
    documents = [Document("x", id="own"), Document("y"), Document("z", id="other")]
    first, second, third = store.add_documents(documents, ids=[None, None, "given"])
    assert (first, third) == ("own", "given")
    assert uuid.UUID(second).version == 4
    assert documents == [Document("x", id="own"), Document("y"), Document("z", id="other")]


def test_texts_from_a_generator_are_all_stored():
    store = PAMVectorStore(TableEmbedder())
    ids = store.add_texts(text for text in ["x", "y"])
    assert len(store.get_by_ids(ids)) == 2


def test_what_goes_in_and_comes_out_is_not_shared():
    store = PAMVectorStore(TableEmbedder())
    metadata = {"tags": ["a"]}
    store.add_texts(["x"], [metadata], ids=["x"])
    metadata["tags"].append("b")
    store.similarity_search("x")[0].metadata["tags"].append("c")
    assert store.get_by_ids(["x"])[0].metadata == {"tags": ["a"]}


@pytest.mark.parametrize("metadata", [{"an": object()}, {"set": {1}}, {"nan": float("nan")}])
def test_metadata_that_cannot_be_stored_is_refused_and_nothing_is_stored(metadata, tmp_path):
    for store in (PAMVectorStore(TableEmbedder()), PAMVectorStore(TableEmbedder(), path=tmp_path / "store")):
        with pytest.raises(InvalidInput, match=r"metadatas\[1\]\['\w+'\] cannot be stored as JSON"):
            store.add_texts(["x", "y"], [{}, metadata])
        assert store.similarity_search("x") == []
        assert store.add_texts(["x"], ids=["1"]) == ["1"]
        store.close()


def test_times_in_metadata_come_back_as_iso_and_are_filtered_by():
    store = PAMVectorStore(TableEmbedder())
    days = [datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2)]
    store.add_texts(["first", "second"], [{"at": day} for day in days], ids=["1", "2"])
    assert [document.metadata["at"] for document in store.get_by_ids(["1", "2"])] == [day.isoformat() for day in days]
    assert ids_of(store.similarity_search("x", filter={"at": {"$gt": days[0]}})) == ["2"]


@pytest.mark.parametrize(
    ("texts", "metadatas", "ids"), [(["x", "y"], [{}], None), (["x", "y"], None, ["1"]), ("text", None, None)]
)
def test_lengths_must_agree(texts, metadatas, ids):
    with pytest.raises(InvalidInput):
        PAMVectorStore(TableEmbedder()).add_texts(texts, metadatas, ids=ids)


def test_an_empty_batch_and_an_embedder_that_loses_texts():
    class Losing(TableEmbedder):
        def embed_documents(self, texts):
            return super().embed_documents(texts)[1:]

    assert PAMVectorStore(TableEmbedder()).add_documents([]) == []
    with pytest.raises(InvalidInput, match="1 vector for 2 texts"):
        PAMVectorStore(Losing()).add_texts(["x", "y"])


def test_another_dimension_is_refused():
    store = PAMVectorStore.from_texts(["x"], TableEmbedder())
    store.embedding = TableEmbedder(dim=DIM + 1)
    with pytest.raises(InvalidInput, match="same embedder"):
        store.add_texts(["y"])
    with pytest.raises(InvalidInput):
        store.similarity_search("x")


def test_two_threads_that_add_first_make_one_index():
    store = PAMVectorStore(TableEmbedder())
    threads = [threading.Thread(target=store.add_texts, args=([f"text {n}"],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.index) == 8


# ---- deleting


def test_delete_leaves_no_ghosts():
    store = fitted_sessions()
    assert store.delete(["0-1", "never there"]) is True
    assert "0-1" not in ids_of(store.similarity_search("s0 p1", k=100))
    for mode in ("association", "hybrid", "specific"):
        assert "0-1" not in ids_of(store.recall("s0 p0", k=100, mode=mode))
    assert store.get_by_ids(["0-1", "0-0", "0-0"]) == store.get_by_ids(["0-0"])
    store.add_texts(["s0 p1"], ids=["0-1"])
    assert ids_of(store.similarity_search("s0 p1", k=1)) == ["0-1"]


def test_ids_come_in_any_collection_and_one_string_is_one_id():
    store = ladder(100)
    first, second, third, fourth = ids_of(store.similarity_search("query", k=4))
    store.delete(id for id in [first, second])
    store.delete(third)
    assert ids_of(store.similarity_search("query", k=1)) == [fourth]
    with pytest.raises(InvalidInput, match=r"Wrap it in \[ \]"):
        store.get_by_ids(fourth)


def test_delete_without_ids_forgets_all_and_unknown_options_delete_nothing():
    store = ladder(100)
    with pytest.raises(InvalidInput, match="where"):
        store.delete(where={"at": 1})
    assert len(store.index) == 100
    assert store.delete([]) is True
    assert len(store.index) == 100
    assert store.delete() is True
    assert len(store.index) == 0
    assert store.similarity_search("query") == []
    assert PAMVectorStore(TableEmbedder()).delete(["x"]) is True


# ---- searching


def test_k_larger_than_the_store_gives_all():
    assert len(ladder(5).similarity_search("query", k=100)) == 5


@pytest.mark.parametrize(
    "filter", [{"rare": True}, lambda document: document.metadata["rare"], {"at": {"$in": [99, 199, 299]}}]
)
def test_filters_come_before_the_top_k(filter):
    store = ladder()
    assert ids_of(store.similarity_search("query", k=3, filter=filter)) == ["99", "199", "299"]
    assert ids_of(store.similarity_search("query", k=2, where=filter)) == ["99", "199"]
    assert ids_of(store.similarity_search("query", k=9, filter=filter, fetch_k=20)) == ["99", "199", "299"]
    assert ids_of(store.similarity_search_by_vector(near(1.5), k=1, filter=filter)) == ["299"]
    diverse = store.max_marginal_relevance_search("query", k=3, fetch_k=3, filter=filter)
    assert sorted(ids_of(diverse)) == ["199", "299", "99"]


def test_callable_filters_see_whole_documents_and_follow_associations():
    store = fitted_sessions()
    seen = []
    found = store.recall("s0 p0", k=2, where=lambda document: seen.append(document) or document.id.endswith("-2"))
    assert ids_of(found)[0] == "0-2"
    assert all(document.id.endswith("-2") for document in found)
    assert Document("s0 p1", id="0-1", metadata={"session": 0, "place": 1}) in seen
    with pytest.raises(InvalidInput, match="hops=2"):
        store.recall("s0 p0", where=lambda document: True, hops=2)


def test_unknown_options_are_refused_not_swallowed():
    store = ladder(3)
    for search in (store.similarity_search, store.max_marginal_relevance_search, store.recall):
        with pytest.raises(InvalidInput, match="pre_filter"):
            search("query", pre_filter={"rare": True})
    with pytest.raises(InvalidInput, match="both filter and where"):
        store.similarity_search("query", filter={}, where={})
    with pytest.raises(InvalidInput):
        store.similarity_search("query", k=0)


def test_larger_scores_are_closer_and_relevance_is_between_0_and_1():
    table = {"query": near(0), "same": near(0), "aside": near(1), "opposite": near(np.pi)}
    store = PAMVectorStore.from_texts(["opposite", "aside", "same"], TableEmbedder(table))
    scored = store.similarity_search_with_score("query")
    assert [document.page_content for document, _ in scored] == ["same", "aside", "opposite"]
    assert [score for _, score in scored] == pytest.approx([1, np.cos(1), -1], abs=1e-6)
    relevant = store.similarity_search_with_relevance_scores("query")
    assert [score for _, score in relevant] == pytest.approx([1, np.cos(1), 0], abs=1e-6)
    assert all(0 <= score <= 1 for _, score in relevant)
    kept = store.similarity_search_with_relevance_scores("query", score_threshold=0.9)
    assert [document.page_content for document, _ in kept] == ["same"]


def test_the_choice_of_diverse_documents_is_that_of_langchain():
    random = np.random.default_rng(0)
    for lambda_mult in (0.0, 0.25, 0.5, 1.0):
        query, vectors = random.standard_normal(8), random.standard_normal((12, 8))
        index = PredictiveAssociativeIndex(8)
        ids = index.add(vectors)
        store = PAMVectorStore(TableEmbedder(), index)
        found = store.max_marginal_relevance_search_by_vector(query.tolist(), 7, 12, lambda_mult)
        assert ids_of(found) == [ids[at] for at in maximal_marginal_relevance(query, list(vectors), lambda_mult, k=7)]


def test_an_empty_store_answers_with_nothing():
    emptied = fitted_sessions()
    emptied.delete()
    for store in (PAMVectorStore(TableEmbedder()), emptied):
        assert store.similarity_search_with_score("x") == []
        assert store.max_marginal_relevance_search("x") == []
        assert store.recall("x") == []
        assert store.similarity_search("x", filter=lambda document: True) == []
        assert store.get_by_ids(["x"]) == []
        assert PAMRetriever(vectorstore=store).invoke("x") == []


# ---- files


def test_save_and_load_keep_everything(tmp_path):
    store = fitted_sessions()
    store.save_local(tmp_path / "store")
    store.save_local(tmp_path / "store")  # saves again, as FAISS users do
    with pytest.raises(InvalidInput):
        store.save_local(tmp_path / "store", overwrite=False)
    loaded = PAMVectorStore.load_local(tmp_path / "store", TableEmbedder())
    assert loaded.index.dim == DIM
    for allowed in (True, False):  # as code that was written for FAISS says
        PAMVectorStore.load_local(tmp_path / "store", TableEmbedder(), allow_dangerous_deserialization=allowed)
    assert loaded.similarity_search_with_score("s1 p1", k=24) == store.similarity_search_with_score("s1 p1", k=24)
    assert loaded.recall_with_score("s1 p1", k=24) == store.recall_with_score("s1 p1", k=24)
    other = PAMVectorStore.load_local(tmp_path / "store", TableEmbedder(dim=DIM + 1))
    with pytest.raises(InvalidInput):
        other.similarity_search("s1 p1")
    with pytest.raises(InvalidInput, match="empty store"):
        PAMVectorStore(TableEmbedder()).save_local(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_durable_store_is_there_again(tmp_path):
    store = PAMVectorStore.from_texts(["x"], TableEmbedder(), ids=["1"], path=tmp_path / "store")
    store.close()
    again = PAMVectorStore(TableEmbedder(), path=tmp_path / "store")
    assert ids_of(again.similarity_search("x")) == ["1"]
    again.close()
    with pytest.raises(InvalidInput, match="both index and path"):
        PAMVectorStore(TableEmbedder(), PredictiveAssociativeIndex(DIM), tmp_path / "store")


def test_a_program_may_change_its_current_folder_before_the_first_document(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = PAMVectorStore(TableEmbedder(), path="store")
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.add_texts(["a"])
    store.close()
    assert (tmp_path / "store" / "manifest.json").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_index_with_memories_without_text_can_be_used():
    index = PredictiveAssociativeIndex(DIM)
    index.add([near(0)], ids=["silent"])
    store = PAMVectorStore(TableEmbedder(), index)
    assert store.similarity_search_by_vector(near(0)) == [Document("", id="silent")]


def test_a_missing_langchain_names_the_extra():
    code = "import sys; sys.modules['langchain_core'] = None; import langchain_pam"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'pam-retriever[langchain]'" in done.stderr
