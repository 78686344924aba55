"""Converts LangChain's documents to memories and back, and reads LangChain's filters and options.

LangChain passes on any keyword. If an unknown keyword were ignored, a filter might not be applied, or
``delete(where=...)`` would delete everything. So unknown keywords raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage
from pydantic import ValidationError

from pam_retriever import FitConfig, Hit, InvalidInput, Record
from pam_retriever.adapters.recalling import RecallArguments, refuse
from pam_retriever.errors import counted, shortened
from pam_retriever.index import learning
from pam_retriever.types import Metadata, Recipe, Time
from pam_retriever.validation import check_id, check_text, new_ids, read_list, read_numbers

Filter = Mapping[str, Any] | Callable[[Document], bool]
Found = str | Document | tuple[Document, float] | Hit
"""A document: its id, the document itself, the pair from a search with scores, or a hit of the index."""

LONGEST_VALUE = 100  # characters of a value in an error
OF_OTHER_QUERIES: dict[type, str] = {
    dict: "Take it out before the retriever, for example itemgetter('question') | retriever.",
    BaseMessage: "Pass its .text.",
    list: "Pass one string; batch() takes several, and PAMHistoryRetriever a chat.",
}


class RecallOptions(RecallArguments, total=False):
    """Further arguments of ``recall``; see ``RecallArguments`` for the rest.

    Attributes:
        id: id of a stored document as the query, instead of a text; this document is not in the answer.
        filter: metadata filter, a dict or a function of a document (with ``hops=1`` only).
        where: another name for ``filter``.
    """

    id: str | None
    filter: Filter | None
    where: Filter | None


class FitOptions(learning.FitOptions, total=False):
    """Arguments that ``fit`` passes unchanged to ``PredictiveAssociativeIndex.fit``; see there."""

    window: int
    config: Recipe | FitConfig


class AskOptions(RecallArguments, total=False):
    """Arguments of a recall of the index: ``RecallArguments``, and the text of the query."""

    text: str


class FeedbackOptions(TypedDict, total=False):
    """Further arguments of ``feedback``; see there."""

    unused: Iterable[Found]
    metadata: Metadata | None
    timestamp: Time | None
    id: str | None


# ---- documents


def to_document(memory: Hit | Record) -> Document:
    """Returns a memory as a document; a memory without a text has an empty page."""
    return Document(id=memory.id, page_content=memory.text or "", metadata=memory.metadata)


def to_scored(hits: Iterable[Hit]) -> list[tuple[Document, float]]:
    """Returns hits as documents with their scores, the largest first."""
    return [(to_document(hit), hit.score) for hit in hits]


def from_texts(
    texts: Iterable[str], metadatas: Iterable[dict[str, Any] | None] | None, ids: Iterable[str | None] | None
) -> list[Document]:
    """Returns one document per text. Without ``ids``, or with None in it, a document has no id yet.

    Raises:
        InvalidInput: there are not as many metadatas or ids as texts, or an id cannot be stored.
    """
    contents = read_list("texts", texts)  # each of the three may be a generator
    given = _one_each("ids", ids, len(contents))
    for at, id in enumerate(given):
        if id is not None and not isinstance(id, int):  # a Document turns a number into a string
            check_id(id, f"ids[{at}]")
    columns = contents, _one_each("metadatas", metadatas, len(contents)), given
    return [
        Document(id=id, page_content=text, metadata=metadata or {}) for text, metadata, id in zip(*columns, strict=True)
    ]


def name_documents(documents: Iterable[Document], ids: Iterable[str | None] | None) -> list[tuple[str, Document]]:
    """Returns pairs of id and document. The id is the given one, else that of the document, else a new uuid4.

    Raises:
        InvalidInput: a value is no document, there are not as many ids as documents, or an id cannot be stored.
    """
    contents = read_list("documents", documents)
    if not all(isinstance(one, Document) for one in contents):  # a single document is iterable, too: its fields
        raise InvalidInput(
            f"Got {shortened(str(documents))} ({type(documents).__name__}) as documents.",
            "a list of documents",
            "Pass texts to add_texts(), and a single document as [document].",
        )
    given = _one_each("ids", ids, len(contents))
    named = []
    for at, (new, id, one) in enumerate(zip(new_ids(len(contents)), given, contents, strict=True)):
        if id is not None:
            named.append((check_id(id, f"ids[{at}]"), one))
        else:
            named.append((new if one.id is None else check_id(one.id, f"documents[{at}]"), one))
    return named


def _one_each(name: str, values: Iterable[Any] | None, count: int) -> list[Any]:
    """Returns one value for each of ``count`` texts; None for each if there are no values."""
    given = [] if values is None else read_list(name, values)
    if given and len(given) != count:
        raise InvalidInput(
            f"Got {name} of length {len(given)} for {counted(count, 'text')}.", "as many", "Give one each."
        )
    return given or [None] * count


def read_ids(found: Iterable[Found], name: str) -> list[str]:
    """Returns the ids of documents from a search, without duplicates.

    Raises:
        InvalidInput: a value is neither a document nor an id, or a document has no id.
    """
    if isinstance(found, str | Document | Hit):
        raise InvalidInput(f"Got one {type(found).__name__} as {name}.", "a list of them", "Wrap it in [ ].")
    ids = []
    for one in found:
        document = one[0] if isinstance(one, tuple) else one
        id = document if isinstance(document, str) else getattr(document, "id", None)
        if not isinstance(id, str):
            raise InvalidInput(
                f"Got {str(one)[:100]!r} in {name}.", "ids, or documents that have one", "Pass documents from a search."
            )
        ids.append(id)
    return list(dict.fromkeys(ids))


# ---- options


def read_question(query: Any) -> str:
    """Returns the text of a question, for the embedder.

    Raises:
        InvalidInput: the query is no string, even if the embedder accepts it.
    """
    for kind, fix in OF_OTHER_QUERIES.items():
        if isinstance(query, kind):
            raise InvalidInput(f"Got a query that is a {type(query).__name__}.", "a string", fix)
    return check_text(query, "the query")


def read_vector(embedding: Any) -> list[float]:
    """Returns the vector of a query. The index also accepts ids and batches as a query; a search by vector does not.

    Raises:
        InvalidInput: the value is no vector.
    """
    got = f"The vector of a query is a {type(embedding).__name__}"
    expected, fix = "one vector, a list of numbers", "Pass embedding.embed_query(text)."
    vector = read_numbers(embedding, got, expected, fix)
    if vector.ndim != 1:
        raise InvalidInput(f"{got} of shape {vector.shape}.", expected, fix)
    return cast("list[float]", vector)  # an array serves as well


def one_filter(filter: Filter | None, where: Filter | None) -> Filter | None:
    """Returns the filter of a search: ``filter`` in LangChain, ``where`` in the core.

    Raises:
        InvalidInput: both were given.
    """
    if filter is not None and where is not None:
        raise InvalidInput("Got both filter and where.", "one of them", "They mean the same; join them with '$and'.")
    return where if filter is None else filter


def check_embedding(embedding: Any) -> Embeddings:
    """Checks that an object has the methods of LangChain's ``Embeddings``, which the embedders of the library lack.

    Raises:
        InvalidInput: it has not.
    """
    has_both = callable(getattr(embedding, "embed_documents", None)) and callable(
        getattr(embedding, "embed_query", None)
    )
    if isinstance(embedding, type) or not has_both:
        raise InvalidInput(
            f"Got the embedding {shortened(str(embedding))} ({type(embedding).__name__}).",
            "LangChain Embeddings: an object with embed_documents and embed_query",
            "Wrap another embedder in a class with these two methods.",
        )
    return cast("Embeddings", embedding)


def read_filter(filter: Filter | None, options: dict[str, Any], known: str = "k, filter or where") -> Filter | None:
    """Returns the filter of a similarity search, whose arguments are ``known``.

    Raises:
        InvalidInput: both names were used, or there are other options.
    """
    # an option of LangChain's FAISS store, to fetch more before filtering; not needed here, where the filter comes
    # first
    refuse(options.keys() - {"where", "fetch_k"}, known)
    return one_filter(filter, options.get("where"))


def read_recall(
    query: str | None, options: RecallOptions, is_fitted: Callable[[], bool]
) -> tuple[str | None, Filter | None, AskOptions]:
    """Returns the id, the filter and the other options of a recall, with the text of a question if its words count.

    Args:
        query: the text; None beside an id.
        options: as given.
        is_fitted: whether the index has a predictor. It is asked only for a text without words.

    Raises:
        InvalidInput: there are two cues or none, two filters, or an unknown option.
    """
    own, handed_on = RecallOptions.__annotations__.keys(), RecallArguments.__annotations__.keys()
    refuse(options.keys() - own - handed_on, f"k, {', '.join(dict.fromkeys([*handed_on, *own]))}")
    id = options.get("id")
    if (query is None) == (id is None):
        raise InvalidInput(f"Got query={query!r} and id={id!r}.", "one of them", "Give a text or an id.")
    arguments = cast("AskOptions", {name: value for name, value in options.items() if name in handed_on})
    if query is not None and options.get("mode") in (None, "hybrid"):
        if query.strip():
            arguments["text"] = query
        else:  # a blank text has no words to search for
            arguments["mode"] = "hybrid" if is_fitted() else "similarity"
            arguments.pop("feedback_where", None)  # neither mode uses feedback
    return id, one_filter(options.get("filter"), options.get("where")), arguments


class KnownFields:
    """A part of a pydantic model that refuses unknown arguments, because an unknown argument may be meant as a filter.

    Attributes:
        fields_in_words: description of the allowed arguments; empty for the names of the fields.
        values_in_words: description of the values of a field, where pydantic's is not plain.
    """

    fields_in_words: ClassVar[str] = ""
    values_in_words: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def _check_fields(cls, given: Mapping[str, Any]) -> None:
        """Refuses unknown arguments of the constructor."""
        fields: Mapping[str, Any] = cls.model_fields  # type: ignore[attr-defined]
        refuse(given.keys() - fields.keys(), cls.fields_in_words or ", ".join(fields))

    if not TYPE_CHECKING:  # type checkers take the arguments from the fields

        def __init__(self, **given: Any) -> None:
            self._check_fields(given)
            try:
                super().__init__(**given)
            except ValidationError as error:
                if not error.errors()[0]["loc"]:  # of a check of LangChain's
                    raise
                raise _in_words(error, given, self.values_in_words) from error


def _in_words(error: ValidationError, given: Mapping[str, Any], expected: Mapping[str, str]) -> InvalidInput:
    """Returns the error of this library for the first field that pydantic refuses."""
    wrong = error.errors(include_url=False)
    name = str(wrong[0]["loc"][0])
    if name not in given:
        return InvalidInput(f"Got no {name}.", "one", f"Pass {name}=....")
    value = repr(given[name])
    reasons = [one["msg"].removeprefix("Input should be ") for one in wrong if one["loc"][:1] == (name,)]
    return InvalidInput(
        f"Got {name}={value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + '...'}.",
        expected.get(name) or " or ".join(dict.fromkeys(reasons)),
        "Leave it out for the default." if name != "vectorstore" else "Make one with PAMVectorStore(embedding).",
    )
