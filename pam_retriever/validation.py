"""Checks of arguments. Each error says what was given, what was expected, and how to fix it."""

from __future__ import annotations

import re
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import column_as_list, for_numpy, is_finite, kind_of_no_number
from pam_retriever.errors import InvalidInput, counted, id_advice, numbers_advice
from pam_retriever.limits import (
    MAX_ID_BYTES,
    MAX_LENGTH,
    MAX_SEED,
    MAX_TENANT_BYTES,
    MAX_TEXT_BYTES,
    MIN_LENGTH,
)
from pam_retriever.types import Float32

_ISO_8601 = re.compile(r"\d{4}(?:-\d\d-\d\d|\d{4}|-?W\d\d(?:-?\d)?)(?P<time>\D.*)?", re.DOTALL)


def check_id(id: Any, where: str) -> str:
    """Checks an id: a non-empty string that can be stored.

    Raises:
        InvalidInput: the value is something else.
    """
    if not isinstance(id, str) or not id:
        raise InvalidInput(f"Got the id {id!r} ({type(id).__name__}) in {where}.", "a non-empty string", id_advice(id))
    check_size(id, MAX_ID_BYTES, f"The id {id[:60]!r}… in {where}")
    if "\x00" in id:
        raise InvalidInput(f"The id {id!r} in {where} holds a NUL character.", "no NUL", "Remove it.")
    return check_text(id, where)


def read_ids(
    ids: str | Sequence[str] | None, where: Mapping[str, object] | None, call: str, empty_filter: str
) -> list[str]:
    """Returns the ids for a call that takes ids or a filter; an empty list if it got a filter.

    Args:
        ids: one id, or several.
        where: a filter, instead of ids.
        call: name of the call.
        empty_filter: the effect of ``where={}`` in the call, for the message.

    Raises:
        InvalidInput: neither ids nor a filter are given, or both; or a value cannot be an id.
    """
    if (ids is None) == (where is None):
        raise InvalidInput("Got neither ids nor where, or both.", "one of them", f"where={{}} {empty_filter}.")
    return [check_id(id, call) for id in read_one_or_more("ids", ids)]


def read_one_or_more(name: str, values: Any) -> list[Any]:
    """Returns the values of an argument that is a string or a collection; an empty list for None.

    Raises:
        InvalidInput: the argument is something else.
    """
    return [] if values is None else [values] if isinstance(values, str) else read_list(name, values)


def read_list(name: str, values: Any) -> list[Any]:
    """Returns the values of an argument that is a collection. A mapping is refused: its keys are not its values.

    Raises:
        InvalidInput: the argument is a string, a mapping, or no collection.
    """
    if isinstance(values, str | bytes):
        raise InvalidInput(f"Got {name}={values!r}.", "a list", "Wrap it in [ ].")
    if name == "metadatas" and hasattr(values, "to_dict"):
        raise InvalidInput(f"Got {name} as a {type(values).__name__}.", "a list", "Pass it as .to_dict('records').")
    scalar = isinstance(values, np.ndarray) and values.ndim == 0  # it has the method of an iterable, which raises
    if isinstance(values, Mapping) or scalar or not isinstance(values, Iterable):
        fix = "Pass a filter as where=..." if name == "ids" else "Wrap it in [ ]."
        raise InvalidInput(f"Got {name}={values!r} ({type(values).__name__}).", "a list", fix)
    return list(values)


def selects_all(where: object) -> bool:
    """Whether a filter has no condition. False for a value that is no filter; the parser of filters refuses it."""
    return isinstance(where, Mapping) and not where


def check_flag(name: str, value: Any) -> bool:
    """Checks True or False. Another value is refused: the string "False" counts as true.

    Raises:
        InvalidInput: the value is something else.
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"Got {name}={value!r}.", "True or False", "Leave it out for the default.")
    return bool(value)


def check_text(text: Any, where: str) -> str:
    """Checks a text: a string that UTF-8 can hold.

    Raises:
        InvalidInput: the value is something else.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"Got {text!r} ({type(text).__name__}) in {where}.", "a string", "Use str().")
    check_size(text, MAX_TEXT_BYTES, f"A string in {where}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"A string in {where} holds a lone surrogate at {error.start}.",
            "text that UTF-8 can hold",
            "Decode the source with errors='replace'.",
        ) from error
    return text


def check_size(text: str, most: int, what: str) -> None:
    """Checks that a string has at most ``most`` bytes of UTF-8; encodes it only if its length does not decide.

    Raises:
        InvalidInput: the string is longer.
    """
    size = len(text) if 4 * len(text) <= most else len(text.encode(errors="replace"))
    if size > most:
        raise InvalidInput(f"{what} has {size:,} bytes.", f"at most {most:,}", "Split it, or keep it elsewhere.")


