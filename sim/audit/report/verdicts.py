"""Verdicts on mutation sites, from the counts, the mutation results and what is known of guards.

``known/*.json`` holds the reason why no tape misses some guards, found by reading the source. A reason of one release
is not applied to another, where the line that makes it true may be missing. It is shown as a hint, with its release.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Literal

from ...targets.registry import parse
from ..guards import Change
from ..play.coverage import UNKNOWN_CACHE, Coverage, FailingTape
from ..play.mutation import Proof
from ..source.sites import Map, Site

__all__ = ["LEFT_ALONE", "Audit", "Reasons", "Row", "Standing", "Tried", "reasons_for", "rows_of", "tried"]

Sort = Literal["equivalent", "not driven", "gap"]
"""The change is an equivalent mutant; it needs something that no target here has; or a tape could miss the guard, and
none does yet."""


@dataclass(frozen=True)
class Reason:
    """One sentence on a guard, without a full stop."""

    sort: Sort
    why: str


class Reasons:
    """The reasons that are known for the guards of one target.

    Attributes:
        subject: the target or family whose source was read; ``""`` if nothing is known.
        is_its_own: whether that is the target itself, and not a relative of it.
        guards: name of a guard -> why no tape misses it.
        places: pattern for ``path:function`` -> why no tape reaches it.
    """

    def __init__(self, subject: str, is_its_own: bool, entries: list[dict[str, str]]) -> None:
        self.subject = subject
        self.is_its_own = is_its_own
        self.guards = {it["guard"]: Reason(_sort(it), it["why"]) for it in entries if "guard" in it}
        self.places = {it["place"]: Reason(_sort(it), it["why"]) for it in entries if "place" in it}

    def of(self, change: Change, reached: bool) -> Reason | None:
        """Return the reason for a guard.

        Args:
            reached: whether tapes reached it; the reason of a place holds only if none did.
        """
        named = self.guards.get(change.name)
        if named is not None or reached:
            return named
        place = f"{change.spot.path}:{change.spot.function}"
        return next((why for pattern, why in self.places.items() if fnmatchcase(place, pattern)), None)

    @property
    def unnoticeable(self) -> set[str]:
        """Names of guards on which few tapes need be spent."""
        if not self.is_its_own:
            return set()
        return {name for name, reason in self.guards.items() if reason.sort != "gap"}


def _sort(entry: dict[str, str]) -> Sort:
    sorts: dict[str, Sort] = {"equivalent": "equivalent", "not driven": "not driven", "gap": "gap"}
    return sorts[entry["is"]]


@functools.cache
def reasons_for(target: str) -> Reasons:
    """Return the reasons for a target by its name, or else those of the newest release; none for changed copies."""
    spec = parse(target)
    known, name = spec.family.audited, spec.family.name
    if spec.root is not None or not known:
        return Reasons("", True, [])
    return _read(target if target in known else known[-1], target in known or name in known)


def _read(subject: str, is_its_own: bool) -> Reasons:
    file = files("staleloc.sim.audit.report").joinpath("known", f"{subject.replace('==', '-')}.json")
    return Reasons(subject, is_its_own, json.loads(file.read_text(encoding="utf-8")))


Verdict = Literal["safe", "unguarded", "unproven"]

Standing = Literal["killed", "known", "not driven", "unnoticed", "untried"]
"""The status of a guard after its removal: a tape missed it; it is a known equivalent; it needs something that no
target here has; no tape missed it; or it was not tried, because no tape reached it or the source does not run without
it."""

LEFT_ALONE = "its invalidations were not selected"
"""Why a site is unproven that the user did not ask about."""


@dataclass(frozen=True)
class Tried:
    """A guard and the result of its removal.

    Attributes:
        reason: the known reason; only a hint if it is of another release.
    """

    change: Change
    proof: Proof
    reason: Reason | None
    stands: Standing

    @property
    def is_stale(self) -> bool:
        """Whether a tape has refuted the known reason."""
        return self.stands == "killed" and self.reason is not None


@dataclass(frozen=True)
class Row:
    """A mutation site and its verdict.

    Attributes:
        number: number of the site in the map.
        calls: calls of the target in which it was reached, the most frequent first.
        exposed: how often a cached translation was alive at the site and was read afterwards.
        served: how often that was still the translation from before.
        tried: guards that were removed: its invalidations, and guards of every kind in its function.
        killed: those of them that a tape missed.
        shown_by: of these the one with the shortest tape, invalidations first.
        why: the basis of the verdict, or what is missing, in one sentence.
        diverged: tapes that show an unguarded site, for each cache that served a stale translation.
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
    diverged: tuple[FailingTape, ...] = ()

    @property
    def is_asked(self) -> bool:
        """Whether to report the site: not if the user excluded its guards."""
        return self.verdict != "safe" and self.why != LEFT_ALONE

    @property
    def reached(self) -> int:
        """How often it was executed."""
        return sum(count for _, count in self.calls)


