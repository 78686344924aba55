"""Trajectories: storing them, and recall of the next step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import column_as_list
from pam_retriever.embedding import embed_texts
from pam_retriever.errors import IndexFormatError, InvalidInput, shortened
from pam_retriever.evaluation import Validation
from pam_retriever.experience.trajectories import Episode, TrajectoryLike, read_trajectories
from pam_retriever.index.base import IndexBase, Where
from pam_retriever.store import last_fit
from pam_retriever.store.database import Settings
from pam_retriever.store.learnt import NEXT, REPLACED
from pam_retriever.store.write_trajectories import WrittenTrajectory, check_known
from pam_retriever.types import Float32, Hits, Trajectory
from pam_retriever.validation import (
    check_count,
    check_finite,
    check_flag,
    check_id,
    check_text,
    check_vectors,
    read_list,
)

if TYPE_CHECKING:  # ``retrieval.sequences`` is loaded by the calls that need it, so that an index opens sooner
    from pam_retriever.retrieval.sequences.mixture import NextMixture

Step = str | npt.NDArray[np.floating] | Sequence[float] | Mapping[str, str]
Steps = Sequence[Step] | npt.NDArray[np.floating]


@dataclass(frozen=True)
class Text:
    """A step that was given as a text."""

    text: str


class Sequences(IndexBase):
    """The part of an index that stores trajectories, and predicts their next step."""

    def observe(self, trajectory: TrajectoryLike) -> list[str]:
        """Stores a trajectory; the next ``fit`` learns from it. If it is stored and has grown, stores the new steps.

        Args:
            trajectory: ids of memories in order, an array (T, dim) of new states, or a ``Trajectory``.

        Returns:
            The ids of its states.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        return self.observe_many([trajectory])[0]

    def observe_many(self, trajectories: Iterable[TrajectoryLike]) -> list[list[str]]:
        """Like ``observe``, for a list of trajectories in one transaction: stores all of them, or none.

        Args:
            trajectories: n lists of ids, arrays (T, dim) of new states, or ``Trajectory`` objects.

        Returns:
            The ids of the states of each.

        Raises:
            InvalidInput, UnknownId: nothing was stored.
        """
        episodes = read_trajectories(trajectories, self.dim)
        self._write(episodes)
        return [list(episode.ids) for episode in episodes]

    def _write(self, episodes: list[Episode]) -> list[WrittenTrajectory]:
        """Stores checked episodes; returns the steps that were not stored before, for each. Adapters call it."""
        self._background.check()
        with self._lock.exclusive():
            check_known(self._store.database, episodes)
            if not episodes:
                return []
            written = self._store.observe(episodes)
            self._store.keep_within_capacity()
        self._background.experienced(sum(len(one.rows) for one in written))
        return written

    def recall_next(
        self,
        trajectory: Steps,
        k: int = 10,
        *,
        where: Where = None,
        cue_where: Where = None,
        min_score: float | None = None,
        explain: bool = False,
    ) -> Hits:
        """Returns the memories that are likely to follow the last steps of a trajectory.

        The evidence: memories that followed the last one to four steps, or memories similar to the last step; similar
        trajectories; content, popularity, recency, and repeats. ``fit`` holds out the newest fifth of the steps, up
        to half if there are few, and learns the weights on it; before ``fit`` they are priors. Writes of ``observe``
        and ``append`` count at once. A memory that was never experienced can be found by its content, and after
        ``fit`` by a bilinear model of which vectors follow which.

        Args:
            trajectory: its steps, the newest last; the last ten are used. A step is an id, a vector, or ``{"text":
                ...}``, which is embedded as the text of a memory. A vector that is a noisy copy of a stored memory is
                replaced by it. An array (T, dim) is T vectors.
            k: number of hits.
            where: metadata filter of the hits and of all evidence; see ``filters``. The steps must pass it, too.
            cue_where: filter that the steps must pass instead of ``where``; {} for all, for example if steps are
                symptoms and hits are fixes.
            min_score: drop hits with a lower score.
            explain: fill ``Hit.evidence`` with the positions at which the hit directly followed the last step, and
                ``Hit.others`` with the other memories that did, and counts.

        Returns:
            ``Hits`` by falling score. The scores are shares among the candidates, with sum 1. If ``k`` is larger than
            their number, memories like the newest step follow, which change no score before them. ``Hit.confidence``
            is the probability that the hit comes next, calibrated by ``fit``. A step of the trajectory may be a hit;
            the newest one only if steps repeat: a stored step followed itself, or the trajectory ends with it twice. A
            ``fit`` on enough steps learns how often they do.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
        """
        return self.recall_next_many(
            [trajectory], k, where=where, cue_where=cue_where, min_score=min_score, explain=explain
        )[0]

    def recall_next_many(
        self,
        trajectories: Sequence[Steps],
        k: int = 10,
        *,
        where: Where = None,
        cue_where: Where = None,
        min_score: float | None = None,
        explain: bool = False,
    ) -> list[Hits]:
        """Like ``recall_next``, for several trajectories. Returns one ``Hits`` per trajectory."""
        if isinstance(trajectories, str | Mapping):
            raise InvalidInput(
                f"Got trajectories={shortened(str(trajectories))}.", "a list of trajectories", "Wrap it in [[ ]]."
            )
        lowest = None if min_score is None else check_finite("min_score", min_score)
        from pam_retriever.retrieval.sequences.scorer import NextSettings, next_hits

        settings = NextSettings(check_count("k", k), where, cue_where, lowest, check_flag("explain", explain))
        trajectories = read_list("trajectories", trajectories)
        steps = self._embed_steps([self._read_steps(one, f"trajectory {at}") for at, one in enumerate(trajectories)])
        with self._lock.shared():
            view = self._store.view()
            if not steps:
                return []
            if view.database.sharded is None:
                raise InvalidInput(
                    f"recall_next was called on an index in {self._store.backend!r}.",
                    "an index in SQLite",
                    "Open a folder, or keep it in memory.",
                )
            return next_hits(view, self._next_mixture(view.database.settings) or _prior(), steps, settings)

    def _next_mixture(self, settings: Settings) -> NextMixture | None:
        """Returns what ``fit`` stored for ``recall_next``; None for nothing, or for that of another version.

        Raises:
            IndexFormatError: it is damaged.
        """
        from pam_retriever.retrieval.sequences.bilinear import Bilinear
        from pam_retriever.retrieval.sequences.mixture import NextMixture

        stored = settings.get(NEXT)
        mixture = None if stored is None else NextMixture.from_dict(stored)
        packed = None if mixture is None else settings.weights(NEXT)
        return replace(mixture, bilinear=Bilinear.unpack(packed, self.dim)) if mixture and packed else mixture

    def _read_steps(self, trajectory: Steps, name: str) -> list[str | Text | Float32]:
        """Returns the steps as ids, texts and vectors (d,).

        Raises:
            InvalidInput: a step is none of them, or there is no step.
        """
        trajectory = column_as_list(trajectory)
        array = isinstance(trajectory, np.ndarray) and trajectory.ndim > 0
        if not array and (isinstance(trajectory, str | bytes) or not isinstance(trajectory, Sequence)):
            raise InvalidInput(
                f"{name.capitalize()} is {shortened(str(trajectory))}.",
                "a list of steps: ids, vectors, or {'text': ...}",
                _as_list(trajectory),
            )
        if not len(trajectory):
            raise InvalidInput(f"{name.capitalize()} has no steps.", "at least one", "Pass the last steps so far.")
        return [_read_step(step, self.dim, f"step {at} of {name}") for at, step in enumerate(trajectory)]

    def _embed_steps(self, trajectories: list[list[str | Text | Float32]]) -> list[list[str | Float32]]:
        """Returns the last steps, with the vectors of texts: one call embeds them all, as texts of memories."""
        from pam_retriever.retrieval.sequences.steps import LONGEST

        read = [  # ids are checked, also those before the last steps
            [one for at, one in enumerate(steps, LONGEST - len(steps)) if at >= 0 or not isinstance(one, Text)]
            for steps in trajectories
        ]
        texts = [step.text for steps in read for step in steps if isinstance(step, Text)]
        if not texts:
            return [[step for step in steps if not isinstance(step, Text)] for steps in read]
        call = "recall_next([{'text': ...}])"
        embedded = iter(embed_texts(self._embedder, texts, self.dim, call, lambda: self.embedder_name))
        return [[next(embedded) if isinstance(step, Text) else step for step in steps] for steps in read]

    def _fit_next(self, seed: int, nothing_new: bool) -> tuple[int, Validation]:
        """Fits the weights of the next-step evidence on the newest steps.

        Returns the number of held-out steps and the validation results.

        Args:
            seed: seed of the random samples.
            nothing_new: whether all experience was fitted before; then the weights and the results change only if
                vectors were replaced since.
        """
        from pam_retriever.retrieval.sequences.fitting import ExperienceCopy, fit_next

        with self._lock.shared():
            view = self._store.view()
            before = last_fit.read(self._store) if nothing_new else None
            replaced = view.database.settings.get(REPLACED)
            try:
                self._next_mixture(view.database.settings)
                stored = view.database.settings.get(NEXT)
            except IndexFormatError:
                stored = None  # damaged: it is learnt again
            if before is not None and isinstance(stored, dict) and stored.get(REPLACED) == replaced:
                worths = tuple(worth for worth in before.validation.worths if worth.kind.startswith(NEXT))
                return before.next_steps, Validation(worths)
            if view.database.sharded is None:
                return 0, Validation()
            # copies vectors and steps only: a copy of the whole database, as for past requests, takes longer
            experienced = (
                ExperienceCopy.of(view.links, view.similar, view.database.trajectories.experienced_when())
                if len(view.links) and len(view.similar)
                else None
            )
        if experienced is None:
            self._discard((NEXT,))
            return 0, Validation()
        mixture, questions, validation = fit_next(experienced, seed)
        bilinear = mixture.bilinear
        # no bytes without a model: an earlier one knows of experience that may be erased
        about = {**mixture.to_dict(), REPLACED: replaced}
        self._keep_learnt(NEXT, about, b"" if bilinear is None else bilinear.pack())
        return questions, validation


