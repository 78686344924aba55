"""Notebook views of hits, a fit report, an index and an imagination; hits as a data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pam_retriever.display.html import facts, line_chart, number, table, text_of
from pam_retriever.errors import MissingExtra, counted

if TYPE_CHECKING:
    import pandas

    import pam_retriever as pam
    from pam_retriever.types import FitReport, Hit, Hits


class ShownHits:
    """The notebook view of ``Hits``."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        hits = cast("Hits", self)
        return table(
            ["", "score", "id", "text", "similarity", "confidence", "why"],
            ([str(at), *_cells(hit)] for at, hit in enumerate(hits, 1)),
            f"{counted(len(hits), 'hit')}",
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the hits as a data frame: one row per hit, one column per attribute, the best first.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "notebooks", "to_pandas()") from error
        names = ["id", "score", "text", "metadata", "similarity"]
        rows = cast("Hits", self).to_dicts()
        return pd.DataFrame(list(rows), columns=None if rows else names)


def _cells(hit: Hit) -> list[str]:
    return [
        number(hit.score),
        text_of(hit.id, 60),
        text_of(hit.text),
        number(hit.similarity),
        "" if hit.confidence is None else f"{hit.confidence:.0%}",
        text_of(_why(hit)),
    ]


def _why(hit: Hit) -> str:
    """Returns a short reason for a hit: the number of co-occurrences with the cue, and the strongest source."""
    words = []
    if hit.evidence is not None:
        times = len(hit.evidence) + hit.more_evidence
        words.append(f"experienced {counted(times, 'time')}" if times else "predicted")
    if hit.sources:
        words.append("mostly " + max(hit.sources.items(), key=lambda pair: pair[1])[0])
    return ", ".join(words)


def report_text(report: FitReport) -> str:
    """Returns a report as plain text."""
    losses = report.losses
    training = report.stopped_by
    if losses:
        training = (
            f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {counted(len(losses), 'pass')}, "
            f"{counted(report.steps, 'step')}, {report.seconds:.1f} s on {report.device} ({report.precision}), "
            f"{counted(report.parameters, 'parameter')}, stopped by {report.stopped_by}"
        )
    text = (
        f"FitReport({counted(report.memories, 'memory')}, {counted(report.trajectories, 'trajectory')}, "
        f"{counted(report.associations, 'association')}, coverage {report.coverage:.0%}: {training})"
    )
    if report.requests:
        text += f"\n{counted(report.requests, 'request')}"
    if report.requests or report.validation.worths:
        text += f"\n{report.validation!r}"
    return text


class ShownReport:
    """The notebook view of a ``FitReport``."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        report = cast("FitReport", self)
        losses = report.losses
        summary = facts(
            [
                ("memories", f"{report.memories:,}"),
                ("trajectories", f"{report.trajectories:,}"),
                ("associations", f"{report.associations:,}"),
                ("past requests", f"{report.requests:,}"),
                (
                    "loss",
                    f"{losses[0]:.3f} to {losses[-1]:.3f} in {counted(len(losses), 'pass')}"
                    if losses
                    else "no training",
                ),
                ("time", f"{report.seconds:.1f} s on {report.device}, stopped by {report.stopped_by}"),
            ]
        )
        worths = sorted(report.validation.worths, key=lambda worth: (worth.kind, -worth.recall.mean))
        rows = (
            [text_of(worth.kind), text_of(worth.source), str(worth.recall), str(worth.questions)] for worth in worths
        )
        held = table(["question", "source", "R@10 [95 % interval]", "held out"], rows) if worths else ""
        return summary + line_chart(losses, "mean loss of each pass") + held


class ShownImagination:
    """The notebook view of an ``Imagination``."""

    def _repr_html_(self) -> str:
        imagined = cast("pam.Imagination", self)
        where = facts([("spread", number(imagined.spread)), ("to the nearest memory", number(imagined.distance))])
        rows = ([number(hit.score), text_of(hit.id, 60), text_of(hit.text)] for hit in imagined.nearest)
        return where + table(["cosine", "id", "text"], rows, "the memories nearest to the imagined point")


class ShownIndex:
    """The notebook view of an index."""

    def _repr_html_(self) -> str:
        return f"<p>{text_of(repr(self), 1_000)}</p>"