@dataclass(frozen=True)
class Audit:
    """The whole result of an audit of one target."""

    target: str
    release: str | None
    found: Map
    coverage: Coverage
    guards: tuple[Tried, ...]
    rows: tuple[Row, ...]

    @property
    def unexplained(self) -> Counter[str]:
        """Kind of event -> tapes that diverge there and that no site explains."""
        unguarded = {row.number for row in self.rows if row.diverged}
        tapes: Counter[str] = Counter()
        for way, count in self.coverage.failures.counts.items():
            if not any(site in unguarded for site, _ in way.blamed):
                tapes[way.asked] += count
        return tapes


def tried(changes: Sequence[Change], proofs: Sequence[Proof], reasons: Reasons) -> list[Tried]:
    """Return the guards with the results of their removal and their status."""
    guards = []
    for change, proof in zip(changes, proofs, strict=True):
        reason = reasons.of(change, proof.outcome in ("killed", "otherwise", "survived"))
        if reason is None or reasons.is_its_own:
            guards.append(Tried(change, proof, reason, _standing(proof, reason)))
        else:
            stands = _standing(proof, None)
            hint = Reason(reason.sort, f"known of {reasons.subject}: {reason.why}")
            guards.append(Tried(change, proof, None if stands == "killed" else hint, stands))
    return guards


def _standing(proof: Proof, reason: Reason | None) -> Standing:
    """Return the status of a guard from its result and the known reason."""
    if proof.outcome in ("killed", "otherwise"):
        return "killed"
    if reason is not None and reason.sort == "not driven":
        return "not driven"
    if proof.outcome == "survived":
        return "known" if reason is not None and reason.sort == "equivalent" else "unnoticed"
    return "untried"


def rows_of(found: Map, modules: dict[str, str], coverage: Coverage, guards: Sequence[Tried]) -> tuple[Row, ...]:
    """Return one row for each site that changes the mapping, in the order of files and lines.

    Args:
        modules: path of a file -> the name under which the target imports it.
    """
    return tuple(
        _row(number, found, modules, coverage, guards) for number, site in enumerate(found.sites) if site.changes
    )


def _row(number: int, found: Map, modules: dict[str, str], coverage: Coverage, guards: Sequence[Tried]) -> Row:
    site = found.sites[number]
    here = [it for it in guards if number in it.change.sites]
    mine = [it for it in here if it.stands == "killed" or it.proof.outcome == "survived"]
    drops = [it for it in here if it.change.kind == "invalidation"]
    diverged = _showing(number, coverage)
    verdict: Verdict = "unguarded"
    why = "a stale translation is served"
    if not diverged:
        missing = (
            _missing(number, site, modules, coverage, drops)
            or _doubted(number, found, coverage)
            or _slipped(number, found, coverage, drops)
        )
        verdict, why = ("unproven", missing) if missing else ("safe", _proof(found, drops))
    calls = coverage.reached.get(number)
    return Row(
        number,
        site,
        tuple(calls.most_common()) if calls else (),
        sum(coverage.exposed[number].values()),
        sum(coverage.served[number].values()),
        len(mine),
        sum(it.stands == "killed" for it in mine),
        verdict,
        why,
        _shortest(drops) or _shortest(mine),
        diverged,
    )


