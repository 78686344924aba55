"""The report of the last ``fit``, stored with the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from pam_retriever.errors import IndexFormatError
from pam_retriever.evaluation import Interval, ReliabilityBin, Validation, Worth
from pam_retriever.store.base import Store
from pam_retriever.store.learnt import LAST_FIT
from pam_retriever.types import FitReport

OLD_NAMES = {"probation": "holdout"}  # setting names in reports of earlier versions


def keep(store: Store, report: FitReport, anything_new: bool) -> None:
    """Stores the report of a fit. If the fit had nothing new to train on, updates only the gain from past requests."""
    if not anything_new:
        before = read(store)
        if before is None and not report.requests:
            return
        if before is not None:
            if (before.requests, before.validation) == (report.requests, report.validation):
                return
            report = replace(before, requests=report.requests, validation=report.validation)
    store.set_setting(LAST_FIT, to_stored(report))


def read(store: Store) -> FitReport | None:
    """Returns the stored report with the current calibration; None if there is no report.

    Raises:
        IndexFormatError: the report is damaged.
    """
    try:
        stored = store.database.settings.get(LAST_FIT)
    except IndexFormatError as error:
        raise _unreadable(error.got) from error
    return None if stored is None else replace(from_stored(stored), calibration=store.calibration)


def to_stored(report: FitReport) -> dict[str, Any]:
    """Returns the report as JSON values, without the calibration, which the setting "model" contains."""
    names = [field.name for field in fields(report) if field.name not in ("calibration", "validation", "finished")]
    finished = None if report.finished is None else report.finished.isoformat()
    plain = {name: getattr(report, name) for name in names}
    return {**plain, "finished": finished, "validation": report.validation.to_dict()}


def from_stored(stored: object) -> FitReport:
    """Reads the output of ``to_stored``.

    Raises:
        IndexFormatError: ``stored`` is no output of ``to_stored``.
    """
    try:
        given: dict[str, Any] = dict(stored)  # type: ignore[call-overload]  # else a TypeError, as below
        finished, validation = given.pop("finished"), given.pop("validation")
        config = {OLD_NAMES.get(name, name): value for name, value in given.pop("config").items()}
        return FitReport(
            **{**given, "config": config, "losses": tuple(float(loss) for loss in given["losses"])},
            finished=None if finished is None else datetime.fromisoformat(finished),
            validation=Validation(tuple(_worth(worth) for worth in validation["worths"])),
        )
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error


def _unreadable(why: str) -> IndexFormatError:
    return IndexFormatError(
        f"The index has an invalid report of its last fit ({why.rstrip('.')}).",
        "the data that fit stored",
        "Call fit(from_scratch=True), or run pam-retriever repair on the folder.",
    )


def _worth(stored: Mapping[str, Any]) -> Worth:
    bins = tuple(ReliabilityBin(**one) for one in stored["reliability"])
    return Worth(**{**stored, "recall": Interval(**stored["recall"]), "reliability": bins})
