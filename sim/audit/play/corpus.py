"""Tapes that are played before any random one: those of the known incidents, and some that random ones rarely equal.

A tape of the second sort (``tapes/*.json``) is the shortest known that misses some guard of the embedded target, or of
a release, which random tapes take long to miss. They fit other targets as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from ...core.choices import seeded
from ...core.tape import Tape
from ...parts.generate import generate_tape
from ...parts.legality import find_violation
from ...run.replay import adapt
from ...tapes.codec import loads
from ...tapes.scenarios import scenarios
from ...targets.base import Profile

__all__ = ["known_tapes", "name_of", "tape_of"]


def known_tapes(profiles: Sequence[Profile], target: str) -> list[tuple[int, Tape]]:
    """Number and tape of those that a target can play, as it can. Numbers are negative; random tapes have others."""
    fitting = []
    for place, (_, tape) in enumerate(_all()):
        adapted, _ = adapt(tape, profiles)
        if find_violation(adapted, profiles, target)[0] is not None:
            fitting.append((-1 - place, adapted))
    return fitting


def tape_of(profiles: Sequence[Profile], seed: int, number: int) -> Tape:
    """A tape by its number: a known one, or the random one of this seed."""
    if number >= 0:
        return generate_tape(seeded(seed, number), profiles)
    return adapt(_all()[-1 - number][1], profiles)[0]


def name_of(number: int) -> str:
    """A tape by name, for people."""
    return f"tape {number}" if number >= 0 else f"known tape {_all()[-1 - number][0]}"


@cache
def _all() -> list[tuple[str, Tape]]:
    folder = files("staleloc.sim.audit.play").joinpath("tapes")
    own = sorted((it.name.removesuffix(".json"), it) for it in folder.iterdir() if it.name.endswith(".json"))
    return [
        *((scenario.name, scenario.tape) for scenario in scenarios()),
        *((name, loads(it.read_text(encoding="utf-8"))) for name, it in own),
    ]
