"""Recall by text, and an index with an embedder."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import TINY

from pam_retriever import Channels, InvalidInput, NotFitted, PredictiveAssociativeIndex
from pam_retriever.retrieval import hybrid as fusion
from pam_retriever.retrieval.hybrid import LABEL, LEXICAL, SMOOTHING
from pam_retriever.retrieval.query import FUSED

TEXTS = ["we fly to Lisbon", "the hotel is by the sea", "a heron on the roof", "rain all week", "tax forms", "dentist"]


def embed(texts: list[str]) -> np.ndarray:
    """Counts letters: a deterministic substitute for an embedder that separates the texts."""
    return np.array([[text.lower().count(chr(97 + at)) + 0.1 for at in range(26)] for text in texts], np.float32)


def new_index(**options):
    index = PredictiveAssociativeIndex(embedder=embed, **options)
    index.add(
        texts=TEXTS,
        ids=[f"m{at}" for at in range(6)],
        metadatas=[{"by": "Ana" if at % 2 else "Ben"} for at in range(6)],
    )
    return index


def test_texts_alone_are_embedded():
    index = new_index()
    assert index.dim == 26
    assert index.get(["m2"])[0].vector == pytest.approx(embed(TEXTS[2:3])[0])
    assert index.embedder_name == f"{__name__}.embed"
    assert index.search(text=TEXTS[4], k=1)[0].similarity == pytest.approx(1)
    assert [hits[0].id for hits in index.search(text=TEXTS, k=1)] == [f"m{at}" for at in range(6)]


def test_text_recall_needs_no_fit_and_leans_on_neighbours():
    index = new_index()
    alone = index.recall(text="Lisbon", k=6)
    assert (alone[0].id, alone[0].lexical, alone[0].association) == ("m0", 1.0, None)
    assert {hit.lexical for hit in alone[1:]} == {0}
    index.observe(["m0", "m1", "m2", "m3"])
    position = [hit.id for hit in index.recall(text="Lisbon", k=6)]
    assert position[0] == "m0"
    assert {*position[1:3]} == {"m1", "m2"}  # both are within two steps of m0
    ana = index.recall(text="Lisbon", k=9, where={"by": "Ana"})
    assert {hit.lexical for hit in ana} == {0}  # only Ben said the word; excluded memories give no context


def test_scores_are_the_weighted_mean_smoothed_over_neighbours():
    index = new_index()
    walk = ["m3", "m0", "m5", "m1", "m4"]
    index.fit([walk], window=2, config=TINY, progress=False)
    text = "Ben at sea"
    hits = {hit.id: hit for hit in index.recall(text=text, k=6)}
    assert len(hits) == 6  # in a small index all memories are candidates
    labels = {f"m{at}": 1 - at % 2 for at in range(6)}
    total = LEXICAL + LABEL + FUSED.total
    mean = {
        id: (
            LEXICAL * hit.lexical
            + LABEL * labels[id]
            + FUSED.similarity * hit.similarity
            + FUSED.association * hit.association
        )
        / total
        for id, hit in hits.items()
    }
    for id, hit in hits.items():
        around = [mean[id]]  # m2 is in no trajectory
        if id in walk:
            at = walk.index(id)
            around = [mean[other] for other in walk[max(0, at - 2) : at + 3] if other != id]
        assert hit.score == pytest.approx((mean[id] + SMOOTHING * np.mean(around)) / (1 + SMOOTHING), abs=1e-6)
        assert hit.similarity == pytest.approx(
            float(unit(embed([text])[0]) @ unit(embed([TEXTS[int(id[1])]])[0])), abs=1e-6
        )


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_candidates_equal_a_search_of_all_memories(monkeypatch):
    random = np.random.default_rng(3)
    vocabulary = [f"word{number}" for number in range(300)]
    texts = [" ".join(random.choice(vocabulary, 6)) for _ in range(2_000)]
    index = PredictiveAssociativeIndex(dim=16)
    vectors = random.standard_normal((2_000, 16))
    ids = index.add(vectors, texts=texts)
    for start in range(0, 2_000, 50):
        index.observe(ids[start : start + 50])
    questions = [" ".join(random.choice(vocabulary, 3)) for _ in range(20)]
    asked = random.standard_normal((20, 16))
    pooled = index.recall(asked, k=10, text=questions)
    monkeypatch.setattr(fusion, "CANDIDATES", 2_000)
    every = index.recall(asked, k=10, text=questions)
    shared = [len({h.id for h in a} & {h.id for h in b}) for a, b in zip(pooled, every, strict=True)]
    assert np.mean(shared) >= 9.5
    one = index.recall(asked[4], k=10, text=questions[4])
    assert [hit.id for hit in one] == [hit.id for hit in every[4]]


def test_a_text_beside_an_id_or_with_faithful_and_explain():
    index = new_index()
    index.fit([["m0", "m1", "m2"], ["m3", "m4"]], window=1, config=TINY, progress=False)
    hits = index.recall("m0", text="heron", k=6, explain=True)
    assert "m0" not in [hit.id for hit in hits]
    assert [bool(hit.evidence) for hit in hits if hit.id == "m1"] == [True]
    assert [hit.id for hit in index.recall("m1", text="heron", k=6, faithful=True)] == ["m2", "m0"]
    assert all(hit.score >= 0.3 for hit in index.recall(text="heron", k=6, min_score=0.3))


def test_with_text_the_mode_is_hybrid_and_other_modes_only_embed():
    index = new_index()
    with pytest.raises(NotFitted):
        index.recall(text="heron", mode="association")
    with pytest.raises(NotFitted):
        index.recall(text="heron", channels=Channels(mutual=1))
    index.fit([["m0", "m1", "m2"]], config=TINY, progress=False)
    vector = embed(["heron"])[0]
    assert index.recall(text="heron", mode="association") == index.recall(vector, mode="association")
    assert index.recall(text="heron") == index.recall(vector, text="heron", mode="hybrid")
    batch, single = index.recall(text=["heron", "sea"])[1], index.recall(text="sea")
    assert [hit.id for hit in batch] == [hit.id for hit in single]
    assert [hit.score for hit in batch] == pytest.approx([hit.score for hit in single], abs=1e-6)


def test_an_embedder_is_not_saved_and_a_missing_one_is_named(tmp_path):
    new_index().save(tmp_path / "index")
    bare = PredictiveAssociativeIndex.load(tmp_path / "index")
    with pytest.raises(InvalidInput, match=r"without an embedder\. It was filled with '\w+\.embed'"):
        bare.recall(text="heron")
    with pytest.raises(InvalidInput, match="without an embedder"):
        bare.add(texts=["more"])
    with pytest.raises(InvalidInput, match=r"^append\(text=\.\.\.\) was called on an index without an embedder"):
        bare.append("a walk", id="more", text="more")
    with pytest.raises(InvalidInput, match=r"^update\(text=\.\.\.\) was called on an index without an embedder"):
        bare.update("m0", text="other")
    assert bare.recall(embed(["heron"])[0], text="heron", k=1)[0].id == "m2"
    again = PredictiveAssociativeIndex.load(tmp_path / "index", embedder=embed)
    assert again.recall(text="heron", k=1)[0].id == "m2"
    with PredictiveAssociativeIndex.open(tmp_path / "other", embedder=embed) as durable:
        durable.add(texts=["kept"], ids=["k"])
    with PredictiveAssociativeIndex.open(tmp_path / "other", embedder=embed) as durable:
        assert durable.recall(text="kept", k=1)[0].lexical == 1


def test_an_embedder_may_be_a_langchain_embeddings():
    fakes = pytest.importorskip("langchain_core.embeddings")
    index = PredictiveAssociativeIndex(embedder=fakes.DeterministicFakeEmbedding(size=8))
    index.add(texts=["a", "b"], ids=["a", "b"])
    assert (index.dim, index.search(text="b", k=1)[0].id) == (8, "b")


def test_an_embedder_may_be_a_sentence_transformers_model():
    pytest.importorskip("sentence_transformers")
    from benchmarks.real.data import load_embedder

    index = PredictiveAssociativeIndex(embedder=load_embedder(None))
    index.add(texts=["The cat sat on the mat.", "Interest rates rose again."], ids=["cat", "bank"])
    assert index.recall(text="monetary policy", k=1)[0].id == "bank"
    assert index.embedder_name.endswith(".SentenceTransformer")  # the path of a folder is not stored


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.recall(), "neither a query nor a text"),
        (lambda i: i.recall(text=""), "empty text"),
        (lambda i: i.recall(text=[]), "empty text"),
        (lambda i: i.recall(text=7), "Expected a string"),
        (lambda i: i.recall(text=["a", 3]), "Expected a string"),
        (lambda i: i.recall(text="a", k=None), "k=None"),
        (lambda i: i.recall("m0", text="a", mode="similarity"), "a query and a text"),
        (lambda i: i.recall(["m0", "m1"], text=["a"]), "texts of length 1 for 2 vectors"),
        (lambda i: i.search(), "neither a query nor a text"),
        (lambda i: i.add(), "neither vectors nor a text"),
        (lambda i: i.add(texts=["a", None]), "neither vectors nor a text"),
        (lambda i: PredictiveAssociativeIndex(), "neither dim nor embedder"),
        (lambda i: PredictiveAssociativeIndex(embedder=3), "Got the embedder 3"),
        (lambda i: PredictiveAssociativeIndex(dim=5, embedder=embed).add(texts=["a"]), "shape"),
        (
            lambda i: PredictiveAssociativeIndex(dim=5, embedder=lambda texts: [[1.0] * 5]).add(texts=["a", "b"]),
            "shape",
        ),
    ],
)
def test_invalid_queries_are_refused(call, message):
    index = new_index()
    with pytest.raises(InvalidInput, match=message):
        call(index)
    assert len(index) == 6