def check_tenant(name: str) -> str:
    """Checks the name of a tenant: a non-empty string, short enough for the name of a folder.

    Raises:
        InvalidInput: it is no such string.
    """
    if isinstance(name, str) and not name:
        raise InvalidInput(
            "Got the tenant ''.", "the name of a tenant, a non-empty string", "Give it a name, or use the index itself."
        )
    name = check_id(name, "tenant")
    check_size(name, MAX_TENANT_BYTES, f"The name {name[:60]!r} of a tenant")
    return name


def check_vectors(vectors: npt.ArrayLike, dim: int, where: str) -> Float32:
    """Returns vectors (n, dim) as finite float32 with no row of zeros.

    Raises:
        InvalidInput: the vectors are something else. The message names the first invalid row.
    """
    array = read_numbers(
        vectors,
        f"The vectors of {where} are not an array of numbers",
        f"an array of shape (n, {dim})",
        "Check that all rows have the same length.",
    )
    if array.ndim != 2 or array.shape[1] != dim:
        raise InvalidInput(
            f"The vectors of {where} have shape {array.shape}.",
            f"(n, {dim}), the dimension of this index",
            "Use the same embedder for everything in one index."
            if array.ndim == 2
            else "Pass a list of vectors, [vector] for a single one.",
        )
    if not len(array):
        raise InvalidInput(f"Got no vectors in {where}.", "at least one", "Skip the call for an empty batch.")
    squares = np.einsum("nd,nd->n", array, array)
    if not (squares.min() >= MIN_LENGTH**2 and squares.max() <= MAX_LENGTH**2):  # NaN compares as false
        raise _wrong_length(array, squares, where)
    return np.ascontiguousarray(array)


def read_numbers(values: Any, got: str, expected: str, fix: str) -> Float32:
    """Returns values as an array of float32.

    Raises:
        InvalidInput: they are something else; the message begins with ``got``.
    """
    try:
        given = column_as_list(values)
        given = given if isinstance(given, list | tuple) else np.asarray(for_numpy(given))
        if (kind := kind_of_no_number(given)) is not None:
            texts = isinstance(given, list | tuple) and isinstance(given[0], str)
            advice = "Convert each value with float()."
            raise InvalidInput(f"{got} ({kind}).", expected, numbers_advice(given, fix) if texts else advice)
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, which the caller refuses
            return np.asarray(for_numpy(given), np.float32)
    except InvalidInput:  # a ValueError, too
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # torch raises the last
        raise InvalidInput(f"{got} ({error}).", expected, numbers_advice(column_as_list(values), fix)) from error


def check_vector(vector: Any, dim: int, where: str) -> Float32:
    """Returns one vector (dim,) as a row (1, dim); see ``check_vectors``."""
    return check_vectors([vector], dim, where)


def _wrong_length(array: Float32, squares: Float32, where: str) -> InvalidInput:
    """Returns the error for the first invalid one of vectors (n, d) with these squared lengths."""
    if (bad := ~np.isfinite(array).all(axis=1)).any():
        return InvalidInput(
            f"Vector {int(bad.argmax())} of {where} holds NaN or infinity.",
            "finite numbers within float32",
            "Check the embedder's output for that row.",
        )
    if not array.any(axis=1).all():
        return InvalidInput(
            f"Vector {int((~array.any(axis=1)).argmax())} of {where} is all zeros.",
            "a vector with a direction, because closeness is cosine",
            "Check the embedder's output for that row (an empty text?).",
        )
    at = int(((squares < MIN_LENGTH**2) | (squares > MAX_LENGTH**2)).argmax())
    return InvalidInput(
        f"Vector {at} of {where} has a length of {np.linalg.norm(array[at].astype(np.float64)):.3g}.",
        f"a length from {MIN_LENGTH:g} to {MAX_LENGTH:g}, whose square float32 can hold",
        "Scale it, for example to length 1: closeness is cosine.",
    )


def new_ids(count: int) -> list[str]:
    """Returns distinct uuid4 strings that differ in the last 32 bits alone.

    The database keeps ids in order. If all bits were random, each id of a bulk would change another page of it.
    """
    made = uuid.uuid4()
    beginning, last = str(made)[:-8], made.int
    return [f"{beginning}{(last + at) % 2**32:08x}" for at in range(count)]


