"""The matrix as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..tapes.scenarios import Scenario
from ..targets.registry import released, short_name
from .cells import LEGEND, Cell, cell_of, footnotes, short
from .facts import VERDICTS, Matrix
from .notes import empty, otherwise, untold
from .record import alarms
from .rows import head, label, ordered, said_words
from .wording import (
    TAPE_NUMBERS,
    UNREPORTED,
    UNTOLD,
    measured,
    quiet_caption,
    quiet_rows,
)  # fmt: skip

__all__ = ["render"]


def render(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """The page."""
    family = released()
    loader = PackageLoader("staleloc.sim.matrix", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html").render(
        measured=f"{measured(matrix)} {UNREPORTED} {TAPE_NUMBERS}",
        engine=family.title,
        pull=family.pulls,
        heads=[short_name(target) for target in matrix.releases],
        rows=[_row(matrix, scenario) for scenario in ordered(known)],
        legend=list(LEGEND.items()),
        quiet=quiet_rows(matrix, known),
        quiet_caption=quiet_caption(matrix),
        footnotes=footnotes(matrix, known),
        otherwise=otherwise(matrix, known),
        alarms=alarms(matrix, tuple(known)),
        empty=empty(matrix, known),
        untold=untold(matrix),
        untold_caption=UNTOLD,
    )


def _row(matrix: Matrix, scenario: Scenario) -> dict[str, Any]:
    return {
        "head": head(scenario),
        "label": label(scenario),
        "family": scenario.family,
        "said": said_words(scenario.said),
        "incident": scenario.incident,
        "mechanism": scenario.mechanism,
        "cells": [_cell(cell_of(matrix, scenario, target)) for target in matrix.releases],
    }


def _cell(cell: Cell) -> dict[str, str]:
    if cell.replayed is None:
        return {"text": short(cell), "classes": "", "title": "not measured", "blind": ""}
    lines = [
        VERDICTS[cell.replayed.verdict],
        cell.replayed.what,
        _hits(cell),
        cell.differs.text if cell.differs else "",
    ]
    return {
        "text": short(cell),
        "classes": cell.replayed.verdict + (" differs" if cell.differs else ""),
        "title": ". ".join(filter(None, lines)),
        "blind": f"tape {cell.blind.tape}" if cell.blind is not None and cell.blind.tape is not None else "",
    }


def _hits(cell: Cell) -> str:
    return f"found by {cell.blind.hits} of {cell.blind.hunts} hunts" if cell.blind is not None else ""
