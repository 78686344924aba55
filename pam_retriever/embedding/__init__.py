"""The embedder of an index: a name, a function, a LangChain ``Embeddings``, or a sentence-transformers model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import ismethod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import column_as_list, for_numpy
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.types import Float32
from pam_retriever.validation import (
    as_in_script,
    check_flag,
    check_id,
    check_length,
    check_text,
    check_texts,
    check_vectors,
    full_name,
    read_numbers,
)

PROGRESS_FROM = 1_000  # from this many texts on, a model shows a progress bar on a terminal


class EmbedsDocuments(Protocol):
    """LangChain's ``Embeddings``."""

    def embed_documents(self, texts: list[str], /) -> list[list[float]]:
        """Returns a vector for each text to store."""

    def embed_query(self, text: str, /) -> list[float]:
        """Returns the vector of a query."""


class Encodes(Protocol):
    """A sentence-transformers model."""

    def encode(self, sentences: list[str], /, *, show_progress_bar: bool) -> npt.ArrayLike:
        """Returns a vector for each text."""


EmbedderLike = str | EmbedsDocuments | Encodes | Callable[[list[str]], npt.ArrayLike]


class Embedder:
    """A uniform interface to models that turn texts into vectors.

    Args:
        model: "default" (all-MiniLM-L6-v2 from inside a package), the name or folder of a sentence-transformers
            model, a callable ``list[str] -> vectors``, an object with ``embed_documents`` and ``embed_query``
            (LangChain), or one with ``encode`` (sentence-transformers; its prompts for queries and documents are used).
        same: asserts that the model makes the same vectors as the embedder of the index, although the names differ.

    Attributes:
        name: identifies the model: its ``model_name``, ``model`` or ``name``, else its module and class. The name of
            a wrapper (LangChain's ``CacheBackedEmbeddings``, a ``functools.partial``) is that of what it wraps, and
            that of a method begins with the name of its model.

    Raises:
        InvalidInput: ``model`` is none of these.
    """

    def __init__(self, model: EmbedderLike, same: bool = False) -> None:
        if isinstance(model, str):
            from pam_retriever.embedding.text_models import TextModel

            model = TextModel(model)
        self._same = same
        self._documents: Callable[[list[str]], Any]
        self._queries: Callable[[list[str]], Any]
        if hasattr(model, "embed_documents") and hasattr(model, "embed_query"):
            self._documents = model.embed_documents
            self._queries = lambda texts: [model.embed_query(text) for text in texts]
        elif hasattr(model, "encode"):
            self._documents = _encode(getattr(model, "encode_document", model.encode))
            self._queries = _encode(getattr(model, "encode_query", model.encode))
        elif callable(model):
            self._documents = self._queries = model
        else:
            raise InvalidInput(
                f"Got the embedder {model!r}.",
                "'default', a callable list[str] -> vectors, a LangChain Embeddings, or a sentence-transformers model",
                "Use embedder='default' if in doubt: pip install 'pam-retriever[text]'.",
            )
        self.name, self._was_called = _name(model), _older_names(model)

    def __repr__(self) -> str:
        return f"Embedder({self.name!r})"

    def check(self, used_before: str | None) -> None:
        """Raises an error if another embedder made the vectors of the index.

        Args:
            used_before: the name of the embedder of the index; None if the index has no embedder.

        Raises:
            InvalidInput: the name differs.
        """
        known = {self.name, *self._was_called}
        if self._same or used_before is None or used_before in known or as_in_script(used_before) in known:
            return
        in_a_script = any(f"{name}".startswith("__main__.") for name in (self.name, used_before))
        raise InvalidInput(
            f"Got the embedder {self.name!r} for an index that was filled with {used_before!r}.",
            f"{used_before!r}: vectors of two embedders cannot be compared",
            "Pass that one, or same_embedder=True if both make the same vectors."
            + (" '__main__' is any script that is run: give your next embedder a model_name." if in_a_script else ""),
        )

    def new_name(self, used_before: str | None) -> str | None:
        """Returns the name for the index to store with its first vectors of texts; None if it has one.

        Raises:
            InvalidInput: it has another one; see ``check``. Another process may have stored it since it was opened.
        """
        self.check(used_before)
        return self.name if used_before is None else None

    def documents(self, texts: Sequence[str]) -> npt.ArrayLike:
        """Returns a vector for each text to store."""
        return _check(self._documents(list(texts)), len(texts), self.name)

    def queries(self, texts: Sequence[str]) -> npt.ArrayLike:
        """Returns a vector for each query."""
        return _check(self._queries(list(texts)), len(texts), self.name)

    def dim(self) -> int:
        """Length of the vectors, found by embedding a word."""
        return int(np.shape(self.documents(["dimension"]))[1])


