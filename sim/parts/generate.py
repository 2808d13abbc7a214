"""A tape out of choices, at either level and with any parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.choices import Choices
from ..core.tape import Tape
from ..targets.base import Profile
from .allocator.generate import generate
from .engine.declared import with_declared
from .registry import author_of, possible_events

__all__ = ["generate_tape"]


def generate_tape(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape for a target with these profiles, which are all of one level."""
    if profiles[0].level != "engine":
        return generate(choices, profiles)
    return with_declared(choices, _of_requests(choices, profiles))


def _of_requests(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape of whole requests, written by the author of one profile's parts."""
    if any(author_of(profile).alone for profile in profiles):
        profiles = [choices.pick(profiles)]
    profile = author_of(profiles[0]).choose(choices, profiles)
    return author_of(profile).tape(choices, profile, possible_events(profile))
