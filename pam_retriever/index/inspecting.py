"""Looking into an index: what it holds, what was fitted, how its memories lie."""

from __future__ import annotations

import sys
from bisect import bisect_right
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Literal, cast

from pam_retriever.display import ShownIndex
from pam_retriever.explore import Explorable, Explorer, Source, explore
from pam_retriever.index.base import IndexBase
from pam_retriever.retrieval.projection import Method, Projection, project
from pam_retriever.store import last_fit, repair
from pam_retriever.types import FitReport
from pam_retriever.validation import check_count

MOST_BINS = 10_000


@dataclass(frozen=True)
class Overview:
    """What an index holds, in numbers.

    Attributes:
        memories: how many.
        dim: length of their vectors.
        experienced: how many of them are part of a trajectory.
        trajectories: how many.
        requests: how much feedback; None where it cannot be stored.
        fitted: whether there is a predictor.
        window: tau of the last fit.
        new_trajectories: how many came since the last fit, or since then grew.
        backend: the ANN index or the engine, in words.
        location: where the index is, in words.
        embedder: the name of what made the vectors of texts, or None.
    """

    memories: int
    dim: int
    experienced: int
    trajectories: int
    requests: int | None
    fitted: bool
    window: int
    new_trajectories: int
    backend: str
    location: str
    embedder: str | None

    def to_dict(self) -> dict[str, object]:
        """The attributes by name; JSON can hold them."""
        return asdict(self)


@dataclass(frozen=True)
class TimeCounts:
    """How many memories there were when.

    Attributes:
        kind: "dates", or "numbers" of a unit of the caller's.
        start, end: the first and the last time; of dates in seconds since 1970.
        counts: in each of as many equal stretches from ``start`` to ``end``.
    """

    kind: Literal["dates", "numbers"]
    start: float
    end: float
    counts: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """The attributes by name; JSON can hold them."""
        return asdict(self)


class Inspecting(ShownIndex, IndexBase):
    """The part of an index that is looked into."""

    def overview(self) -> Overview:
        """The size of the index, in numbers. It is counted, not read."""
        with self._lock.shared():
            store = self._store
            database = store.database
            learnt = store.learnt()
            numbers = database.trajectories.numbers()
            grown = sum(end > learnt.grew[number] for number, end in learnt.ends.items() if number <= learnt.number)
            return Overview(
                len(database.memories),
                store.dim,
                store.links.memories,
                len(numbers),
                None if database.feedback is None else len(database.feedback),
                store.predictor is not None,
                store.window,
                len(numbers) - bisect_right(numbers, learnt.number) + grown,
                f"{store.backend} ({store.similar.description})",
                store.location,
                store.embedder,
            )

    def last_fit(self) -> FitReport | None:
        """The report of the last ``fit`` that learnt something, in this process or another; None before the first.

        Raises:
            IndexFormatError: what is stored of it is damaged.
        """
        with self._lock.shared():
            return last_fit.read(self._store)

    def time_counts(self, bins: int = 60) -> TimeCounts | None:
        """How many memories there were when, in equal stretches of time; None where none has a time.

        Args:
            bins: how many stretches, at most 10,000.

        Raises:
            InvalidInput: of the argument.
        """
        bins = check_count("bins", bins, MOST_BINS)
        with self._lock.shared():
            times = self._store.database.times
            found, kind = (None, None) if times is None else (times.counts(bins), times.kind())
            return None if found is None or kind is None else TimeCounts(kind, found[0], found[1], tuple(found[2]))

    def project(self, limit: int = 100_000, method: Method = "pca", *, by: str | None = None) -> Projection:
        """The memories as points of a plane, to be drawn.

        Args:
            limit: how many memories at most; of more, so many are taken evenly in the order of adding.
            by: a metadata key, whose values come with the points.
            method: "pca", or "umap" where the package ``umap-learn`` is installed, of at most 20,000.

        Raises:
            InvalidInput: of the arguments.
            MissingExtra: "umap" without its package.
        """
        limit = check_count("limit", limit)
        with self._lock.shared():
            return project(self._store.view(), limit, method, by)

    def explore(
        self, port: int = 0, *, browser: bool = True, write: bool = False, wait: bool | None = None
    ) -> Explorer:
        """Opens a local page that shows what the index has learnt; its address is printed.

        It answers this machine only, and only who has the token in the address. See docs/guides/explore.md.

        Args:
            port: 0 for a free one.
            browser: open the page in the browser.
            write: let the page store feedback.
            wait: return when it is closed, by Ctrl-C. None waits in a script, and not in a notebook or a prompt.

        Raises:
            InvalidInput: the port is taken.
            MissingExtra: without the extra ``explore``.
        """
        folder = self._store.folder

        def check() -> list[str]:
            assert folder is not None
            return repair.check(folder)

        whole = cast("Explorable", self)  # the other parts of the index have the rest
        source = Source(
            whole,
            writable=(lambda: nullcontext(whole)) if write else None,
            check=None if folder is None else check,
            texts=self._embedder is not None,
        )
        explorer = explore(source, port, browser)
        prompt = hasattr(sys, "ps1") or "IPython" in sys.modules
        if wait or (wait is None and not prompt):
            explorer.wait()
        return explorer