def read_embedder(model: EmbedderLike | None, same: bool = False) -> Embedder | None:
    """Returns the embedder of an index, or None; ``same`` as in ``Embedder``.

    Raises:
        InvalidInput: ``model`` is no embedder, or ``same`` is given without an embedder.
        MissingExtra: a package that the named model needs is not installed.
    """
    if check_flag("same_embedder", same) and model is None:
        raise InvalidInput("Got same_embedder=True without an embedder.", "both", "Pass embedder=... too.")
    return None if model is None else Embedder(model, same)


def embed_texts(
    embedder: Embedder | None,
    texts: Sequence[str | None] | None,
    dim: int,
    call: str,
    used_before: Callable[[], str | None],
) -> Float32:
    """Returns the vectors of memories that were given as texts alone; ``call`` names the call in errors.

    Raises:
        InvalidInput: there is no embedder, or a text is missing.
    """
    given = [] if texts is None else check_texts(texts, len(texts))
    if not given or None in given:
        raise InvalidInput("There are neither vectors nor a text for every memory.", "one of them", "Pass texts=[...].")
    vectors = _needed(embedder, call, used_before).documents([text for text in given if text is not None])
    return check_vectors(vectors, dim, "the embedder")


def read_question(
    query: Any, text: Any, mode: str, embedder: Embedder | None, dim: int, used_before: Callable[[], str | None]
) -> tuple[list[str] | Float32, list[str] | None, bool]:
    """Returns a query as ids or vectors (Q, dim), its texts if their words are searched, and whether it was a batch.

    Raises:
        InvalidInput: there is neither a query nor a text, the two do not fit, or there is a text and no embedder.
    """
    if text is None and query is None:
        raise InvalidInput("There is neither a query nor a text.", "one of them", "Pass text='...'.")
    if text is None:
        queries, batch = read_query(query, dim)
        return queries, None, batch
    text, batch = column_as_list(text), not isinstance(text, str)
    texts = [check_text(one, "text") for one in (list(text) if isinstance(text, Sequence) and batch else [text])]
    if not texts or not all(one.strip() for one in texts):
        raise InvalidInput("Got an empty text.", "words to look for", "Skip the call.")
    if query is None:
        vectors = _needed(embedder, "recall(text=...)", used_before).queries(texts)
        return check_vectors(vectors, dim, "the embedder"), texts if mode == "hybrid" else None, batch
    if mode != "hybrid":
        raise InvalidInput(
            f"Got a query and a text in mode {mode!r}.", "a text beside a query in 'hybrid' alone", "Leave one out."
        )
    queries, several = read_query(query, dim)
    check_length("texts", len(texts), len(queries))
    return queries, texts, batch or several


def read_query(query: Any, dim: int) -> tuple[list[str] | Float32, bool]:
    """Returns a query as ids or as vectors (Q, dim), and whether it was a batch.

    Raises:
        InvalidInput: the query is not an id, a vector, or a batch of either.
    """
    if isinstance(query, str):
        return [check_id(query, "the query")], False
    query = column_as_list(query)
    batch = list(query) if isinstance(query, list | tuple) else query
    if isinstance(batch, list) and not batch:
        raise InvalidInput("Got an empty batch of queries.", "at least one", "Skip the call.")
    if isinstance(batch, list) and any(isinstance(one, str) for one in batch):
        return [check_id(one, "the query") for one in batch], True
    expected = f"an id, a vector of {dim} numbers, or a batch of either"
    vectors = read_numbers(batch, "Got a query that is no vector", expected, "Embed texts first.")
    if not vectors.ndim:
        raise InvalidInput(f"Got {query!r} as a query.", expected, "An id is a string: pass str(id).")
    if vectors.ndim == 1:
        return check_vectors(vectors[None], dim, "the query"), False
    return check_vectors(vectors, dim, "the query"), True


