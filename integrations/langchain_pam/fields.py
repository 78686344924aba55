"""Models that refuse what is none of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from langchain_pam.documents import refuse


class KnownFields:
    """A part of a pydantic model: an argument that nobody reads may be meant as a filter.

    Attributes:
        fields_in_words: what may be given; nothing for the names of the fields.
    """

    fields_in_words: ClassVar[str] = ""

    @classmethod
    def _check_fields(cls, given: Mapping[str, Any]) -> None:
        """Refuses arguments of the constructor."""
        fields: Mapping[str, Any] = cls.model_fields  # type: ignore[attr-defined]
        refuse(given.keys() - fields.keys(), cls.fields_in_words or ", ".join(fields))

    if not TYPE_CHECKING:  # for which the fields say what may be given

        def __init__(self, **given: Any) -> None:
            self._check_fields(given)
            super().__init__(**given)