def check_ids(ids: Sequence[str] | None, length: int) -> list[str]:
    """Returns ``length`` distinct ids; new ones for None, see ``new_ids``.

    Raises:
        InvalidInput: the number is wrong, an id is invalid, or one occurs twice.
    """
    if ids is None:
        return new_ids(length)
    ids = read_list("ids", ids)
    if are_plain(ids, MAX_ID_BYTES) and all(ids) and "\x00" not in "".join(ids):
        checked = ids
    else:
        checked = [check_id(id, f"ids[{at}]") for at, id in enumerate(ids)]
    check_length("ids", len(checked), length)
    if len(set(checked)) < len(checked):
        twice = Counter(checked).most_common(1)[0][0]
        raise InvalidInput(f"The id {twice!r} comes twice.", "each id once in a call", "Keep the last of them.")
    return checked


def check_texts(texts: Sequence[str | None] | None, length: int) -> list[str | None]:
    """Returns ``length`` texts, None for a missing one.

    Raises:
        InvalidInput: the number or a type is wrong.
    """
    if texts is None:
        return [None] * length
    texts = read_list("texts", texts)
    check_length("texts", len(texts), length)
    if are_plain([text for text in texts if text is not None], MAX_TEXT_BYTES):
        return texts
    return [None if text is None else check_text(text, f"texts[{at}]") for at, text in enumerate(texts)]


def are_plain(strings: Sequence[object], most: int) -> bool:
    """Returns whether all are strings of UTF-8 with less than ``most`` bytes; False if one check cannot tell."""
    if not set(map(type, strings)) <= {str}:
        return False
    plain = cast("Sequence[str]", strings)
    if 4 * max(map(len, plain), default=0) > most:
        return False
    together = "".join(plain)
    if together.isascii():
        return True
    try:
        together.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_length(name: str, given: int, count: int) -> None:
    """Raises InvalidInput unless the lengths agree."""
    if given != count:
        raise InvalidInput(f"Got {name} of length {given} for {counted(count, 'vector')}.", "as many", "Give one each.")


def check_count(name: str, value: Any, most: int | None = None) -> int:
    """Checks an integer from 1 to ``most``.

    Raises:
        InvalidInput: the value is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"Got {name}={value!r}.", "a whole number of at least 1", f"Use {name}=1 or more.")
    if most is not None and value > most:
        raise InvalidInput(f"Got {name}={value!r}.", f"at most {most:,}", f"Use a smaller {name}.")
    return min(int(value), sys.maxsize)  # a database holds no larger integer


def check_seed(seed: Any) -> int:
    """Checks an integer that NumPy and torch accept as a seed.

    Raises:
        InvalidInput: the value is something else.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"Got seed={seed!r}.", f"a whole number from 0 to {MAX_SEED}", "Use seed=0.")
    return int(seed)


def check_whole(name: str, value: Any) -> int:
    """Checks an integer of at least 0.

    Raises:
        InvalidInput: the value is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InvalidInput(f"Got {name}={value!r}.", "a whole number of at least 0", "Leave it out for the default.")
    return min(int(value), sys.maxsize)


def read_date(value: object) -> date | None:
    """Returns a date or datetime, also one in ISO 8601; None for other values.

    Python alone reads the first digits of other texts as a date: seconds since 1970, "1779062400", as the year 1779.
    """
    if isinstance(value, date):  # a datetime is a date, too
        return value
    form = _ISO_8601.fullmatch(value) if isinstance(value, str) else None
    if form is None:
        return None
    text = form.string
    if text.isdigit():  # Python 3.10 reads no date without separators
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    try:
        if form["time"] is None:
            return date.fromisoformat(text)
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    except ValueError:
        return None


def check_positive(name: str, value: Any) -> float:
    """Checks a finite number above 0.

    Raises:
        InvalidInput: the value is something else.
    """
    if isinstance(value, timedelta):
        fix = f"Times that are dates count in seconds: {value.total_seconds()}."
        raise InvalidInput(f"Got {name}={value!r}.", "a finite number above 0", fix)
    if not is_finite(value) or value <= 0:
        raise InvalidInput(f"Got {name}={value!r}.", "a finite number above 0", "Leave it out for the default.")
    return float(value)


def check_finite(name: str, value: Any) -> float:
    """Checks a finite number.

    Raises:
        InvalidInput: the value is something else.
    """
    if not is_finite(value):
        raise InvalidInput(f"Got {name}={value!r}.", "a finite number", "Leave it out if in doubt.")
    return float(value)


def full_name(thing: object) -> str:
    """Returns the module and the name of a function, or of the class of an object."""
    named: Any = thing if hasattr(thing, "__qualname__") else type(thing)
    return as_in_script(f"{getattr(named, '__module__', None)}.{named.__qualname__}")


def as_in_script(name: str) -> str:
    """Returns a full name as the script has it: a process that multiprocessing spawns calls the script __mp_main__."""
    return f"__main__.{name.removeprefix('__mp_main__.')}" if name.startswith("__mp_main__.") else name
