"""Packaged scenarios: tapes of reported incidents, and whether a finding looks like one of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.allocator.events import AllocExtendSwaTail, BeginForward
from .codec import TapeError, loads

__all__ = [
    "Said", "Scenario",
    "find_scenario", "lookalike", "plain", "same_paging", "same_shape", "same_words", "scenarios",
]  # fmt: skip

_NUMBER = re.compile(r"\d+")

_TOKENS = re.compile(r"\[(\.\.\. )?#(,? #)*\]")

_SAYS = "incident, mechanism, class, family, diverges and silent"

_FORWARDS = frozenset({"begin_forward", "end_forward"})


@dataclass(frozen=True)
class Said:
    """The releases that have a bug by the public record, not by measurement.

    Attributes:
        since: the first drivable release with the bug; None if the record does not say.
        fixed: the first release without it; None if none is known.
    """

    since: str | None
    fixed: str | None


@dataclass(frozen=True)
class Scenario:
    """A tape that shows a reported incident.

    Attributes:
        name: the file's name without its suffix.
        incident: the public reports, for people.
        mechanism: the cause, in a sentence or two.
        kind: the divergence's class.
        diverges: targets on which the tape diverges.
        silent: targets on which it must not.
        shows: the divergence's messages there, with # for numbers; empty if they are not recorded.
        family: the kind of bug, in two or three words.
        said: the public record of releases; None if there is no record of the bug.
        also: other classes as which the same bug shows, with the same kinds of events.
        remark: version -> why the result there differs from the record.
    """

    name: str
    tape: Tape
    incident: str
    mechanism: str
    kind: str
    diverges: Sequence[str]
    silent: Sequence[str]
    shows: Sequence[str] = ()
    family: str = ""
    said: Said | None = None
    also: Sequence[str] = ()
    remark: Mapping[str, str] = field(default_factory=dict, hash=False)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Every packaged scenario, by name."""
    entries = [entry for entry in files("staleloc.scenarios").iterdir() if entry.name.endswith(".json")]
    return tuple(
        _read(entry.name.removesuffix(".json"), loads(entry.read_text(encoding="utf-8"), entry.name))
        for entry in sorted(entries, key=lambda entry: entry.name)
    )


def _read(name: str, tape: Tape) -> Scenario:
    known = dict(tape.provenance or {})
    try:
        incident, mechanism, kind = (str(known[key]) for key in ("incident", "mechanism", "class"))
        diverges, silent = (tuple(map(str, known[key])) for key in ("diverges", "silent"))  # type: ignore[call-overload]
        family = str(known["family"])
        said = Said(**known["said"]) if "said" in known else None  # type: ignore[arg-type]
    except (KeyError, TypeError):
        raise TapeError(f"scenario {name} does not say {_SAYS}, or not in the way of the others") from None
    shows = known.get("shows", [])
    ways = tuple(map(str, shows)) if isinstance(shows, list) else (str(shows),)
    also = tuple(map(str, known.get("also", ())))  # type: ignore[call-overload]
    remark = dict(known.get("remark", {}))  # type: ignore[call-overload]
    return Scenario(name, tape, incident, mechanism, kind, diverges, silent, ways, family, said, also, remark)


def find_scenario(name: str) -> Scenario | None:
    """The scenario of that name, with or without its suffix."""
    return next((it for it in scenarios() if it.name == name.removesuffix(".json")), None)


def lookalike(tape: Tape, divergence: Divergence, target: str = "") -> Scenario | None:
    """A scenario that diverges in the same way with the same kinds of events, or with the same message on this target.

    A hint for people only: two bugs may look alike.
    """
    alike = [it for it in scenarios() if it.kind == divergence.kind and same_shape(it, tape)]
    alike += [it for it in scenarios() if same_words(it, divergence) and target in it.diverges]
    return next((it for it in alike if same_paging(it, tape)), next(iter(alike), None))


def same_shape(scenario: Scenario, tape: Tape) -> bool:
    """Whether a minimal tape has the same shape as the scenario's tape; see `_shape`."""
    return _shape(scenario.tape) == _shape(tape)


def same_words(scenario: Scenario, divergence: Divergence) -> bool:
    """Whether a divergence has the scenario's message, except for the numbers."""
    return plain(divergence.what) in map(plain, scenario.shows)


def same_paging(scenario: Scenario, tape: Tape) -> bool:
    """Whether pages hold more than one token in both tapes or in neither: much of the code differs otherwise."""
    return (scenario.tape.config.page_size > 1) == (tape.config.page_size > 1)


def plain(text: str) -> str:
    """A divergence's message without its numbers, which differ from tape to tape, and with its tokens as one."""
    return _TOKENS.sub("[#]", _NUMBER.sub("#", text))


def _shape(tape: Tape) -> tuple[object, ...]:
    """The common shape of tapes of one bug. At the allocator level: the kinds of their events, with all allocations
    alike and without forwards. With whole requests, where all tapes have the same kinds of events: their order too."""
    kinds = ["alloc" if event.kind.startswith("alloc") else event.kind for event in tape.events]
    if tape.config.level == "engine":
        return (tape.config.level, *kinds)
    tails = [event.tail for event in tape.events if isinstance(event, AllocExtendSwaTail) and event.tail < event.count]
    pool = tape.config.pool if "write_kv" in kinds else ""
    given = any(isinstance(event, BeginForward) and event.precomputed for event in tape.events)
    return tape.config.level, pool, given, frozenset(min(tail, 1) for tail in tails), frozenset(kinds) - _FORWARDS
