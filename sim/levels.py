"""The two levels a target is driven at, and the features in play, behind a pair of functions: make a tape, play it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staleloc.sim.choices import Choices
from staleloc.sim.disagg.drive import drive_disagg
from staleloc.sim.disagg.generate import generate_disagg
from staleloc.sim.drive import drive
from staleloc.sim.engine.drive import drive_engine
from staleloc.sim.engine.generate import Author, generate_engine
from staleloc.sim.generate import generate
from staleloc.sim.graphs.generate import GraphAuthor
from staleloc.sim.speculative.drive import drive_spec
from staleloc.sim.speculative.generate import generate_spec
from staleloc.sim.speculative.generate_graphs import SpecGraphAuthor
from staleloc.sim.tape import Tape
from staleloc.sim.targets.base import Profile
from staleloc.sim.verdict import Verdict

__all__ = ["generate_tape", "play_tape"]

_AUTHORS: dict[tuple[str, ...], type[Author]] = {("graphs",): GraphAuthor}
"""Features -> who writes their tapes."""


def generate_tape(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape for a target with these profiles, which are all of one level."""
    if profiles[0].level != "engine":
        return generate(choices, profiles)
    if any({"disagg", "spec"} & set(profile.features) for profile in profiles):
        profiles = [choices.pick(profiles)]
    if "disagg" in profiles[0].features:
        return generate_disagg(choices, profiles)
    if "spec" in profiles[0].features:
        return generate_spec(choices, profiles[0], SpecGraphAuthor if "graphs" in profiles[0].features else None)
    return generate_engine(choices, profiles, _AUTHORS)


def play_tape(tape: Tape, target: Any, profile: Profile) -> Verdict:
    """Play a tape on a target: `Target`, `EngineTarget`, `DisaggTarget` or `SpeculativeTarget`, by the profile's level
    and features."""
    if "disagg" in profile.features:
        return drive_disagg(tape, target)
    if "spec" in profile.features:
        return drive_spec(tape, target)
    return drive_engine(tape, target) if profile.level == "engine" else drive(tape, target, profile)
