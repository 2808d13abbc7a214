"""Mutation: removes guards one at a time, in workers that play tapes without them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.divergence import Divergence
from ...run.messages import divergence_from_json
from ...run.process import START_SECONDS
from ...targets.base import Scope
from ..guards import Change
from ..source.program import Source
from .corpus import SCOPES
from .coverage import MAX_NEEDING, AuditBudget, Coverage
from .jobs import GRACE_SECONDS, run_jobs

__all__ = ["Proof", "prove"]

MAX_FRESH = 200
"""Rounds of new tapes, after those that reached the guard."""

COUNTED_FRESH = 40
"""The same if tapes are counted and not seconds."""

KNOWN_TAPES = 10
"""Tapes without a guard whose removal is known to be an equivalent mutant."""


@dataclass(frozen=True)
class Proof:
    """The result of removing a guard.

    Attributes:
        outcome: ``"killed"`` (a tape diverges), ``"otherwise"`` (without an invalidation a tape diverges, but serves no
            translation from before), ``"survived"``, ``"never needed"`` (no tape reached it, or read again what it
            dropped), ``"not made"`` (the source does not run without it, or its module is not loaded) or ``"failed"``.
        tapes: tapes that were played.
        seconds: processor time.
        events: kinds of the events of a tape that shows it.
        why: reason of a failure, or the end of its process, in one line.
    """

    outcome: str
    tapes: int = 0
    seconds: float = 0.0
    scope: Scope | None = None
    tape: int | None = None
    divergence: Divergence | None = None
    events: tuple[str, ...] = ()
    why: str = ""

    @classmethod
    def of(cls, account: dict[str, Any]) -> Proof:
        """Return the result of a worker's answer."""
        if "divergence" not in account:
            return cls(**account)
        scope, divergence = SCOPES[account["scope"]], divergence_from_json(account["divergence"])
        return cls(**{**account, "scope": scope, "divergence": divergence, "events": tuple(account["events"])})


def prove(
    target: str,
    changes: Sequence[Change],
    sources: dict[str, Source],
    reached: Coverage,
    budget: AuditBudget,
    known: Container[str] = (),
) -> list[Proof]:
    """Remove the guards one at a time, play the tapes that needed them and then new ones. Return results in the same
    order.

    Args:
        sources: path of a file -> its source.
        known: names of changes that are known to be equivalent mutants; few tapes are spent on them.

    Raises:
        TargetError: a worker was lost.
    """
    tried = [number for number, change in enumerate(changes) if _may_show(number, change, reached)]
    tried.sort(key=lambda number: (reached.needing[number][:1], number))  # the cheapest first
    fresh = MAX_FRESH if budget.rounds is None else COUNTED_FRESH
    shares = [tried[first :: budget.workers] for first in range(budget.workers)]
    jobs = [
        {
            "target": target,
            "seed": budget.seed,
            "seconds": budget.each if budget.rounds is None else None,
            "sources": {it.module: it.text for it in (sources[changes[number].spot.path] for number in share)},
            "changes": [
                _told(changes[number], sources, reached.needing[number], 0 if changes[number].name in known else fresh)
                for number in share
            ],
        }
        for share in shares
        if share
    ]
    limit = START_SECONDS + GRACE_SECONDS * len(tried)
    proofs = [Proof("never needed") for _ in changes]
    for share, accounts in zip(shares, run_jobs("staleloc.sim.audit.play.mutation_worker", jobs, limit), strict=False):
        for number, account in zip(share, accounts, strict=True):
            proofs[number] = Proof.of(account)
    return proofs


def _told(
    change: Change, sources: dict[str, Source], tapes: Sequence[tuple[int, int, int]], fresh: int
) -> dict[str, Any]:
    """Return a change as JSON values for the worker."""
    return {
        "module": sources[change.spot.path].module,
        "kind": change.kind,
        "line": change.line,
        "column": change.column,
        "old": change.old,
        "new": change.new,
        "tapes": tapes[: MAX_NEEDING if fresh else KNOWN_TAPES],
        "fresh": fresh,
    }


def _may_show(number: int, change: Change, reached: Coverage) -> bool:
    """Return whether a tape reached the guard or, for an invalidation, one of its sites was exposed to one of its
    caches. Otherwise new tapes cannot show anything."""
    exposed = any(reached.exposed[site][cache] for site in change.sites for cache in change.caches)
    return bool(reached.needing[number]) or exposed
