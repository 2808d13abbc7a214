"""Why nothing misses some guards of a target: what was found by reading, one sentence each, in ``known/*.json``.

What is said of one release is not believed of another: there the line may be gone that does the same. It is shown, with
the release that it is of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Literal

from ...targets.registry import parse
from ..guards.changes import Change

__all__ = ["Reason", "Reasons", "reasons_for"]

Sort = Literal["equivalent", "not driven", "gap"]
"""Nothing can tell the changed target from the right one; it takes something that no target here has; or a tape could
miss it, and none does yet."""


@dataclass(frozen=True)
class Reason:
    """One sentence on a guard, without a full stop."""

    sort: Sort
    why: str


class Reasons:
    """What is known of the guards of one target.

    Attributes:
        subject: what it was read on: a target or a family; ``""`` if nothing is known.
        is_its_own: whether that is the target itself, and not a relative of it.
        guards: a guard's name -> why nothing misses it.
        places: pattern for ``path:function`` -> why no tape comes there.
    """

    def __init__(self, subject: str, is_its_own: bool, entries: list[dict[str, str]]) -> None:
        self.subject = subject
        self.is_its_own = is_its_own
        self.guards = {it["guard"]: Reason(_sort(it), it["why"]) for it in entries if "guard" in it}
        self.places = {it["place"]: Reason(_sort(it), it["why"]) for it in entries if "place" in it}

    def of(self, change: Change, reached: bool) -> Reason | None:
        """What is known of a guard.

        Args:
            reached: whether tapes came to it; what is said of a place holds only if none did.
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


@cache
def reasons_for(target: str) -> Reasons:
    """What is known of a target by its name, or else of the newest release; nothing of changed copies of our own."""
    spec = parse(target)
    known, name = spec.family.audited, spec.family.name
    if spec.root is not None or not known:
        return Reasons("", True, [])
    return _read(target if target in known else known[-1], target in known or name in known)


def _read(subject: str, is_its_own: bool) -> Reasons:
    file = files("staleloc.sim.audit.report").joinpath("known", f"{subject.replace('==', '-')}.json")
    return Reasons(subject, is_its_own, json.loads(file.read_text(encoding="utf-8")))
