"""Inspection of an index: its contents, its last fit, and a map of its memories."""

from __future__ import annotations

import sys
from bisect import bisect_right
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, cast

from pam_retriever.display import ShownIndex
from pam_retriever.index.base import IndexBase
from pam_retriever.store import last_fit
from pam_retriever.types import FitReport
from pam_retriever.validation import check_count, check_flag

if TYPE_CHECKING:  # the server is loaded by ``explore`` alone
    from pam_retriever.explore import Explorer
    from pam_retriever.index import PredictiveAssociativeIndex
    from pam_retriever.retrieval.projection import Method, Projection

MOST_BINS = 10_000


@dataclass(frozen=True)
class Overview:
    """The contents of an index, in numbers.

    Attributes:
        memories: number of memories.
        dim: length of their vectors.
        experienced: number of memories in trajectories.
        trajectories: number of trajectories.
        requests: number of requests with feedback.
        fitted: whether there is a predictor.
        window: tau of the last fit.
        new_trajectories: number of trajectories that are new since the last fit, or grew since.
        backend: a description of the ANN index or the engine.
        location: a description of the place that stores the index.
        embedder: the name of the embedder that made the vectors of texts, or None.
    """

    memories: int
    dim: int
    experienced: int
    trajectories: int
    requests: int
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
    """The number of memories per interval of time.

    Attributes:
        kind: "dates", or "numbers" in the caller's unit.
        start, end: the first and the last time; for dates in seconds since 1970.
        counts: in equal intervals from ``start`` to ``end``.
    """

    kind: Literal["dates", "numbers"]
    start: float
    end: float
    counts: tuple[int, ...]

    def to_dict(self) -> dict[str, object]:
        """The attributes by name; JSON can hold them."""
        return asdict(self)


class Inspecting(ShownIndex, IndexBase):
    """The part of an index for inspection."""

    def overview(self) -> Overview:
        """Returns the numbers of memories, trajectories and requests, and the settings of the index."""
        with self._lock.shared():
            store = self._store
            database = store.database
            learned = store.learned_steps()
            numbers = database.trajectories.numbers()
            grown = sum(end > learned.grew[number] for number, end in learned.ends.items() if number <= learned.number)
            return Overview(
                len(database.memories),
                store.dim,
                store.links.memories,
                len(numbers),
                len(database.feedback),
                store.predictor is not None,
                store.window,
                len(numbers) - bisect_right(numbers, learned.number) + grown,
                f"{store.backend} ({store.similar.description})",
                store.location,
                store.embedder,
            )

    def last_fit(self) -> FitReport | None:
        """Returns the report of the last ``fit`` that learnt something, in any process; None before the first.

        Raises:
            IndexFormatError: the stored report is damaged.
        """
        with self._lock.shared():
            return last_fit.read(self._store)

    def time_counts(self, bins: int = 60) -> TimeCounts | None:
        """Returns the number of memories in equal intervals of time; None if no memory has a time.

        Args:
            bins: number of intervals, at most 10,000.

        Raises:
            InvalidInput: the argument is invalid.
        """
        bins = check_count("bins", bins, MOST_BINS)
        with self._lock.shared():
            times = self._store.database.times
            found, kind = times.counts(bins), times.kind()
            return None if found is None or kind is None else TimeCounts(kind, found[0], found[1], tuple(found[2]))

    def project(self, limit: int = 100_000, method: Method = "pca", *, by: str | None = None) -> Projection:
        """Returns the memories as points in the plane, for a plot.

        Args:
            limit: largest number of points. A larger index is sampled evenly, in the order of adding.
            by: a metadata key, or a path such as "user.name", whose values are returned with the points.
            method: "pca", or "umap" for at most 20,000 memories, which needs the package ``umap-learn``.

        Raises:
            InvalidInput: an argument is invalid.
            MissingExtra: the package of "umap" is not installed.
        """
        from pam_retriever.retrieval.projection import project

        limit = check_count("limit", limit)
        with self._lock.shared():
            return project(self._store.view(), limit, method, by)

    def explore(
        self, port: int = 0, *, browser: bool = True, write: bool = False, wait: bool | None = None
    ) -> Explorer:
        """Opens a local page that shows what the index has learnt, and prints its address.

        It accepts only requests from this machine with the token in the address. See docs/guides/explore.md.

        Args:
            port: 0 for a free one.
            browser: open the page in the browser.
            write: allow the page to store feedback.
            wait: return only after Ctrl-C has closed it. None waits in a script, but not in a notebook or a prompt.

        Returns:
            The page's server: ``address`` opens the page, ``close()`` ends it, ``wait()`` returns after Ctrl-C.

        Raises:
            InvalidInput: the port is taken.
            MissingExtra: the extra ``explore`` is not installed.
        """
        from pam_retriever.explore import Source, explore
        from pam_retriever.store.folder import repair

        check_flag("browser", browser)
        check_flag("write", write)
        if wait is not None:
            check_flag("wait", wait)
        len(self)  # an index that is closed, or was forked, raises here and not in each request of the page
        folder = self._store.folder

        def check() -> list[str]:
            assert folder is not None
            return repair.check(folder)

        whole = cast("PredictiveAssociativeIndex", self)  # the other mixins have the other methods
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
