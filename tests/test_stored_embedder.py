"""The command line loads no code by the name of the embedder that an index stores; which names ``--model`` takes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.apps import exploring
from pam_retriever.apps.cli import main

DIM = 4


class Named:
    """An embedder with a name."""

    def __init__(self, name: str) -> None:
        self.model_name = name

    def __call__(self, texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), DIM))


@pytest.fixture
def index_of(tmp_path):
    def made(name: str | None) -> str:
        with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM, embedder=name and Named(name)) as index:
            index.add(None if name else np.eye(DIM)[:2], ["a", "b"], ["one", "two"])
            assert index.embedder_name == name
        return str(tmp_path / "index")

    return made


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """The models that were loaded."""
    loaded: list[str] = []

    class Loading:
        def __init__(self, name: str, **options: object) -> None:
            loaded.append(name)

        def encode_query(self, texts: list[str], **options: object) -> np.ndarray:
            return np.ones((len(texts), DIM))

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", Loading)
    return loaded


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    """A module that can be imported, and a folder with its name."""
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    (tmp_path / "stranger.embed").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return "stranger"


COMMANDS = [["recall", "words"], ["search", "words"], ["feedback", "words", "--used", "a"]]


@pytest.mark.parametrize("stored", ["stranger.embed", "stranger.Model", "stranger.<lambda>", "stranger.f.<locals>.g"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_function_or_class_is_neither_imported_nor_called(index_of, module, loads, capsys, stored, command):
    name, *words = command
    assert main([name, index_of(stored), *words]) == 2
    error = capsys.readouterr().err
    assert f"{stored!r}, a function or a class" in error
    assert "--model" in error
    assert loads == []
    assert module not in sys.modules


@pytest.fixture(params=["5.4.0", "6.0.0"])
def version(request, monkeypatch) -> str:
    """The version of sentence-transformers: before 6 it imports the classes that a model names."""
    monkeypatch.setattr("pam_retriever.embedding.text_models.version", lambda package: request.param)
    return request.param


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_is_loaded_only_if_no_code_of_it_runs(index_of, tmp_path, version, loads, capsys, command):
    (model := tmp_path / "model").mkdir()
    name, *words = command
    folder, loading = index_of(str(model)), version > "6"
    assert main([name, folder, *words]) == (0 if loading else 2)
    assert loads == [str(model)] * loading
    assert ("--model" in capsys.readouterr().err) != loading
    assert main([name, folder, *words, "--model", str(model)]) == 0  # the user names it


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_with_a_relative_name_is_another_one_elsewhere(
    index_of, tmp_path, monkeypatch, version, loads, command
):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    name, *words = command
    assert main([name, index_of("model"), *words]) == 2
    assert loads == []


def test_an_old_version_downloads_no_model_because_an_index_names_it(index_of, monkeypatch, loads, capsys):
    monkeypatch.setattr("pam_retriever.embedding.text_models.version", lambda package: "5.4.0")
    assert main(["recall", index_of("stranger/model"), "words"]) == 2
    assert "'stranger/model', which is not downloaded" in capsys.readouterr().err
    assert loads == []


def test_a_downloaded_model_is_used(index_of, version, loads, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda name, file: str(tmp_path / name / file))
    assert main(["recall", index_of("friend/model"), "words"]) == 0
    assert loads == ["friend/model"]


def test_the_explorer_loads_no_function_that_an_index_names(index_of, module, tmp_path):
    with PredictiveAssociativeIndex.open(index_of(f"{module}.other"), read_only=True) as index:
        assert exploring._model(_parsed(None), index.embedder_name) is None
    assert exploring._model(_parsed(str(tmp_path)), None) is not None
    assert module not in sys.modules


def _parsed(model: str | None):
    return type("Parsed", (), {"model": model})


@pytest.mark.parametrize(
    "given", ["os:system", "os.path.join", "subprocess.Popen", "os.<lambda>", "not a model!", "../x", "a/b/c", "-x-"]
)
def test_what_is_no_model_is_refused(index_of, loads, capsys, given):
    assert main(["recall", index_of(None), "words", f"--model={given}"]) == 2
    error = capsys.readouterr().err
    assert f"{given!r}" in error
    assert "the name or the folder of a sentence-transformers model" in error
    assert "not its name" in error
    assert loads == []


def test_a_model_of_another_dimension_is_refused(index_of, capsys):
    assert main(["recall", index_of(None), "words", "--model", "default"]) == 2
    assert "have shape (1, 384)" in capsys.readouterr().err


def test_the_name_of_a_function_is_no_embedder_in_python():
    with pytest.raises(InvalidInput, match="not its name"):
        PredictiveAssociativeIndex(DIM, embedder="os.path.join")


SPAWNED = """
import multiprocessing, sys
import numpy as np
from pam_retriever import PredictiveAssociativeIndex

def embed(texts):
    return np.ones((len(texts), 4))

def names_of(metadata, text):
    return ["stairs"]

def read(folder):
    with PredictiveAssociativeIndex.open(folder, embedder=embed, names=names_of, read_only=True) as index:
        return index.recall(text="stairs", k=1).texts

if __name__ == "__main__":
    with PredictiveAssociativeIndex.open(sys.argv[1], embedder=embed, names=names_of) as index:
        index.add(texts=["wet stairs"])
        with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
            print(pool.apply(read, (sys.argv[1],)))
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_spawned_process_knows_the_functions_of_the_script_again(tmp_path, method):
    (tmp_path / "script.py").write_text(SPAWNED)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "index"), method]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "['wet stairs']\n", done.stderr


def test_what_a_spawned_process_stored_under_its_own_name_of_the_script_opens(tmp_path):
    def embed(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), DIM))

    embed.__module__, embed.__qualname__ = "__main__", "embed"
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder=Named("__mp_main__.embed")) as index:
        index.add(texts=["wet stairs"])
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder=embed) as index:
        assert index.recall(text="stairs", k=1).texts == ["wet stairs"]
