"""The audit for machines: JSON, and SARIF 2.1.0 for code scanning."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ...findings.finding import our_version
from ...run.wire import divergence_to_json
from ..source.spots import Spot
from .verdicts import Audit, Row, Tried

__all__ = ["to_json", "to_sarif"]

FORMAT = 2
"""Version of the JSON."""

_RULES = {
    "unguarded": "A cached translation outlives this change of the mapping.",
    "unproven": "Nothing shows that no cached translation outlives this change of the mapping.",
}


def to_json(audit: Audit) -> dict[str, Any]:
    """Everything that was found and counted."""
    rows = {row.number: row for row in audit.rows}
    return {
        "format": FORMAT,
        "version": our_version(),
        "target": audit.target,
        "release": audit.release,
        "files": audit.found.files,
        "parsed": audit.found.parsed,
        "unread": [{"path": it.path, "reason": it.reason} for it in audit.found.unread],
        "tapes": audit.reach.tapes,
        "unexplained": dict(sorted(audit.unexplained.items())),
        "scopes": [{"level": it.level, "features": list(it.features)} for it in audit.reach.scopes],
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
        "needed": audit.reach.needed[number],
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
        "alive": audit.reach.alive[number],
        "exposed": {names[cache]: count for cache, count in sorted(audit.reach.exposed[number].items())},
        "served": {names[cache]: count for cache, count in sorted(audit.reach.served[number].items())},
        "verdict": row.verdict,
        "why": row.why,
        "divergences": [divergence_to_json(it.divergence) for it in row.diverged],
    }


def to_sarif(audit: Audit, prefix: str) -> dict[str, Any]:
    """A SARIF log with a result for each site that is not safe. Paths are relative to a repository, below `prefix`."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in _RULES.items()]
    results = [
        {
            "ruleId": row.verdict,
            "level": "error" if row.verdict == "unguarded" else "warning",
            "message": {"text": f"{row.site.spot.function} changes the mapping: {row.why}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(prefix + row.site.spot.path)},
                        "region": {"startLine": row.site.spot.line},
                    }
                }
            ],
        }
        for row in audit.rows
        if row.is_asked
    ]
    driver = {"name": "staleloc", "version": our_version(), "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