def _as_list(trajectory: object) -> str:
    """Returns the advice for a trajectory that is no list of steps."""
    if isinstance(trajectory, Trajectory):
        return "Pass its ids or vectors."
    if isinstance(trajectory, Iterable) and not isinstance(trajectory, str | bytes | Mapping):
        return "Pass list(...) of it, in order."
    return "Wrap a single step in a list."


def _read_step(step: Step, dim: int, name: str) -> str | Text | Float32:
    """Returns a step as an id, a text or a vector (dim,).

    Raises:
        InvalidInput: it is none of them.
    """
    if isinstance(step, str):
        return check_id(step, name)
    if isinstance(step, Mapping):
        if set(step) != {"text"}:
            raise InvalidInput(
                f"Got {shortened(str(dict(step)))} as {name}.", "{'text': ...}", "Pass an id as a string."
            )
        text = check_text(step["text"], name)
        if not text.strip():
            raise InvalidInput(f"Got an empty text as {name}.", "words", "Leave the step out.")
        return Text(text)
    if isinstance(step, bytes) or not (isinstance(step, Sequence) or np.ndim(step)):
        raise InvalidInput(
            f"Got {shortened(repr(step))} as {name}.",
            "an id, a vector, or {'text': ...}",
            "Wrap a single vector in a list.",
        )
    rows: Any = step[None] if isinstance(step, np.ndarray) else [step]
    vector: Float32 = check_vectors(rows, dim, name)[0]
    return vector


@lru_cache(maxsize=1)
def _prior() -> NextMixture:
    from pam_retriever.retrieval.sequences.mixture import NextMixture

    return NextMixture.prior()
