"""NUL characters are refused in ids and metadata, where SQLite's JSON would end the string; texts may have them."""

from __future__ import annotations

import numpy as np
import pytest
from engine_servers import ENGINES, fresh_engine

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory

CUT = "m1\x00zzz"  # the part before the NUL is the id of another memory


@pytest.fixture(params=["exact", *ENGINES])
def index(request):
    engine = request.param if request.param == "exact" else fresh_engine(request.param)
    with PredictiveAssociativeIndex(dim=4, backend=engine) as index:
        ids = index.add(
            np.eye(4), [f"m{n}" for n in range(4)], [f"text {n}" for n in range(4)], [{"s": n // 2} for n in range(4)]
        )
        index.fit([ids], config="fast", time_budget=0.2, progress=False)
        yield index


CALLS = {
    "delete": lambda index: index.delete(CUT),
    "delete of many": lambda index: index.delete(["m0", CUT]),
    "get": lambda index: index.get([CUT]),
    "get what is there": lambda index: index.get([CUT], missing_ok=True),
    "recall": lambda index: index.recall(CUT),
    "recall of many": lambda index: index.recall(["m0", CUT]),
    "search": lambda index: index.search(CUT),
    "imagine": lambda index: index.imagine(CUT),
    "spread": lambda index: index.expand({"m0": 1.0, CUT: 0.5}),
    "add": lambda index: index.add(np.eye(4)[:1], [CUT]),
    "observe": lambda index: index.observe(["m0", CUT]),
    "a trajectory's id": lambda index: index.observe(Trajectory(ids=["m0", "m1"], id=CUT)),
    "a trajectory of vectors": lambda index: index.observe(Trajectory(vectors=np.eye(4), id=CUT)),
    "surprise": lambda index: index.surprise(["m0", CUT]),
    "fit": lambda index: index.fit([["m0", CUT]]),
    "group_by": lambda index: index.fit(group_by="s\x00x"),
    "order_by": lambda index: index.fit(group_by="s", order_by="s\x00x"),
    "metadata": lambda index: index.add(np.eye(4)[:1], metadatas=[{"user": CUT}]),
    "a key of metadata": lambda index: index.add(np.eye(4)[:1], metadatas=[{CUT: 1}]),
    "a filter": lambda index: index.find({"user": CUT}),
    "a key of a filter": lambda index: index.search(np.ones(4), where={CUT: 1}),
}


def test_an_id_with_nul_is_refused_wherever_it_comes_in(index):
    for name, call in CALLS.items():
        with pytest.raises(InvalidInput, match="NUL"):
            pytest.fail(f"{name} took it: {call(index)}")
        assert len(index) == 4
    assert CUT not in index
    assert "m1" in index
    assert len(index.get(["m0", "m1", "m2", "m3"])) == 4


def test_an_id_with_nul_does_not_name_another_memory_in_the_database():
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.eye(2), ["m1", "m2"])
    memories = index._store.database.memories
    assert memories.rows_of([CUT, "m2"]) == {"m2": 2}
    assert list(memories.records([CUT, "m2"])) == ["m2"]


@pytest.mark.parametrize("kind", ["exact", *ENGINES])
def test_a_text_with_nul_is_kept_and_found_whole_or_refused(kind, tmp_path):
    text, metadata = "boat\x00 kettle\x00", {"a": "\\u0000", "b": ["\\", "\\\\u0000"]}
    index = PredictiveAssociativeIndex(dim=2, backend=kind if kind == "exact" else fresh_engine(kind))
    if kind == "pgvector":
        with pytest.raises(InvalidInput, match="NUL"):
            index.add(np.eye(2), ["x", "y"], [text, "tea"])
        assert len(index) == 0
        index.close()
        return
    index.add(np.eye(2), ["x", "y"], [text, "tea"], [metadata, {}])
    index.save(tmp_path / "copy")
    for one in (index, PredictiveAssociativeIndex.load(tmp_path / "copy")):
        assert one.get(["x"])[0].text == text
        assert one.get(["x"])[0].metadata == metadata
        assert one.find({"a": "\\u0000"})[0].id == "x"
        lexicon = one._lexicon
        for word in ("boat", "kettl"):
            assert lexicon.best([word], 5, None).tolist() == [one._store.database.memories.rows_of(["x"])["x"]]
        one.close()


def test_the_adapters_refuse_such_ids_too():
    from langchain_core.documents import Document
    from langchain_samples import TableEmbedder
    from llama_index.core.schema import TextNode

    import langchain_pam
    import llama_index_pam

    store = langchain_pam.PAMVectorStore(TableEmbedder())
    store.add_texts(["a", "b"], ids=["m0", "m1"])
    nodes = llama_index_pam.PAMVectorStore()
    nodes.add([TextNode(id_=id, text=id, embedding=[1.0, 2.0]) for id in ("m0", "m1")])
    for call in (
        lambda: store.delete([CUT]),
        lambda: store.get_by_ids([CUT]),
        lambda: store.recall(id=CUT, mode="similarity"),
        lambda: store.add_documents([Document(id=CUT, page_content="c")]),
        lambda: store.fit([["m0", CUT]]),
        lambda: nodes.delete(CUT),
        lambda: nodes.delete_nodes([CUT]),
        lambda: nodes.get_nodes([CUT]),
        lambda: nodes.recall(CUT, mode="similarity"),
        lambda: nodes.add([TextNode(id_=CUT, text="c", embedding=[1.0, 2.0])]),
    ):
        with pytest.raises(InvalidInput, match="NUL"):
            call()
    assert len(store.get_by_ids(["m0", "m1"])) == len(nodes.get_nodes()) == 2
