"""The matrix as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from staleloc.sim.matrix.cells import LEGEND, Cell, cell_of, footnotes, short
from staleloc.sim.matrix.facts import VERDICTS, Matrix
from staleloc.sim.matrix.record import alarms
from staleloc.sim.matrix.text import heading, label, measured, quiet_rows, said_words
from staleloc.sim.scenarios import Scenario

__all__ = ["render"]


def render(matrix: Matrix, known: Sequence[Scenario]) -> str:
    """The page."""
    loader = PackageLoader("staleloc.sim.matrix", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html").render(
        measured=measured(matrix),
        heads=[heading(target) for target in matrix.releases],
        rows=[_row(matrix, scenario) for scenario in known],
        legend=list(LEGEND.items()),
        quiet=quiet_rows(matrix, known),
        footnotes=footnotes(matrix, known),
        alarms=alarms(matrix, tuple(known)),
    )


def _row(matrix: Matrix, scenario: Scenario) -> dict[str, Any]:
    source = (scenario.tape.provenance or {}).get("source")
    return {
        "label": label(scenario),
        "link": source if isinstance(source, str) and source.startswith("https://") else "",
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
        "blind": f"{cell.blind.tapes} tapes" if cell.blind is not None and cell.blind.tapes is not None else "",
    }


def _hits(cell: Cell) -> str:
    return f"found by {cell.blind.hits} of {cell.blind.hunts} hunts" if cell.blind is not None else ""
