"""The errors of this library. Each message says what was given, what was expected, and how to fix it."""

from __future__ import annotations

MOST, END = 600, 100  # most characters of a given value in a message, and how many of them are from its end


class PAMError(Exception):
    """The base class. The message says what was given, what was expected, and how to fix it.

    Args:
        got: the invalid input, or the event.
        expected: a description of valid input.
        fix: what the caller can do about it.
    """

    def __init__(self, got: str, expected: str, fix: str) -> None:
        self.got, self.expected, self.fix = _within(got), expected, fix
        super().__init__(f"{self.got} Expected {expected}. {fix}")

    def __reduce__(self) -> tuple[object, ...]:
        # a pool of processes pickles the errors of its workers; Exception would pass the whole message to __init__
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        # KeyError would print the repr of its argument
        return str(self.args[0])


class InvalidInput(PAMError, ValueError):
    """An argument has a wrong type, shape or value."""


class EmptyIndex(InvalidInput):
    """``imagine`` needs at least two memories. In an empty index, ``search`` and ``recall`` return no hits."""


class UnknownId(PAMError, KeyError):
    """An id that is not in the index."""


class NotFitted(PAMError, RuntimeError):
    """Association needs an index that was fitted."""


class TrainingDiverged(PAMError, ArithmeticError):
    """The loss became NaN or infinite. The index is the same as before ``fit``."""


class IndexFormatError(PAMError, OSError):
    """A folder that is not an index, is damaged, or is from a newer version."""


class StorageError(PAMError, OSError):
    """Storage failed: the disk is full, read-only or gone, or a permission is missing.

    The index is unchanged, unless the message says that the memories are stored already.
    """


class IndexLocked(PAMError, OSError):
    """Another process, or another object in this one, has the index open for writing."""


class EngineUnavailable(StorageError, ConnectionError):
    """A database server cannot be reached, or the connection was lost and did not come back in time."""


class EmbedderUnavailable(PAMError, OSError):
    """The model of an embedder is not on this machine and cannot be downloaded, or is damaged."""


class Interrupted(EngineUnavailable):
    """The connection was lost during a call. Nothing was stored, so the call can be repeated."""


class ReadOnlyIndex(PAMError, OSError):
    """A call would change an index that was opened with ``read_only=True``."""


class IndexClosed(PAMError, RuntimeError):
    """The index was closed."""


class IndexForked(PAMError, RuntimeError):
    """The index was opened before this process was forked, and belongs to the parent."""


class MissingExtra(PAMError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed.",
            f"the extra '{extra}'",
            f"Install it with: pip install 'pam-retriever[{extra}]'",
        )


def _restored(kind: type[PAMError], args: tuple[object, ...], attributes: dict[str, object]) -> PAMError:
    """Returns an error that was pickled or copied."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _within(text: str) -> str:
    """Leaves out the middle of a long text, because a given value may be an array or a document."""
    if len(text) <= MOST:
        return text
    return f"{text[: MOST - END]} … ({len(text):,} characters in all) … {text[-END:]}"


def counted(number: int, noun: str, form: str = ",") -> str:
    """Returns a number with its noun in the singular or the plural, for a message; "+" as ``form`` shows the sign."""
    if abs(number) == 1:
        return f"{number:{form}} {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number:{form}} {noun[:-1]}ies"
    return f"{number:{form}} {noun}{'es' if noun.endswith(('s', 'ch')) else 's'}"


def shortened(text: str | None, limit: int = 60) -> str:
    """Shortens a text for a message."""
    if text is None or len(text) <= limit:
        return repr(text)
    return repr(text[: limit - 1] + "…")


def id_advice(given: object) -> str:
    """Returns what to do about a value that is no id."""
    if isinstance(given, str):
        return "Give it a name."
    return "Pass its .id." if isinstance(getattr(given, "id", None), str) else "Use str(id)."


def numbers_advice(given: object, otherwise: str) -> str:
    """Returns what to do about a value that is no array of numbers; ``otherwise`` if it is of no usual kind."""
    first = given[0] if isinstance(given, list | tuple) and given else given
    if isinstance(getattr(first, "id", None), str):
        return "Pass its .id."
    if hasattr(given, "__next__"):
        return "Pass it as list(...)."
    if hasattr(first, "__len__") and not isinstance(first, str):
        return "Pass rows of the same length."
    if isinstance(first, str):
        return "Pass texts by name: text='...' for one, texts=[...] in add; ids as ids=[...]."
    return otherwise
