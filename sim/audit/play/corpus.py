"""Tapes of the audit, by scope and number, and how one is played on a target.

Known tapes have negative numbers and are played before any random one. They are the tapes of the packaged scenarios and
those of ``tapes/*.json``: each of these is the shortest known tape that misses some guard of the embedded target, or of
a release, which random tapes take long to miss. They fit other targets as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ....models.config import FEATURES, LEVELS
from ...core.choices import seeded
from ...core.tape import Tape
from ...core.verdict import Verdict
from ...parts.drive import play_tape
from ...parts.generate import generate_tape
from ...parts.hooks import check_drawn, declared, fingerprint, watched
from ...parts.legality import find_violation, profile_of
from ...run.player import adapt
from ...tapes.codec import loads
from ...tapes.scenarios import scenarios
from ...targets.base import HOST, Profile
from ...targets.registry import parse, select_profiles
from ...targets.scope import Scope

__all__ = [
    "FRESH", "SCOPES", "known_tapes", "load_target", "name_of", "play_one",
    "profiles_by_scope", "random_tapes", "tape_of",
]  # fmt: skip

SCOPES = (
    *(Scope(level) for level in LEVELS),
    *(Scope(LEVELS[-1], names) for count in (1, 2) for names in itertools.combinations(FEATURES, count)),
    Scope(LEVELS[-1], ("disagg", HOST), together=True),
)
"""All scopes, in the order in which they are played. Elsewhere a scope is its number here."""

SHORT_TAPES = 8
"""Allocator-level tapes per round. Together they take about as long as one engine-level tape."""

FRESH = 1_000_000
"""Number of the first round that the coverage run does not play."""


def known_tapes(profiles: Sequence[Profile], target: str) -> list[tuple[int, Tape]]:
    """Return number and tape of each known tape that the target can play, adapted to it."""
    fitting = []
    for place, (_, tape) in enumerate(_all()):
        adapted, _ = adapt(tape, profiles)
        if find_violation(adapted, profiles, target)[0] is not None:
            fitting.append((-1 - place, adapted))
    return fitting


def tape_of(profiles: Sequence[Profile], seed: int, number: int) -> Tape:
    """Return a tape by its number: a known tape, or the random one of this seed."""
    if number >= 0:
        return generate_tape(seeded(seed, number), profiles)
    return adapt(_all()[-1 - number][1], profiles)[0]


def name_of(number: int) -> str:
    """Return the name of a tape for reports."""
    return f"tape {number}" if number >= 0 else f"known tape {_all()[-1 - number][0]}"


@cache
def _all() -> list[tuple[str, Tape]]:
    folder = files("staleloc.sim.audit.play").joinpath("tapes")
    own = sorted((it.name.removesuffix(".json"), it) for it in folder.iterdir() if it.name.endswith(".json"))
    return [
        *((scenario.name, scenario.tape) for scenario in scenarios()),
        *((name, loads(it.read_text(encoding="utf-8"))) for name, it in own),
    ]


def random_tapes(scopes: Iterable[int], rounds: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield ``(number of the scope, number of the tape)``. Each round visits every scope."""
    for number in rounds:
        for scope in scopes:
            if SCOPES[scope].level == LEVELS[0]:
                yield from ((scope, number * SHORT_TAPES + it) for it in range(SHORT_TAPES))
            else:
                yield scope, number


def load_target(name: str, transform: Callable[[str, str], str] | None) -> Any:
    """Load a target from rewritten sources."""
    spec = parse(name)
    return spec.family.load_audited(spec, transform)


def profiles_by_scope(target: Any, name: str) -> dict[int, list[Profile]]:
    """Return, for the number of each scope of the target, the profiles from which its tapes are drawn."""
    profiles = select_profiles(target.profiles, parse(name))
    had = {(it.level, it.asks) for it in profiles}
    return {number: it.of(profiles) for number, it in enumerate(SCOPES) if (it.level, it.features) in had}


def play_one(target: Any, seed: int, profiles: list[Profile], index: int) -> tuple[Tape, Verdict]:
    """Play a tape by its number and return it with its verdict.

    Raises:
        DeclaredError: the user's events file does not draw the same tape twice.
    """
    with watched():
        tape = tape_of(profiles, seed, index)
        if declared():
            check_drawn(tape_of(profiles, seed, index), fingerprint(tape))
    profile = profile_of(tape.config, profiles)
    assert profile is not None
    return tape, play_tape(tape, target, profile)
