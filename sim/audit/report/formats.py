"""The audit as text, GitHub annotations, an HTML page, JSON, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...findings.annotations import Remark, sarif, workflow_command
from ...findings.finding import our_version
from ...findings.text import columns
from ...run.messages import divergence_to_json
from ..guards import KINDS
from ..play.mutation import Proof
from ..source.program import Spot
from .verdicts import LEFT_ALONE, Audit, Row, Standing, Tried

__all__ = ["to_github", "to_html", "to_json", "to_sarif", "to_text"]

_WIDTH = 118

_SHOWN = 12
"""Caches that are listed."""

_EVENTS = 6
"""Events of a tape that are listed."""


def to_text(audit: Audit) -> str:
    """Return the report for a terminal."""
    found, coverage = audit.found, audit.coverage
    lines = [
        f"{audit.target}: {len(audit.rows)} mutation sites, {len(found.caches)} caches of a translation "
        f"({found.parsed} of {found.files} files analysed)",
        *textwrap.wrap(f"{coverage.tapes} tapes at {', '.join(str(it) for it in coverage.scopes)}", _WIDTH),
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
    verdict = "not selected" if row.why == LEFT_ALONE else row.verdict
    return (f"{spot.path}:{spot.line}", spot.function, row.site.kind, *counts, guards, verdict, shown)


def killed_by(proof: Proof) -> str:
    """Return the events of a tape that misses the guard, and the time that it took to find it."""
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
        caches = sorted({audit.found.caches[cache].name for site, cache in it.group.blamed if site == row.number})
        told.append(f"by {', '.join(caches)} ({it.name})")
    return f" {', '.join(told)}" if told else ""


def by_kind(audit: Audit) -> list[tuple[str, ...]]:
    """Return a row for each kind of guard: its name, how many were found, and how many have each status."""
    found = Counter(it.change.kind for it in audit.guards)
    counts = Counter((it.change.kind, it.stands) for it in audit.guards)
    return [
        (kind, str(found[kind]), *(str(counts[kind, stands]) for stands in get_args(Standing)))
        for kind in KINDS
        if found[kind]
    ]


def _guards(audit: Audit) -> list[str]:
    """Return the lines on removed guards."""
    if not audit.guards:
        return []
    head = ("guards, each removed once", "found", *get_args(Standing))
    lines = columns([head, *by_kind(audit)], indent="")
    for it in audit.guards:
        told = _outcome(it)
        if told:
            lines += _wrapped(f"{it.change.spot.path}:{it.change.line} {it.change.name}: {told}")
    return [*lines, ""]


def _outcome(tried: Tried) -> str:
    """Return the text on a guard. Invalidations always have one; other guards only if no tape missed them, or against a
    known reason."""
    proof, reason = tried.proof, tried.reason
    if tried.is_stale:
        return "killed, although listed as equivalent: the entry is stale"
    if tried.stands == "unnoticed":
        return f"survived {_counted(proof.tapes)}{f' ({reason.why})' if reason else ''}"
    if proof.outcome in ("not made", "failed") or (tried.stands == "untried" and tried.change.kind == "invalidation"):
        return f"{proof.outcome}{f': {proof.why}' if proof.why else ''}"
    if tried.change.kind != "invalidation":
        return ""
    if reason is not None and tried.stands in ("known", "not driven"):
        return f"{tried.stands}: {reason.why}"
    kind = proof.divergence.kind if proof.divergence else proof.why
    if proof.outcome == "otherwise":
        return f"killed by {kind}, and by no stale translation in {_counted(proof.tapes)}"
    return f"killed after {_counted(proof.tapes)} by {killed_by(proof)}: {kind}"


def _counted(tapes: int) -> str:
    return f"{tapes} tape{'s' * (tapes != 1)}"


def _others(audit: Audit) -> list[str]:
    sites = audit.found.sites
    counts = [
        (sum(it.kind == "alias" for it in sites), "store it under another name"),
        (sum(it.kind == "hand-out" for it in sites), "pass it to other code"),
        (sum(it.detail == "its first" for it in sites), "create an object's initial mapping"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count)
    lines = _wrapped(f"other uses of the mapping: {said} (--json lists them)") if said else []
    for unread in audit.found.unread[:_SHOWN]:
        lines += _wrapped(f"not read: {unread.path}: {unread.reason}")
    tapes = audit.unexplained
    if tapes:
        told = ", ".join(f"{kind or 'the end'} {count}" for kind, count in sorted(tapes.items()))
        lines += _wrapped(f"{tapes.total()} more tapes diverge, which no site explains: see staleloc fuzz (in {told})")
    return [*lines, ""]


def _caches(audit: Audit) -> list[str]:
    shown = sorted(audit.found.caches, key=lambda it: (-len(it.dropped), it.name))
    rows = [
        (it.name, f"kept at {len(it.kept)}", f"dropped at {len(it.dropped)}", f"read at {len(it.read)} places")
        for it in shown[:_SHOWN]
    ]
    rest = [f"  and {len(shown) - _SHOWN} more (--json lists them)"] if len(shown) > _SHOWN else []
    return ["caches of a translation:", *columns(rows), *rest] if rows else []


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)


def to_github(audit: Audit, prefix: str) -> list[str]:
    """Return a line for each site that is not safe, in the form of workflow annotations.

    Args:
        prefix: path from the repository's root to the folder that the paths are relative to.
    """
    return [
        workflow_command(_remark(row, prefix, f"{_changes(row)}{_shown_by(audit, row)}"))
        for row in audit.rows
        if row.is_asked
    ]


def _remark(row: Row, prefix: str, message: str) -> Remark:
    level = "error" if row.verdict == "unguarded" else "warning"
    return Remark(row.verdict, level, message, prefix + row.site.spot.path, row.site.spot.line)


def _changes(row: Row) -> str:
    return f"{row.site.spot.function} changes the mapping: {row.why}"


def to_html(audit: Audit) -> str:
    """Return one HTML file without external resources."""
    loader = PackageLoader("staleloc.sim.audit.report", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html").render(
        audit=audit,
        levels=", ".join(str(it) for it in audit.coverage.scopes),
        sites=[_site_of_page(row) for row in audit.rows],
        kinds=by_kind(audit),
        guards=[_guard_of_page(it) for it in audit.guards if it.proof.outcome != "never needed"],
        elsewhere=sum(it.proof.outcome == "never needed" for it in audit.guards),
    )


def _site_of_page(row: Row) -> dict[str, Any]:
    return {
        "row": row,
        "calls": ", ".join(f"{call} {count}" for call, count in row.calls),
        "killed": "" if row.shown_by is None else killed_by(row.shown_by),
    }


def _guard_of_page(tried: Tried) -> dict[str, str]:
    change, proof = tried.change, tried.proof
    kind = proof.divergence.kind if proof.divergence is not None else proof.why
    known = tried.reason.why if tried.reason is not None else ""
    return {
        "where": f"{change.spot.path}:{change.line}",
        "kind": change.kind,
        "name": change.name,
        "outcome": proof.outcome if tried.stands == "untried" else tried.stands,
        "why": f"{kind}: {killed_by(proof)}" if tried.stands == "killed" else known or f"{proof.tapes} tapes",
    }


FORMAT = 2
"""Version of the JSON."""

_RULES = {
    "unguarded": "A cached translation outlives this change of the mapping.",
    "unproven": "Nothing shows that no cached translation outlives this change of the mapping.",
}


def to_json(audit: Audit) -> dict[str, Any]:
    """Return everything that was found and counted."""
    rows = {row.number: row for row in audit.rows}
    return {
        "format": FORMAT,
        "version": our_version(),
        "target": audit.target,
        "release": audit.release,
        "files": audit.found.files,
        "parsed": audit.found.parsed,
        "unread": [{"path": it.path, "reason": it.reason} for it in audit.found.unread],
        "tapes": audit.coverage.tapes,
        "unexplained": dict(sorted(audit.unexplained.items())),
        "scopes": [{"level": it.level, "features": list(it.features)} for it in audit.coverage.scopes],
        "sites": [_site(audit, number, rows.get(number)) for number in range(len(audit.found.sites))],
        "caches": [
            {
                "name": it.name,
                "kept": [_spot(spot) for spot in it.kept],
                "dropped": [_spot(spot) for spot in it.dropped],
                "asked": [_spot(spot) for spot in it.read],
            }
            for it in audit.found.caches
        ],
        "guards": [_guard(audit, number, it) for number, it in enumerate(audit.guards)],
    }


def _guard(audit: Audit, number: int, tried: Tried) -> dict[str, Any]:
    change, proof, reason = tried.change, tried.proof, tried.reason
    return {
        "kind": change.kind,
        "name": change.name,
        "spot": _spot(change.spot),
        "line": change.line,
        "old": change.old,
        "new": change.new,
        "sites": list(change.sites),
        "caches": [audit.found.caches[cache].name for cache in change.caches],
        "needed": audit.coverage.needed[number],
        "outcome": proof.outcome,
        "stands": tried.stands,
        "tapes": proof.tapes,
        "seconds": round(proof.seconds, 3),
        "events": list(proof.events),
        "divergence": None if proof.divergence is None else divergence_to_json(proof.divergence),
        "why": proof.why,
        "reason": None if reason is None else {"sort": reason.sort, "why": reason.why},
    }


def _spot(spot: Spot) -> dict[str, Any]:
    return {"path": spot.path, "line": spot.line, "function": spot.function, "text": spot.text}


def _site(audit: Audit, number: int, row: Row | None) -> dict[str, Any]:
    site = audit.found.sites[number]
    told: dict[str, Any] = {"number": number, "kind": site.kind, **_spot(site.spot), "detail": site.detail}
    if row is None:
        return told
    names = [it.name for it in audit.found.caches]
    return {
        **told,
        "open": list(site.open),
        "reached": dict(row.calls),
        "alive": audit.coverage.alive[number],
        "exposed": {names[cache]: count for cache, count in sorted(audit.coverage.exposed[number].items())},
        "served": {names[cache]: count for cache, count in sorted(audit.coverage.served[number].items())},
        "verdict": row.verdict,
        "why": row.why,
        "divergences": [divergence_to_json(it.divergence) for it in row.diverged],
    }


def to_sarif(audit: Audit, prefix: str) -> dict[str, Any]:
    """Return a SARIF log with a result for each site that is not safe. Paths are relative to a repository, below
    `prefix`."""
    return sarif(_RULES, [_remark(row, prefix, _changes(row)) for row in audit.rows if row.is_asked])
