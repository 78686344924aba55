"""Step 1: episodes. Checks trajectories from the caller, and converts them to one form."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import is_number, kind_of_no_number
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.filters.stored import to_json
from pam_retriever.limits import MAX_ID_BYTES, MAX_SALIENCE
from pam_retriever.types import Float32, Time, Trajectory
from pam_retriever.validation import check_id, check_vectors, read_list

TrajectoryLike = Trajectory | Sequence[str] | npt.NDArray[Any]


@dataclass(frozen=True)
class Episode:
    """A checked trajectory of at least two states.

    Attributes:
        id: the id of the trajectory.
        ids: T ids of memories; the id of a new vector is "<trajectory id>/<position>".
        vectors: (T, dim) float32 to add with these ids, or None for stored memories.
        timestamps: T floats that never fall, or None.
        salience: T finite floats >= 0, or None.
        dated: whether the timestamps were dates; they are seconds since 1970 then.
    """

    id: str
    ids: tuple[str, ...]
    vectors: Float32 | None = None
    timestamps: tuple[float, ...] | None = None
    salience: tuple[float, ...] | None = None
    dated: bool = False


def name_of_group(key: str, value: object) -> str:
    """Returns the id of the trajectory of the memories that share a value of a metadata key.

    A digest replaces a value that is too long for an id.
    """
    name = f"{key}={to_json(value)}"
    encoded = name.encode()
    return name if len(encoded) <= MAX_ID_BYTES else f"{key}=sha256:{hashlib.sha256(encoded).hexdigest()}"


def read_trajectories(trajectories: Iterable[TrajectoryLike], dim: int) -> list[Episode]:
    """Checks every trajectory. Changes nothing if one is invalid.

    Args:
        trajectories: lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects.
        dim: dimension of the index.

    Raises:
        InvalidInput: a trajectory is invalid. The message names it by its position.
    """
    _check_collection(trajectories)
    episodes = [_read(trajectory, f"trajectory {at}", dim) for at, trajectory in enumerate(trajectories)]
    names = [episode.id for episode in episodes]
    if len(set(names)) < len(names):
        raise _two(Counter(names).most_common(1)[0][0])
    return episodes


def _check_collection(trajectories: Any) -> None:
    """Raises InvalidInput unless the argument is a collection whose items may be trajectories."""
    two_dimensional = getattr(trajectories, "ndim", 0) == 2
    if two_dimensional and hasattr(trajectories, "groupby"):
        fix = "Pass the ids of each session: table.groupby('session')['id'].apply(list)."
        raise InvalidInput(f"Got a {type(trajectories).__name__}.", "a list of trajectories", fix)
    numbers = isinstance(trajectories, np.ndarray) and trajectories.dtype.kind in "fiu"
    if isinstance(trajectories, str | Trajectory) or (numbers and two_dimensional):
        raise InvalidInput(f"Got a single {type(trajectories).__name__}.", "a list of trajectories", "Wrap it in [ ].")
    if isinstance(trajectories, Mapping) or not isinstance(trajectories, Iterable):
        raise InvalidInput(f"Got trajectories={trajectories!r}.", "a list of trajectories", "Pass lists of ids.")


def read_in_batches(trajectories: Iterable[TrajectoryLike], dim: int, states: int) -> Iterator[list[Episode]]:
    """Checks trajectories as they arrive, in batches of about this many states.

    Raises:
        InvalidInput: see ``read_trajectories``. Trajectories before the invalid one were yielded.
    """
    _check_collection(trajectories)
    episodes: list[Episode] = []
    waiting, named = 0, set[int]()
    for at, trajectory in enumerate(trajectories):
        episode = _read(trajectory, f"trajectory {at}", dim)
        if isinstance(trajectory, Trajectory) and trajectory.id is not None:  # a hash takes less memory than an id
            if hash(episode.id) in named:
                raise _two(episode.id)
            named.add(hash(episode.id))
        episodes.append(episode)
        waiting += len(episode.ids)
        if waiting >= states:
            yield episodes
            episodes, waiting = [], 0
    if episodes:
        yield episodes


def _two(id: str) -> InvalidInput:
    return InvalidInput(f"Got two trajectories with the id {id!r}.", "distinct ids", "Join them, or rename one.")


def _as_trajectory(given: TrajectoryLike, name: str) -> Trajectory:
    if isinstance(given, Trajectory):
        return given
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiu":
        return Trajectory(vectors=given)
    if isinstance(given, str):
        raise InvalidInput(
            f"{name.capitalize()} is the string {given!r}.", "a list of ids", "Wrap the ids in a list each."
        )
    if isinstance(given, set | frozenset):
        raise InvalidInput(f"{name.capitalize()} is a set.", "a list of ids in their order", "Sort them by their time.")
    ids = read_list(name, given)
    if any(map(_is_vector, ids)):
        raise InvalidInput(
            f"{name.capitalize()} is a list of vectors.", "ids, or an array (T, dim)", "Pass np.array(...) of it."
        )
    if any(isinstance(id, Trajectory) or (isinstance(id, list | tuple) and set(map(type, id)) == {str}) for id in ids):
        raise InvalidInput(f"{name.capitalize()} is a list of trajectories.", "one", "Use observe_many for several.")
    return Trajectory(ids=ids)


def _is_vector(given: Any) -> bool:
    if isinstance(given, list | tuple):
        return len(given) > 0 and all(map(is_number, given))
    return getattr(given, "ndim", 0) == 1 and getattr(given.dtype, "kind", "f") in "fiu"  # of torch, it has no kind


def _read(given: TrajectoryLike, name: str, dim: int) -> Episode:
    trajectory = _as_trajectory(given, name)
    if (trajectory.ids is None) == (trajectory.vectors is None):
        raise InvalidInput(
            f"{name.capitalize()} has {'neither' if trajectory.ids is None else 'both'} ids and vectors.",
            "one of the two",
            "Add the vectors first and pass their ids, or pass vectors only.",
        )
    id = str(uuid.uuid4()) if trajectory.id is None else check_id(trajectory.id, name)
    vectors = None
    if trajectory.vectors is not None:
        vectors = check_vectors(trajectory.vectors, dim, name)
        ids = tuple(f"{id}/{position}" for position in range(len(vectors)))
    else:
        given = () if trajectory.ids is None else read_list(f"ids of {name}", trajectory.ids)
        ids = tuple(check_id(state, name) for state in given)
    if len(ids) < 2:
        raise InvalidInput(
            f"{name.capitalize()} has {counted(len(ids), 'state')}.",
            "at least two: only memories that happen together are associated",
            "Leave it out, or join it to the trajectory it belongs to.",
        )
    timestamps, dated = _times(trajectory.timestamps, len(ids), name)
    if timestamps and any(later < earlier for earlier, later in zip(timestamps, timestamps[1:], strict=False)):
        raise InvalidInput(
            f"The timestamps of {name} fall.", "numbers that never fall", "Sort the states by time first."
        )
    salience = _numbers(trajectory.salience, len(ids), name, "salience")
    if salience and min(salience) < 0:
        raise InvalidInput(
            f"The salience of {name} holds {min(salience)}.", "numbers of at least 0", "Use 0 to ignore a state."
        )
    if salience and max(salience) > MAX_SALIENCE:
        raise InvalidInput(
            f"The salience of {name} holds {max(salience):g}.",
            f"numbers of at most {MAX_SALIENCE:g}",
            "Use numbers around 1, which a state without salience has.",
        )
    return Episode(id, ids, vectors, timestamps, salience, dated)


def _times(given: Sequence[Time] | None, length: int, name: str) -> tuple[tuple[float, ...] | None, bool]:
    """Returns the times as numbers, and whether they were dates."""
    if given is None:
        return None, False
    try:
        times = list(given)
    except TypeError as error:
        raise InvalidInput(f"The timestamps of {name}: {error}.", "a list of times", "Give one per state.") from error
    dated = {isinstance(time, date) for time in times}
    if len(dated) == 2:
        raise InvalidInput(f"The timestamps of {name} are in part dates.", "all of one kind", "Convert the others.")
    return _numbers([read_timestamp(time) for time in times], length, name, "timestamps"), dated == {True}


def _numbers(given: Sequence[float] | None, length: int, name: str, what: str) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        given = list(given)
        if (kind := kind_of_no_number(given)) is not None:  # float() reads a text of digits
            raise TypeError(kind)
        numbers = tuple(float(number) for number in given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"The {what} of {name}: {error}.", "numbers", "Convert them to float.") from error
    if len(numbers) != length or not all(map(math.isfinite, numbers)):
        raise InvalidInput(
            f"The {what} of {name} are {len(numbers)} for {counted(length, 'state')}, finite: "
            f"{all(map(math.isfinite, numbers))}.",
            "one finite number per state",
            f"Give {length} of them, or None.",
        )
    return numbers
