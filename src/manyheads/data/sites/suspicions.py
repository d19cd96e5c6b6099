"""Warnings of what may be a mistake in clean tables: missing values, identifiers, leaks, copies, units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyheads.data.sites.copies import copied_columns, copied_rows
from manyheads.data.sites.gaps import codes_told, gaps_told, hinted_codes
from manyheads.data.sites.leaks import leaking
from manyheads.data.sites.problems import Problem
from manyheads.data.sites.units import other_units

if TYPE_CHECKING:
    from manyheads.data.sites.survey import Survey

__all__ = ["suspicions"]


def suspicions(survey: Survey, identifying: list[str]) -> list[Problem]:
    """All of them; ``identifying`` are features that look like identifiers."""
    path, sites, label = survey.path, survey.sites, survey.label
    classes = survey.task == "classification"
    varying = [f for f in survey.features if f not in survey.constant]
    quantities = [f for f in varying if survey.kinds[f] == "number" and f not in identifying]
    numbers, texts = [*survey.numbers, *[label] * (not classes)], [*survey.categories, *[label] * classes]
    labels = [site.columns[label] for site in sites]
    if survey.task == "survival":
        telling = leaking(sites, varying, [y[:, 0] for y in labels], classes=False)
        telling += leaking(sites, varying, [y[:, 1] for y in labels], classes=True)
    else:
        telling = leaking(sites, varying, labels, classes)
    return [
        *codes_told(path, [site.codes for site in sites]),
        *gaps_told(path, sites, survey.features),
        *hinted_codes(path, sites, quantities),
        *(
            _doubt(path, f, "nearly every row has its own number: an identifier?")
            for f in identifying
            if f in survey.numbers
        ),
        *(_doubt(path, f, "tells the label almost by itself: was it known before the label?") for f in telling),
        *copied_rows(path, sites, numbers, texts),
        *copied_columns(path, sites, varying),
        *other_units(path, sites, quantities),
    ]


def _doubt(path: str, feature: str, message: str) -> Problem:
    return Problem("warning", path, message, f"if it is not a feature: --data.ignore {feature}", column=feature)