def embed_questions(
    embedder: Embedder | None, texts: Sequence[str], dim: int, call: str, used_before: Callable[[], str | None]
) -> Float32:
    """Returns the vectors of questions that were given as texts alone.

    Raises:
        InvalidInput: there is no embedder, or a text is empty.
    """
    if not texts or not all(isinstance(one, str) and one.strip() for one in texts):
        raise InvalidInput("Got an empty text.", "words", "Skip the call.")
    return check_vectors(_needed(embedder, call, used_before).queries(texts), dim, "the embedder")


def _needed(embedder: Embedder | None, call: str, used_before: Callable[[], str | None]) -> Embedder:
    if embedder is None:
        name = used_before()
        known = f" It was filled with {name!r}." if name else ""
        raise InvalidInput(
            f"{call} was called on an index without an embedder.{known}",
            "an embedder, or vectors",
            "Pass embedder=... where the index is made, opened or loaded; embedders are not saved.",
        )
    return embedder


def _encode(encode: Callable[..., Any]) -> Callable[[list[str]], Any]:
    return lambda texts: encode(texts, show_progress_bar=len(texts) >= PROGRESS_FROM)


def _check(vectors: Any, count: int, name: str) -> npt.ArrayLike:
    try:
        array = np.asarray(for_numpy(vectors))
    except (TypeError, ValueError, RuntimeError) as error:  # torch raises the last
        raise InvalidInput(
            f"The embedder {name!r} made no array for {counted(count, 'text')} ({error}).",
            f"({count}, dimension)",
            "It gets a list of texts, and has to return one vector for each, all of one length.",
        ) from error
    if array.ndim != 2 or len(array) != count:
        raise InvalidInput(
            f"The embedder {name!r} made an array of shape {array.shape} for {counted(count, 'text')}.",
            f"({count}, dimension)",
            "It gets a list of texts, and has to return one vector for each; it cannot be async.",
        )
    return array


def _name(model: Any) -> str:
    """Returns the name that identifies the embedder, in messages and in the index."""
    own = _own_name(model)
    if own is None and _is_method(model) and (owner := _own_name(model.__self__)):
        own = f"{owner}.{model.__name__}"
    if own is not None:
        return own
    wrapped = _wrapped(model)
    return full_name(model) if wrapped is None else _name(wrapped)


def _own_name(model: Any) -> str | None:
    """Returns the name that a model, or a call with fixed arguments, carries itself; None without one."""
    given = model.keywords if isinstance(model, partial) else {}
    for attribute in ("model_name", "model", "name"):
        value = given.get(attribute, getattr(model, attribute, None))
        if isinstance(value, str) and value:
            return value
    card = getattr(model, "model_card_data", None)
    base = getattr(card, "base_model", None) or getattr(card, "model_id", None)
    return base if isinstance(base, str) else None


def _wrapped(model: Any) -> Any:
    """Returns the embedder inside of LangChain's ``CacheBackedEmbeddings`` or a ``functools.partial``, else None."""
    return model.func if isinstance(model, partial) else getattr(model, "underlying_embeddings", None)


def _is_method(model: Any) -> bool:
    """Whether a callable is a method of an object, for example ``encode`` of a sentence-transformers model."""
    return ismethod(model) and not isinstance(model.__self__, type)


def _older_names(model: Any) -> tuple[str, ...]:
    """Returns the names that older versions stored: of a class or function without its module; of a wrapper or method.

    A method and a wrapper had the name of their class, whichever model they call.
    """
    name = getattr(model, "__qualname__", type(model).__qualname__)
    renamed = _wrapped(model) is not None or _is_method(model)
    return (name, full_name(model)) if renamed else (name,)
