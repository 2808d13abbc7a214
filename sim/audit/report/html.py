"""The audit as one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .text import by_kind, killed_by
from .verdicts import Audit, Row, Tried

__all__ = ["render"]


def render(audit: Audit) -> str:
    """The page."""
    loader = PackageLoader("staleloc.sim.audit.report", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    return environment.get_template("page.html").render(
        audit=audit,
        levels=", ".join(str(it) for it in audit.reach.scopes),
        sites=[_site(row) for row in audit.rows],
        kinds=by_kind(audit),
        guards=[_guard(it) for it in audit.guards if it.proof.outcome != "never needed"],
        elsewhere=sum(it.proof.outcome == "never needed" for it in audit.guards),
    )


def _site(row: Row) -> dict[str, Any]:
    return {
        "row": row,
        "calls": ", ".join(f"{call} {count}" for call, count in row.calls),
        "killed": "" if row.shown_by is None else killed_by(row.shown_by),
    }


def _guard(tried: Tried) -> dict[str, str]:
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
