"""The audit as text: one line a site, what is missing, and the caches."""

from __future__ import annotations

import textwrap

from staleloc.sim.audit.verdicts import Audit, Row, equivalents
from staleloc.sim.report import columns

__all__ = ["for_github", "render"]

_WIDTH = 118

_SHOWN = 12
"""Caches that are listed."""


def render(audit: Audit, family: str) -> str:
    """The report."""
    found, reach = audit.found, audit.reach
    lines = [
        f"{audit.target}: {len(audit.rows)} places change the mapping, {len(found.caches)} keep a translation "
        f"({found.parsed} of {found.files} files read closely)",
        *textwrap.wrap(f"{reach.tapes} tapes at {', '.join(str(it) for it in reach.scopes)}", _WIDTH),
        "",
        *_table(audit),
        "",
        *_why(audit),
    ]
    lines += _guards(audit, family) + _others(audit) + _caches(audit)
    return "\n".join(lines).rstrip()


def _table(audit: Audit) -> list[str]:
    head = ("site", "", "kind", "reached", "exposed", "served", "guards", "verdict")
    return columns([head, *map(_cells, audit.rows)], indent="")


def _cells(row: Row) -> tuple[str, ...]:
    spot = row.site.spot
    guards = f"{row.killed} of {row.tried}" if row.tried else "none"
    counts = (str(row.reached), str(row.exposed), str(row.served))
    return (f"{spot.path}:{spot.line}", spot.function, row.site.kind, *counts, guards, row.verdict)


def _why(audit: Audit) -> list[str]:
    lines = []
    for row in audit.rows:
        if row.verdict != "safe":
            spot = row.site.spot
            lines += _wrapped(f"{spot.path}:{spot.line} {row.verdict}: {row.why}{_shown_by(audit, row)}")
    return [*lines, ""] if lines else []


def _shown_by(audit: Audit, row: Row) -> str:
    if row.diverged is None:
        return ""
    caches = sorted({audit.found.caches[cache].name for (site, cache) in row.diverged.served if site == row.number})
    return f" by {', '.join(caches)} (tape {row.diverged.tape} at {row.diverged.scope})"


def _guards(audit: Audit, family: str) -> list[str]:
    """What came of taking guards away."""
    if not audit.changes:
        return []
    lines = ["guards, each taken away once:"]
    for change, proof in zip(audit.changes, audit.proofs, strict=True):
        why = equivalents().get((family, change.name))
        outcome = f"{proof.outcome} after {proof.tapes} tapes" if proof.tapes else proof.outcome
        if proof.divergence is not None:
            outcome = f"{outcome}, {proof.seconds:.1f} s: {proof.divergence.kind}"
        known = f"; known: {why}" if why and proof.outcome == "survived" else ""
        known = "; known as one that nothing can notice: the entry is stale" if why and proof.divergence else known
        lines += _wrapped(f"{change.spot.path}:{change.spot.line} {change.name}: {outcome}{known}")
    return [*lines, ""]


def _others(audit: Audit) -> list[str]:
    sites = audit.found.sites
    counts = [
        (sum(it.kind == "alias" for it in sites), "keep it under another name"),
        (sum(it.kind == "hand-out" for it in sites), "hand it to other code"),
        (sum(it.detail == "its first" for it in sites), "make an object's first"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count)
    lines = _wrapped(f"other places that have to do with the mapping: {said} (--json lists them)") if said else []
    for unread in audit.found.unread[:_SHOWN]:
        lines += _wrapped(f"not read: {unread.path}: {unread.reason}")
    if audit.unexplained:
        lines += _wrapped(f"{len(audit.unexplained)} more tapes diverge, and no site explains them: see staleloc fuzz")
    return [*lines, ""]


def _caches(audit: Audit) -> list[str]:
    shown = sorted(audit.found.caches, key=lambda it: (-len(it.dropped), it.name))
    rows = [
        (it.name, f"kept at {len(it.kept)}", f"dropped at {len(it.dropped)}", f"asked at {len(it.read)} places")
        for it in shown[:_SHOWN]
    ]
    rest = [f"  and {len(shown) - _SHOWN} more (--json lists them)"] if len(shown) > _SHOWN else []
    return ["caches of a translation:", *columns(rows), *rest] if rows else []


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def for_github(audit: Audit, prefix: str) -> list[str]:
    """A line for each site that is not safe, as GitHub takes them from a workflow's output.

    Args:
        prefix: from the repository's root to the folder that the paths are relative to.
    """
    lines = []
    for row in audit.rows:
        if row.verdict != "safe":
            level = "error" if row.verdict == "unguarded" else "warning"
            spot = row.site.spot
            message = f"{spot.function} changes the mapping: {row.why}{_shown_by(audit, row)}"
            where = f"file={_property(prefix + spot.path)},line={spot.line},title=staleloc: {row.verdict}"
            lines.append(f"::{level} {where}::{_escaped(message)}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
