"""Findings of one cause: which divergences one bug made, as far as this can be decided without reading the source.

One bug shows in many ways: after other events, in other pools, as other classes. What they have in common is the code
that made the state wrong (`Divergence.calls`), or how their minimal tapes look.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...models.config import LEVELS
from ..core.divergence import Divergence
from ..parts.allocator.events import AllocExtendSwaTail
from ..tapes.scenarios import plain
from ..targets.registry import family_of
from .finding import Finding

__all__ = ["Cause", "blamed", "same_cause", "same_place", "shape", "site"]

_PLACE = re.compile(r"(?P<file>\S+):(?P<line>\d+) (?P<function>\S+)")

_NUMBER = re.compile(r":\d+ ")

_NEAR = 3
"""Functions at the end of a call chain that are near its change."""

_RAISED = re.compile(r"^\S+ (raised \w+)")

_WRONG_FREE = frozenset({"alias", "double-free", "race", "use-after-free"})
"""Classes of one mistake: a slot was freed or handed out while somebody had it."""

_USES = frozenset({"read_kv", "translate", "write_kv"})
"""Events that use a translation."""

_LEAVES = frozenset({"abort", "finish"})
"""Events with which a request leaves."""

_SLOT_CHECKS = frozenset({"owners", "races"})
"""Checks that see that mistake."""


@dataclass(eq=False)
class Cause:
    """Findings of one cause.

    Attributes:
        findings: the distinct ones, in the order in which they were shrunk.
        tapes: tapes of the campaign that diverged in these ways.
        not_shrunk: how many further ways to diverge in the same place were seen, and not shrunk.
    """

    findings: list[Finding]
    tapes: int
    not_shrunk: int = 0

    @property
    def first(self) -> Finding:
        """The finding with the shortest tape."""
        return min(self.findings, key=lambda it: (len(it.tape.events), it.origin.index or 0))

    @property
    def place(self) -> str | None:
        """The place in the target's code that went wrong in the shortest tape, if it is known."""
        return site(self.first.divergence, self.first.origin.target)

    @property
    def signatures(self) -> set[tuple[object, ...]]:
        """The signatures of its findings."""
        return {finding.signature for finding in self.findings}

    @property
    def label(self) -> str:
        """The class of the first finding, and the function that went wrong if it is known."""
        found = self.findings[0]
        place = site(found.divergence, found.origin.target)
        return found.divergence.kind if place is None else f"{found.divergence.kind} in {place.rpartition(' ')[2]}"

    def join(self, other: Cause) -> None:
        """Take over another cause that turned out to be this one."""
        self.findings += other.findings
        self.tapes += other.tapes
        self.not_shrunk += other.not_shrunk


def same_cause(one: Finding, other: Finding) -> bool:
    """Whether two findings, on one target or on two versions of it, have the same cause.

    It is so if the same function made the state wrong in the same way, or if minimal tapes have the same shape, diverge
    in the same way and went wrong in functions near each other. Line numbers count only within one target.
    """
    if same_place(one.origin.target, one.divergence, other.divergence, one.origin.target == other.origin.target):
        return True
    a, b = one.divergence, other.divergence
    if one.tape.config.level != other.tape.config.level or _way(a) != _way(b) or a.during != b.during:
        return False
    alike = shape(one) == shape(other)
    if one.tape.config.level != LEVELS[1]:
        return alike
    if a.calls and b.calls:
        return alike and _near(one) & _near(other) != frozenset()
    return alike or (plain(a.what) == plain(b.what) and blamed(one) == blamed(other))


def same_place(target: str, a: Divergence, b: Divergence, lines: bool = True) -> bool:
    """Whether two divergences are certain to have the same cause, before anything is shrunk: the same function of the
    target went wrong in the same way, or at the same line."""
    one, other = site(a, target), site(b, target)
    if one is None or other is None or one.rpartition(" ")[2] != other.rpartition(" ")[2] or _file(one) != _file(other):
        return False
    if _way(a) == _way(b):
        return True
    # A line that lost something, or raised, may be the same for two bugs: what is missing there is not seen.
    return lines and one == other and not {"crash", "leak"} & {a.kind, b.kind}


def site(divergence: Divergence, target: str) -> str | None:
    """The place in the target's code that made the state wrong, as ``file:line function``: the innermost function that
    does not only carry out what its caller asks for. None if it is not known, or if a whole group of frees was carried
    out there."""
    calls = [call for call in divergence.calls if _PLACE.fullmatch(call)]
    if divergence.kind == "crash" and calls:
        return calls[-1]
    inner = _without_plumbing(calls, target)
    return inner[-1] if inner else None


def _without_plumbing(calls: Sequence[str], target: str) -> list[str]:
    family = family_of(target)
    plumbing = re.compile("|".join(family.plumbing if family is not None else ()) or r"(?!)")
    return [call for call in calls if not plumbing.search(_NUMBER.sub(" ", call))]


def _file(call: str) -> str:
    return call.partition(":")[0]


def _near(finding: Finding) -> frozenset[str]:
    """The functions that are near the place of a finding."""
    calls = [call for call in finding.divergence.calls if _PLACE.fullmatch(call)]
    inner = _without_plumbing(calls, finding.origin.target) or calls
    return frozenset(f"{_file(call)} {call.rpartition(' ')[2]}" for call in inner[-_NEAR:])


def _way(divergence: Divergence) -> tuple[str, ...]:
    """In which way a target went wrong."""
    if divergence.kind == "crash":
        raised = _RAISED.match(divergence.what)
        return "crash", plain(divergence.what if raised is None else divergence.what[raised.start(1) :])
    kind = "wrong free" if divergence.kind in _WRONG_FREE else divergence.kind
    check = "slots" if divergence.check in _SLOT_CHECKS else divergence.check
    return kind, check


def blamed(finding: Finding) -> str:
    """The kind of the event that made the state wrong: the one after which it showed, or the one that made a
    translation stale. Allocating methods are one kind; empty if it is not known."""
    divergence, events = finding.divergence, finding.tape.events
    event = divergence.stale_at if divergence.stale_at is not None else divergence.event
    return _kind(events[event].kind) if 0 <= event < len(events) else ""


def _kind(kind: str) -> str:
    if kind.startswith("alloc"):
        return "alloc"
    return "use" if kind in _USES else "leave" if kind in _LEAVES else kind


def shape(finding: Finding) -> tuple[object, ...]:
    """The shape of a minimal tape.

    With whole requests, the kinds of its events in order; an arrival may come at any time before its admission. At the
    allocator level, what is called on the way to the blamed call may be in any order. There the pool matters if its own
    code ran, and a tail if its allocation is blamed.
    """
    tape = finding.tape
    kinds = [_kind(event.kind) for event in tape.events]
    if tape.config.level == LEVELS[1]:
        return tuple(kind for kind in kinds if kind != "arrive")
    culprit = blamed(finding)
    tails = [event for event in tape.events if isinstance(event, AllocExtendSwaTail) and event.tail < event.count]
    pool = tape.config.pool if "use" in kinds else ""
    return culprit, pool, culprit == "alloc" and bool(tails), frozenset(kinds)
