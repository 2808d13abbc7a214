"""The audit as text: one line a site, what is missing, and the caches."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import get_args

from ...findings.text import columns
from ..guards.guards import KINDS
from ..play.mutation import Proof
from .verdicts import LEFT_ALONE, Audit, Row, Standing, Tried

__all__ = ["by_kind", "for_github", "killed_by", "render"]

_WIDTH = 118

_SHOWN = 12
"""Caches that are listed."""

_EVENTS = 6
"""Events of a tape that are listed."""


def render(audit: Audit) -> str:
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
    lines += _guards(audit) + _others(audit) + _caches(audit)
    return "\n".join(lines).rstrip()


def _table(audit: Audit) -> list[str]:
    head = ("site", "", "kind", "reached", "exposed", "served", "guards", "verdict", "without one, killed by")
    return columns([head, *map(_cells, audit.rows)], indent="")


def _cells(row: Row) -> tuple[str, ...]:
    spot = row.site.spot
    guards = f"{row.killed} of {row.tried}" if row.tried else "none"
    counts = (str(row.reached), str(row.exposed), str(row.served))
    shown = "" if row.shown_by is None else killed_by(row.shown_by)
    verdict = "not asked" if row.why == LEFT_ALONE else row.verdict
    return (f"{spot.path}:{spot.line}", spot.function, row.site.kind, *counts, guards, verdict, shown)


def killed_by(proof: Proof) -> str:
    """The events of a tape that notices, and the time it took to find it."""
    more = len(proof.events) - _EVENTS
    events = ", ".join(proof.events[:_EVENTS]) + (f", {more} more" if more > 0 else "")
    return f"{events} ({proof.seconds:.1f} s)".lstrip()


def _why(audit: Audit) -> list[str]:
    lines = []
    for row in audit.rows:
        if row.is_asked:
            spot = row.site.spot
            lines += _wrapped(f"{spot.path}:{spot.line} {row.verdict}: {row.why}{_shown_by(audit, row)}")
    return [*lines, ""] if lines else []


def _shown_by(audit: Audit, row: Row) -> str:
    told = []
    for it in row.diverged:
        caches = sorted({audit.found.caches[cache].name for site, cache in it.way.blamed if site == row.number})
        told.append(f"by {', '.join(caches)} ({it.name})")
    return f" {', '.join(told)}" if told else ""


def by_kind(audit: Audit) -> list[tuple[str, ...]]:
    """A line for each kind of guard: how many were found, noticed, known to be noticed by nothing, not noticed, and not
    tried: no tape comes there, or the source does not run without it."""
    found = Counter(it.change.kind for it in audit.guards)
    counts = Counter((it.change.kind, it.stands) for it in audit.guards)
    return [
        (kind, str(found[kind]), *(str(counts[kind, stands]) for stands in get_args(Standing)))
        for kind in KINDS
        if found[kind]
    ]


def _guards(audit: Audit) -> list[str]:
    """What came of taking guards away."""
    if not audit.guards:
        return []
    head = ("guards, each taken away once", "found", *get_args(Standing))
    lines = columns([head, *by_kind(audit)], indent="")
    for it in audit.guards:
        told = _outcome(it)
        if told:
            lines += _wrapped(f"{it.change.spot.path}:{it.change.line} {it.change.name}: {told}")
    return [*lines, ""]


def _outcome(tried: Tried) -> str:
    """What to say of a guard: of an invalidation always, of others if nothing noticed, or against what is known."""
    proof, reason = tried.proof, tried.reason
    if tried.is_stale:
        return "said to be missed by nothing, and killed: the entry is stale"
    if tried.stands == "unnoticed":
        return f"unnoticed by {proof.tapes} tapes{f' ({reason.why})' if reason else ''}"
    if proof.outcome in ("not made", "failed") or (tried.stands == "untried" and tried.change.kind == "invalidation"):
        return f"{proof.outcome}{f': {proof.why}' if proof.why else ''}"
    if tried.change.kind != "invalidation":
        return ""
    if reason is not None and tried.stands in ("known", "not driven"):
        return f"{tried.stands}: {reason.why}"
    kind = proof.divergence.kind if proof.divergence else proof.why
    if proof.outcome == "otherwise":
        return f"killed by {kind}, and by no answer from before in {proof.tapes} tapes"
    return f"killed after {proof.tapes} tapes by {killed_by(proof)}: {kind}"


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
    tapes = audit.unexplained
    if tapes:
        told = ", ".join(f"{kind or 'the end'} {count}" for kind, count in sorted(tapes.items()))
        lines += _wrapped(
            f"{tapes.total()} more tapes diverge, and no site explains them: see staleloc fuzz (in {told})"
        )
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
        if row.is_asked:
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
