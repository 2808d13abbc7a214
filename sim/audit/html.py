"""The audit as one HTML file that needs nothing else."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from staleloc.sim.audit.changes import Change
from staleloc.sim.audit.prove import Proof
from staleloc.sim.audit.text import by_kind, killed_by
from staleloc.sim.audit.verdicts import Audit, Row, equivalents

__all__ = ["render"]


def render(audit: Audit) -> str:
    """The page."""
    loader = PackageLoader("staleloc.sim.audit", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    unnoticed = {id(change) for change, _ in audit.unnoticed}
    return environment.get_template("page.html").render(
        audit=audit,
        levels=", ".join(str(it) for it in audit.reach.scopes),
        sites=[_site(row) for row in audit.rows],
        kinds=by_kind(audit),
        guards=[
            _guard(audit, change, proof, id(change) in unnoticed)
            for change, proof in zip(audit.changes, audit.proofs, strict=True)
            if proof.outcome != "never needed"
        ],
        elsewhere=sum(proof.outcome == "never needed" for proof in audit.proofs),
    )


def _site(row: Row) -> dict[str, Any]:
    return {
        "row": row,
        "calls": ", ".join(f"{call} {count}" for call, count in row.calls),
        "killed": "" if row.shown_by is None else killed_by(row.shown_by),
    }


def _guard(audit: Audit, change: Change, proof: Proof, is_unnoticed: bool) -> dict[str, str]:
    outcome = "unnoticed" if is_unnoticed else "known" if proof.outcome == "survived" else proof.outcome
    known = equivalents().get((audit.family, change.name), "")
    kind = proof.divergence.kind if proof.divergence is not None else proof.why
    return {
        "where": f"{change.spot.path}:{change.line}",
        "kind": change.kind,
        "name": change.name,
        "outcome": outcome,
        "why": f"{kind}: {killed_by(proof)}" if proof.outcome == "killed" else known or f"{proof.tapes} tapes",
    }
