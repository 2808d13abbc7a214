"""The two levels a target is driven at, and the features in play, behind a pair of functions: make a tape, play it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.choices import Choices
from ..core.tape import Tape
from ..core.verdict import Verdict
from ..targets.base import Profile
from .allocator.drive import drive
from .allocator.generate import generate
from .decode_node.drive import drive_disagg
from .decode_node.generate import generate_disagg
from .engine.drive import drive_engine
from .engine.generate import Author, generate_engine
from .graphs.generate import GraphAuthor
from .speculative.drive import drive_spec
from .speculative.generate import generate_spec
from .speculative.generate_graphs import SpecGraphAuthor

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
