"""Models that refuse unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError

from pam_retriever.adapters.recalling import refuse
from pam_retriever.errors import InvalidInput

LONGEST = 100  # characters of a value in an error


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
        f"Got {name}={value if len(value) <= LONGEST else value[:LONGEST] + '...'}.",
        expected.get(name) or " or ".join(dict.fromkeys(reasons)),
        "Leave it out for the default." if name != "vectorstore" else "Make one with PAMVectorStore(embedding).",
    )
