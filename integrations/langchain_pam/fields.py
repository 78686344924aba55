"""Models that refuse unknown fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pam_retriever.adapters.recalling import refuse


class KnownFields:
    """A part of a pydantic model that refuses unknown arguments, because an unknown argument may be meant as a filter.

    Attributes:
        fields_in_words: description of the allowed arguments; empty for the names of the fields.
    """

    fields_in_words: ClassVar[str] = ""

    @classmethod
    def _check_fields(cls, given: Mapping[str, Any]) -> None:
        """Refuses unknown arguments of the constructor."""
        fields: Mapping[str, Any] = cls.model_fields  # type: ignore[attr-defined]
        refuse(given.keys() - fields.keys(), cls.fields_in_words or ", ".join(fields))

    if not TYPE_CHECKING:  # type checkers take the arguments from the fields

        def __init__(self, **given: Any) -> None:
            self._check_fields(given)
            super().__init__(**given)
