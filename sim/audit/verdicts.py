"""What the audit says of each mutation site, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from staleloc.sim.audit.changes import Change
from staleloc.sim.audit.prove import Proof
from staleloc.sim.audit.reach import Diverged, Reach
from staleloc.sim.audit.sites import Map, Site

__all__ = ["LEFT_ALONE", "Audit", "Row", "Standing", "Verdict", "equivalents", "rows_of", "standing"]

Verdict = Literal["safe", "unguarded", "unproven"]

Standing = Literal["killed", "known", "unnoticed", "untried"]
"""What became of a guard that was to be taken away: a tape missed it; none did, and it is known why; none did; or no
tape came to it, or the source does not run without it."""

LEFT_ALONE = "its invalidations were left alone"
"""Why a site is unproven that the user did not ask about."""


@dataclass(frozen=True)
class Row:
    """A mutation site and what is known of it.

    Attributes:
        number: of the site in the map.
        calls: calls of the target in which it was reached, the most frequent first.
        exposed: how often an answer was alive at the site and was asked for again afterwards.
        served: how often it was still the answer from before.
        tried: guards that were taken away: its invalidations, and guards of every kind in its function.
        killed: those of them that a tape noticed.
        shown_by: of these, of the invalidations first, the one that takes the fewest events.
        why: in one sentence, what the verdict rests on, or what is missing.
        diverged: the tape that shows it, if it is unguarded.
    """

    number: int
    site: Site
    calls: tuple[tuple[str, int], ...]
    exposed: int
    served: int
    tried: int
    killed: int
    verdict: Verdict
    why: str
    shown_by: Proof | None = None
    diverged: Diverged | None = None

    @property
    def is_asked(self) -> bool:
        """Whether it is one to tell of: not one whose guards the user wanted left alone."""
        return self.verdict != "safe" and self.why != LEFT_ALONE

    @property
    def reached(self) -> int:
        """How often it was executed."""
        return sum(count for _, count in self.calls)


@dataclass(frozen=True)
class Audit:
    """Everything the audit of one target came to."""

    target: str
    family: str
    release: str | None
    found: Map
    reach: Reach
    changes: tuple[Change, ...]
    proofs: tuple[Proof, ...]
    rows: tuple[Row, ...]

    @property
    def guards(self) -> list[tuple[Change, Proof, Standing]]:
        """Each guard, what came of taking it away, and what that says."""
        tried = zip(self.changes, self.proofs, strict=True)
        return [(change, proof, standing(self.family, change, proof)) for change, proof in tried]

    @property
    def unexplained(self) -> list[Diverged]:
        """Tapes on which target and model part, and no site is known to be why."""
        explained = {id(row.diverged) for row in self.rows}
        blamed = {number for row in self.rows if row.diverged is not None for number in [row.number]}
        return [
            it
            for it in self.reach.diverged
            if id(it) not in explained and not any(site in blamed for site, _ in _blamed(it))
        ]


@cache
def equivalents() -> dict[tuple[str, str], str]:
    """``(family of targets, change)`` -> why nothing can tell the changed target from the right one."""
    text = files("staleloc.sim.audit").joinpath("equivalents.json").read_text(encoding="utf-8")
    return {(it["target"], it["change"]): it["why"] for it in json.loads(text)}


def standing(family: str, change: Change, proof: Proof) -> Standing:
    """What the outcome says of a guard."""
    if proof.outcome == "killed":
        return "killed"
    if proof.outcome == "survived":
        return "known" if (family, change.name) in equivalents() else "unnoticed"
    return "untried"


def rows_of(
    family: str, found: Map, modules: dict[str, str], reach: Reach, changes: Sequence[Change], proofs: Sequence[Proof]
) -> tuple[Row, ...]:
    """One row a site that changes the mapping, in the order of files and lines.

    Args:
        modules: path of a file -> the name under which the target imports it.
    """
    tried = list(zip(changes, proofs, strict=True))
    return tuple(
        _row(family, number, found, modules, reach, tried) for number, site in enumerate(found.sites) if site.changes
    )


def _row(
    family: str,
    number: int,
    found: Map,
    modules: dict[str, str],
    reach: Reach,
    tried: Sequence[tuple[Change, Proof]],
) -> Row:
    site = found.sites[number]
    here = [(change, proof) for change, proof in tried if number in change.sites]
    mine = [(change, proof) for change, proof in here if standing(family, change, proof) != "untried"]
    drops = [(change, proof) for change, proof in here if change.kind == "invalidation"]
    diverged = next((it for it in reach.diverged if any(blamed == number for blamed, _ in _blamed(it))), None)
    verdict: Verdict = "unguarded"
    why = "an answer from before is served"
    if diverged is None:
        missing = _missing(family, number, site, modules, reach, drops)
        verdict, why = ("unproven", missing) if missing else ("safe", _proof(found, drops))
    calls = reach.reached.get(number)
    killed = [proof for _, proof in mine if proof.outcome == "killed"]
    return Row(
        number,
        site,
        tuple(calls.most_common()) if calls else (),
        sum(reach.exposed[number].values()) if number in reach.exposed else 0,
        sum(reach.served[number].values()) if number in reach.served else 0,
        len(mine),
        len(killed),
        verdict,
        why,
        _shortest(drops) or _shortest(mine),
        diverged,
    )


def _shortest(tried: Sequence[tuple[Change, Proof]]) -> Proof | None:
    """Of the guards that a tape missed the one that it takes the fewest events to miss."""
    proofs = [proof for _, proof in tried if proof.outcome == "killed" and proof.events]
    return min(proofs, key=lambda it: len(it.events), default=None)


def _proof(found: Map, drops: Sequence[tuple[Change, Proof]]) -> str:
    """What the verdict rests on. Other caches than these were watched, no more."""
    caches = sorted({found.caches[number].name for change, _ in drops for number in change.caches})
    killed = sum(proof.outcome == "killed" for _, proof in drops)
    known = f", {len(drops) - killed} known to be noticed by nothing" if killed < len(drops) else ""
    return f"no tape diverges, and without its invalidations of {', '.join(caches)} one does ({killed} killed{known})"


def _blamed(diverged: Diverged) -> list[tuple[int, int]]:
    """Sites, and caches, of which a divergence says that an answer outlived what they did."""
    return [key for key, calls in diverged.served.items() if diverged.stale and diverged.stale in calls]


_UNTRIED = {
    "never needed": "no tape asked again for what it dropped",
    "not made": "the statement cannot be taken away, or is not run here",
    "failed": "the changed target could not be loaded",
}
"""Outcome of taking a guard away -> what that says."""


def _missing(
    family: str,
    number: int,
    site: Site,
    modules: dict[str, str],
    reach: Reach,
    drops: Sequence[tuple[Change, Proof]],
) -> str:
    """What a proof lacks; nothing if it is one."""
    if modules[site.spot.path] not in reach.modules:
        return "its module is not run here"
    if number not in reach.reached:
        return "no event reached it"
    if number not in reach.exposed:
        return "no answer was alive that was asked for again afterwards"
    if {change.spot for change, _ in drops} != {it.spot for it in site.guards}:
        return LEFT_ALONE
    if not drops:
        return f"nothing on its way drops an answer; none of {reach.tapes} tapes shows one that outlived it"
    if site.open:
        return f"{site.open[0]} leads to it and drops nothing"
    for change, proof in drops:
        stands = standing(family, change, proof)
        if stands == "untried":
            return f"{change.name} (line {change.line}) was not tried: {proof.why or _UNTRIED[proof.outcome]}"
        if stands == "unnoticed":
            return f"{change.name} (line {change.line}): {proof.tapes} tapes did not notice"
    return ""