def _showing(number: int, coverage: Coverage) -> tuple[FailingTape, ...]:
    """Return the tape that diverges soonest, for each cache that served a translation from before the change of a site,
    and each kind of event that read it."""
    tapes: dict[tuple[int, str], FailingTape] = {}
    for it in coverage.failing_tapes:
        for site, cache in it.group.blamed:
            if site == number:
                tapes.setdefault((cache, it.group.asked), it)
    return tuple({id(it): it for it in tapes.values()}.values())


def _shortest(guards: Sequence[Tried]) -> Proof | None:
    """Return the result with the fewest events among the guards that a tape missed."""
    proofs = [it.proof for it in guards if it.proof.outcome == "killed" and it.proof.events]
    return min(proofs, key=lambda it: len(it.events), default=None)


def _proof(found: Map, drops: Sequence[Tried]) -> str:
    """Return the basis of the verdict "safe". Other caches than these were only watched."""
    caches = sorted({found.caches[number].name for it in drops for number in it.change.caches})
    killed = sum(it.stands == "killed" for it in drops)
    known = f", {len(drops) - killed} equivalent" if killed < len(drops) else ""
    without = f"without its invalidations of {', '.join(caches)} one does ({killed} killed{known})"
    return f"no tape shows a stale translation, and {without}"


_UNTRIED = {
    "never needed": "no tape requested the dropped translation again",
    "not made": "the statement cannot be removed, or does not run here",
    "failed": "the changed target could not be loaded",
}
"""Outcome of a removal that was not tried -> its meaning."""


def _missing(number: int, site: Site, modules: dict[str, str], coverage: Coverage, drops: Sequence[Tried]) -> str:
    """Return what a proof lacks; ``""`` if nothing."""
    if modules[site.spot.path] not in coverage.modules:
        return "its module is not run here"
    if number not in coverage.reached:
        return "no event reached it"
    if not coverage.exposed[number]:
        return "no live cached translation was requested again afterwards"
    if {it.change.spot for it in drops} != {it.spot for it in site.guards}:
        return LEFT_ALONE
    if not drops:
        return f"no invalidation on its way; none of {coverage.tapes} tapes shows a translation that outlived it"
    if site.open:
        return f"{site.open[0]} leads to it without an invalidation"
    for it in drops:
        name = f"{it.change.name} (line {it.change.line})"
        if it.proof.outcome == "otherwise":
            return f"{name}: without it tapes diverge, but none with a stale translation"
        if it.stands == "unnoticed":
            return f"{name}: survived {it.proof.tapes} tapes"
        if it.stands not in ("killed", "known"):
            return f"{name} was not tried: {it.proof.why or _UNTRIED.get(it.proof.outcome, it.stands)}"
    return ""


def _slipped(number: int, found: Map, coverage: Coverage, drops: Sequence[Tried]) -> str:
    """Return whether a translation got past the invalidations, which may be conditional. No tape shows that it was
    wrong."""
    for cache in sorted({cache for it in drops for cache in it.change.caches}):
        count = coverage.served[number][cache]
        if count:
            return (
                f"{found.caches[cache].name} was requested {count} times after it and still had the old "
                "translation, despite its invalidations; no tape shows that it was wrong"
            )
    return ""


def _doubted(number: int, found: Map, coverage: Coverage) -> str:
    """Return whether a site may be the reason why a tape diverges, if the cache or the event that made it stale is not
    known."""
    for it in coverage.failing_tapes:
        for site, cache in it.group.doubted:
            if site != number:
                continue
            if cache == UNKNOWN_CACHE and not it.group.stale:
                return f"{it.name} diverges ({it.group.kind}) in {it.group.asked}, which reaches it"
            if cache == UNKNOWN_CACHE:
                return (
                    f"{it.name} uses a translation from before {it.group.stale}, which reaches it; the cache of that "
                    "translation was not found in the source"
                )
            name = found.caches[cache].name
            return (
                f"{it.name} diverges ({it.group.kind}) after {name} served a translation from before it, which may be "
                "the cause"
            )
    return ""
