"""The two levels a target is driven at, behind one pair of functions: make a tape, play a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staleloc.sim.choices import Choices
from staleloc.sim.drive import drive
from staleloc.sim.engine.drive import drive_engine
from staleloc.sim.engine.generate import Author, generate_engine
from staleloc.sim.generate import generate
from staleloc.sim.graphs.generate import GraphAuthor
from staleloc.sim.tape import Tape
from staleloc.sim.targets.base import Profile
from staleloc.sim.verdict import Verdict

__all__ = ["generate_tape", "play_tape"]

_AUTHORS: dict[tuple[str, ...], type[Author]] = {("graphs",): GraphAuthor}
"""Features -> who writes their tapes."""


def generate_tape(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape for a target with these profiles, which are all of one level."""
    if profiles[0].level == "engine":
        return generate_engine(choices, profiles, _AUTHORS)
    return generate(choices, profiles)


def play_tape(tape: Tape, target: Any, profile: Profile) -> Verdict:
    """Play a tape on a target (`Target` or `EngineTarget`, by the profile's level)."""
    return drive_engine(tape, target) if profile.level == "engine" else drive(tape, target, profile)
