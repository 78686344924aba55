"""Notebook views of hits, a fit report, an index and an imagination; hits as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pam_retriever.display.html import facts, line_chart, number, table, text_of
from pam_retriever.errors import MissingExtra
from pam_retriever.evaluation import Validation

if TYPE_CHECKING:
    import pandas


class _Hit(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def text(self) -> str | None: ...
    @property
    def similarity(self) -> float: ...
    @property
    def confidence(self) -> float | None: ...
    @property
    def evidence(self) -> Sequence[object] | None: ...
    @property
    def sources(self) -> Mapping[str, float] | None: ...


class _Hits(Protocol):
    def __iter__(self) -> Iterator[_Hit]: ...
    def __len__(self) -> int: ...
    def to_dicts(self) -> Sequence[Mapping[str, object]]: ...


class ShownHits:
    """The notebook view of ``Hits``."""

    __slots__ = ()

    def _repr_html_(self: _Hits) -> str:
        return table(
            ["", "score", "id", "text", "similarity", "confidence", "why"],
            ([str(at), *_cells(hit)] for at, hit in enumerate(self, 1)),
            f"{len(self)} hits",
        )

    def to_pandas(self: _Hits) -> pandas.DataFrame:
        """Returns the hits as a data frame: one row per hit, one column per attribute, the best first.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "notebooks", "to_pandas()") from error
        names = ["id", "score", "text", "metadata", "similarity"]
        rows = self.to_dicts()
        return pd.DataFrame(list(rows), columns=None if rows else names)


def _cells(hit: _Hit) -> list[str]:
    return [
        number(hit.score),
        text_of(hit.id, 60),
        text_of(hit.text),
        number(hit.similarity),
        "" if hit.confidence is None else f"{hit.confidence:.0%}",
        text_of(_why(hit)),
    ]


def _why(hit: _Hit) -> str:
    """A short reason: the number of meetings with the cue, and the strongest source."""
    words = []
    if hit.evidence is not None:
        words.append(f"experienced {len(hit.evidence)} times" if hit.evidence else "predicted")
    if hit.sources:
        words.append("mostly " + max(hit.sources.items(), key=lambda pair: pair[1])[0])
    return ", ".join(words)


class _Report(Protocol):
    @property
    def losses(self) -> tuple[float, ...]: ...
    @property
    def seconds(self) -> float: ...
    @property
    def device(self) -> str: ...
    @property
    def memories(self) -> int: ...
    @property
    def trajectories(self) -> int: ...
    @property
    def associations(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def stopped_by(self) -> str: ...
    @property
    def validation(self) -> Validation: ...


class ShownReport:
    """The notebook view of a ``FitReport``."""

    __slots__ = ()

    def _repr_html_(self: _Report) -> str:
        losses = self.losses
        learnt = facts(
            [
                ("memories", f"{self.memories:,}"),
                ("trajectories", f"{self.trajectories:,}"),
                ("associations", f"{self.associations:,}"),
                ("past requests", f"{self.requests:,}"),
                ("loss", f"{losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} passes" if losses else "no training"),
                ("time", f"{self.seconds:.1f} s on {self.device}, stopped by {self.stopped_by}"),
            ]
        )
        worths = sorted(self.validation.worths, key=lambda worth: (worth.kind, -worth.recall.mean))
        rows = (
            [text_of(worth.kind), text_of(worth.source), str(worth.recall), str(worth.questions)] for worth in worths
        )
        held = table(["question", "source", "R@10 [95 % interval]", "held out"], rows) if worths else ""
        return learnt + line_chart(losses, "mean loss of each pass") + held


class _Imagination(Protocol):
    @property
    def spread(self) -> float: ...
    @property
    def distance(self) -> float: ...
    @property
    def nearest(self) -> Sequence[_Hit]: ...


class ShownImagination:
    """The notebook view of an ``Imagination``."""

    def _repr_html_(self: _Imagination) -> str:
        where = facts([("spread", number(self.spread)), ("to the nearest memory", number(self.distance))])
        rows = ([number(hit.score), text_of(hit.id, 60), text_of(hit.text)] for hit in self.nearest)
        return where + table(["cosine", "id", "text"], rows, "the memories nearest to the imagined point")


class ShownIndex:
    """The notebook view of an index."""

    def _repr_html_(self) -> str:
        return f"<p>{text_of(repr(self), 1_000)}</p>"
