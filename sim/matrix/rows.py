"""Rows and columns of the table: in which order, and what stands at their heads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..tapes.scenarios import Said, Scenario
from ..targets.registry import short_name

__all__ = ["Head", "head", "label", "ordered", "ranges", "said_words"]

_NAME = re.compile(r"pr(\d+)-(.*)")

_LONG = 3
"""Releases from which on a row of them is said by its first and last."""


@dataclass(frozen=True)
class Head:
    """The head of a row in three parts.

    Attributes:
        before: what stands in front of the number.
        number: the public one; empty if there is none.
        after: what stands behind it.
    """

    before: str
    number: str
    after: str


def head(scenario: Scenario) -> Head:
    """The public number, whether the bug was reported, and what it is about.

    Where the record says nothing of releases, nobody reported the bug; a number is then the one that made it possible.
    """
    found = _NAME.fullmatch(scenario.name)
    number, name = (found[1], found[2]) if found else ("", scenario.name)
    about = f": {name.replace('-', ' ')}"
    if scenario.said is not None:
        return Head("", number, about if number else about.removeprefix(": "))
    return Head("since ", number, f", unreported{about}") if number else Head("", "", f"unreported{about}")


def label(scenario: Scenario) -> str:
    """The head of a row as plain text."""
    parts = head(scenario)
    return parts.before + parts.number + parts.after


def ordered(known: Sequence[Scenario]) -> list[Scenario]:
    """In the order given, but each behind the tapes that its text refers to."""
    placed: dict[str, Scenario] = {}
    for scenario in known:
        placed.update((it.name, it) for it in _behind(scenario, known, {scenario.name}) if it.name not in placed)
    return list(placed.values())


def _behind(scenario: Scenario, known: Sequence[Scenario], seen: set[str]) -> Iterator[Scenario]:
    """Whatever a text refers to, whatever those refer to, and the scenario itself."""
    for other in known:
        if other.name not in seen and re.search(rf"(?<![\w-]){re.escape(other.name)}(?![\w-])", scenario.mechanism):
            seen.add(other.name)
            yield from _behind(other, known, seen)
    yield scenario


def ranges(targets: Collection[str], releases: Sequence[str]) -> str:
    """Some of the releases in their order; of those in a row the first and the last."""
    parts = []
    for there, run in groupby(releases, lambda target: target in targets):
        names = [short_name(target) for target in run]
        if there:
            parts += [f"{names[0]} to {names[-1]}"] if len(names) >= _LONG else names
    return ", ".join(parts)


def said_words(said: Said | None) -> str:
    """What the public record says of releases."""
    if said is None:
        return "no public record"
    since = f"since {said.since}" if said.since is not None else "not said since when"
    return f"{since}, {f'fixed in {said.fixed}' if said.fixed is not None else 'no fix known'}"
