"""Translates a filter to the language of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.filters.conditions import (
    All,
    Among,
    Compares,
    Condition,
    Has,
    HasEntry,
    HasPart,
    IsNone,
    Kind,
    Listed,
    Not,
    Some,
    Symbol,
    Test,
    Timed,
    Value,
    key_path,
)
from pam_retriever.types import Int64

Path = tuple[str, ...]
"""Keys that lead from the metadata to a value, through dicts; at least one."""


class Compiler(ABC):
    """Translates the tree of a filter; a subclass translates each test.

    No test may be NULL, so that NOT negates it.
    """

    true, false = "true", "false"
    most_parameters = 60_000

    def __init__(self) -> None:
        self.parameters: list[Any] = []

    def compile(self, where: Condition) -> tuple[str, list[Any]]:
        """Returns the condition in the engine's language, and its parameters.

        Args:
            where: the filter, with a list of memories for each condition on time.

        Raises:
            InvalidInput: the filter has more parameters than the engine accepts.
        """
        condition = self._write(where)
        if len(self.parameters) > self.most_parameters:
            raise InvalidInput(
                f"Got a filter of {counted(len(self.parameters), 'parameter')}.",
                f"at most {self.most_parameters:,} in this engine",
                "Use $in for many values.",
            )
        return condition, self.parameters

    def _write(self, condition: Condition) -> str:
        if isinstance(condition, All):
            return self.join([self._write(part) for part in condition.parts], "AND")
        if isinstance(condition, Some):
            return self.join([self._write(part) for part in condition.parts], "OR")
        if isinstance(condition, Not):
            return self.negated(self._write(condition.part))
        if isinstance(condition, Listed):
            return self.is_listed(condition.rows)
        assert not isinstance(condition, Timed), "with_times has looked it up"
        literal, path = (condition.key,), key_path(condition.key)
        test = self._test(condition, literal)
        if len(path) == 1:
            return test
        # parameters have the order in which the tests are translated
        by_path = [self.negated(self.has(literal)), self._test(condition, path)]
        return self.join([test, self.join(by_path, "AND")], "OR")

    def _test(self, test: Test, path: Path) -> str:
        if isinstance(test, Has):
            return self.has(path)
        if isinstance(test, IsNone):
            return self.is_none(path)
        if isinstance(test, Among):
            return self.is_among(path, test.kind, test.values)
        if isinstance(test, Compares):
            return self.compares(path, test.kind, test.symbol, test.value)
        if isinstance(test, HasEntry):
            return self.has_entry(path, test.kind, test.value)
        assert isinstance(test, HasPart)
        return self.has_part(path, test.value)

    def join(self, terms: list[str], word: str) -> str:
        """Joins terms in halves, so that the depth is logarithmic. An empty AND is true, an empty OR is false."""
        if len(terms) > 2:
            middle = len(terms) // 2
            terms = [self.join(terms[:middle], word), self.join(terms[middle:], word)]
        return f"({f' {word} '.join(terms)})" if terms else (self.true if word == "AND" else self.false)

    def negated(self, test: str) -> str:
        """Returns the negation of a test."""
        return f"NOT {test}"

    @abstractmethod
    def is_listed(self, rows: Int64) -> str:
        """Tests that the memory is in one of these rows."""

    @abstractmethod
    def has(self, path: Path) -> str:
        """Tests that the value exists."""

    @abstractmethod
    def is_none(self, path: Path) -> str:
        """Tests that the value is stored as None."""

    @abstractmethod
    def is_among(self, path: Path, kind: Kind, values: Sequence[Value]) -> str:
        """Tests that the value has this kind, and is one of ``values``."""

    @abstractmethod
    def compares(self, path: Path, kind: Kind, symbol: Symbol, value: Value) -> str:
        """Tests that the value has this kind, and that its comparison ``symbol`` with the operand is true."""

    @abstractmethod
    def has_entry(self, path: Path, kind: Kind, value: Value) -> str:
        """Tests that the value is a list with this entry."""

    @abstractmethod
    def has_part(self, path: Path, value: str) -> str:
        """Tests that the value is a string that contains this part."""
