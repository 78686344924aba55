"""PAMVectorStore saves to folders, and reads them again."""

import pickle
from contextlib import closing

import fsspec
import numpy as np
import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.vector_stores.types import VectorStoreQueryMode as QueryMode
from llama_index_samples import ask, experienced, filled, films, fitted, ids_of, make_node, store

from llama_index_pam import PAMVectorStore
from pam_retriever import IndexFormatError, InvalidInput, PredictiveAssociativeIndex


@pytest.mark.parametrize("fs", [None, fsspec.filesystem("file")])
def test_persist_and_read_again(fitted, tmp_path, fs):
    path = str(tmp_path / "deep" / "persisted")
    fitted.persist(path, fs=fs)
    read = PAMVectorStore.from_persist_path(path, fs=fs)
    assert sorted(read.get_nodes(), key=lambda node: node.node_id) == sorted(
        experienced(), key=lambda node: node.node_id
    )
    cue = np.eye(16)[2]
    for mode in (QueryMode.DEFAULT, QueryMode.HYBRID):
        assert ask(read, embedding=cue, mode=mode, k=3) == ask(fitted, embedding=cue, mode=mode, k=3)
    assert read.recall("n4", k=1)[0].node.node_id == "n5"
    assert read.client.dim == 16


def test_persisting_again_replaces(filled, tmp_path):
    path = str(tmp_path / "persisted")
    filled.persist(path)
    filled.delete("coppola")
    filled.persist(path)
    assert ids_of(PAMVectorStore.from_persist_path(path).get_nodes()) == ["inception", "redemption"]


def test_a_store_without_nodes_persists(tmp_path):
    path = str(tmp_path / "persisted")
    PAMVectorStore().persist(path)
    store = PAMVectorStore.from_persist_path(path)
    assert store.get_nodes() == []
    store.add(films())
    store.persist(path)
    with pytest.raises(InvalidInput, match="empty"):
        PAMVectorStore().persist(path)
    assert len(PAMVectorStore.from_persist_path(path).get_nodes()) == 4


def test_reading_what_is_no_store(tmp_path):
    (tmp_path / "file.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "something.pkl").write_bytes(b"\x80\x04.")
    for name in ("nowhere", "file.json", "folder"):
        with pytest.raises(IndexFormatError):
            PAMVectorStore.from_persist_path(str(tmp_path / name))
    with pytest.raises(InvalidInput, match="local"):
        PAMVectorStore.from_persist_path("somewhere", fs=fsspec.filesystem("memory"))


def test_no_pickle_is_written(fitted, tmp_path):
    fitted.persist(str(tmp_path / "persisted"))
    kinds = {file.suffix for file in (tmp_path / "persisted").iterdir()}
    assert kinds == {".json", ".sqlite", ".safetensors"}


def test_a_store_is_not_pickled(filled):
    with pytest.raises(InvalidInput, match=r"pickled.*persist"):
        pickle.dumps(filled)


def test_a_durable_store_is_there_after_a_restart(tmp_path):
    path = tmp_path / "store"
    with closing(PAMVectorStore(path=path)) as store:
        store.add(films())
        store.delete("nolan")
        store.persist(str(path))
    with closing(PAMVectorStore(path=path)) as store:
        assert ids_of(store.get_nodes()) == ["godfather", "godfather2", "redemption"]
        with pytest.raises(InvalidInput):
            store.add([make_node("short", [1.0])])
    with pytest.raises(InvalidInput, match="both"):
        PAMVectorStore(index=PredictiveAssociativeIndex(dim=3), path=path)
