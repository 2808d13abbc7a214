"""The text of a finding: the fact, its cause, the tape in steps, and the command that reproduces it.

Except for the seconds, the same finding has the same bytes on any machine and any number of workers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace

from ..core.divergence import LocRow
from ..core.tape import Tape
from ..parts.calls import shown
from ..tapes.scenarios import lookalike
from .explain import calling_order, config_words, fact, marks, sentence, steps
from .finding import Finding

__all__ = ["columns", "render"]

WIDTH = 118

UNSTEADY = (
    "Not reproducible: in a new process the same tape had another outcome. The target's translations depend on memory "
    "addresses or on earlier work of its process, as those of a cache keyed by address do."
)

_CHAIN_TO = {"crash": "to the exception", "hang": "that does not return"}

_HEADINGS = ("loc", "expected SWA", "actual SWA", "became stale at event", "last correct use")


def render(finding: Finding, saved: str | None = None, seconds: float | None = None, cause: str = "") -> str:
    """The report of one finding.

    Args:
        saved: path of the saved tape, if there is one.
        seconds: duration of the shrink; None prints no time.
        cause: what else shows the same cause, in a few words; empty if nothing is to be said.
    """
    origin, tape, divergence = finding.origin, finding.tape, finding.divergence
    where = f"{origin.target} with mutant {origin.mutant}" if origin.mutant else origin.target
    lines = [
        f"{divergence.kind} in {where}, {tape.config.pool} pool (check {divergence.check})",
        *_wrapped(fact(divergence)),
        "",
        *_source(finding, saved, seconds),
        *(_wrapped(cause) if cause else ()),
        f"  cache: {config_words(tape.config)}",
        "",
        *_tape_lines(tape, marks(divergence)),
    ]
    if divergence.state:
        lines += ["", *(f"  {line}" for line in divergence.state)]
    if any(row.actual is not None for row in divergence.rows):
        lines += ["", *_loc_table(divergence.rows, tape)]
    if divergence.calls:
        lines += ["", f"  Call chain {_CHAIN_TO.get(divergence.kind, 'at which the state became wrong')}:"]
        lines += [f"    {call}" for call in shown(divergence.calls)]
    if divergence.consequences:
        lines += [
            "",
            "  Consequences:",
            *(f"    {fact(replace(divergence, what=it))}" for it in divergence.consequences),
        ]
    why = sentence(divergence, tape)
    if why != fact(divergence):
        lines += ["", *_wrapped(f"Why: {why}.")]
    order = calling_order(divergence, tape)
    if order is not None:
        lines += _wrapped(f"Calling order: {order}")
    known = lookalike(tape, divergence, origin.recorded)
    if known is not None:
        fixed = origin.mutant is None and origin.recorded in known.silent
        silent = f" That scenario is silent on {origin.recorded}." if fixed else ""
        lines += _wrapped(f"Looks like scenario {known.name}: {known.incident}. {known.mechanism}{silent}")
    return "\n".join(lines) + "\n"


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Cells in aligned columns; the last column has any width."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append((indent + "  ".join([*cells, row[-1]])).rstrip())
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _source(finding: Finding, saved: str | None, seconds: float | None) -> list[str]:
    origin, shrunk = finding.origin, finding.shrunk
    drawn = f"seed {origin.seed}, tape {origin.index}; " if origin.seed is not None else ""
    lines = [f"  {drawn}run again: {origin.again}"]
    if saved is not None:
        lines.append(f"  saved as {saved}")
    if shrunk is not None:
        time = "" if seconds is None else f", {seconds:.1f} s"
        why = "the shrink was ended early" if shrunk.ended is not None else "no more candidates are tried"
        short = "" if shrunk.minimal else f"; not minimal: {why}"
        length = len(finding.tape.events)
        lines.append(f"  shrunk {shrunk.before} → {length} events ({shrunk.candidates} candidates{time}{short})")
    if finding.unsteady:
        lines += _wrapped(UNSTEADY)
    return lines


def _tape_lines(tape: Tape, named: dict[int, str]) -> list[str]:
    rows = []
    digits = len(str(len(tape.events)))
    for number, (event, words) in enumerate(zip(tape.events, steps(tape), strict=True)):
        mark = ">" if number in named else " "
        note = f"   ← {named[number]}" if named.get(number) else ""
        rows.append((f"{mark} {number + 1:>{digits}}", event.kind, words + note))
    return columns(rows)


def _loc_table(rows: Sequence[LocRow], tape: Tape) -> list[str]:
    def event(number: int | None) -> str:
        return "-" if number is None else f"{number + 1} {tape.events[number].kind}"

    cells = [
        (str(row.loc), str(row.expected), "-" if row.actual is None else str(row.actual), event(row.stale_at),
         event(row.last_correct))
        for row in rows
    ]  # fmt: skip
    return columns([_HEADINGS, *cells])
