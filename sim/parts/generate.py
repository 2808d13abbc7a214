"""A tape out of choices, at either level and with any parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from ..core.choices import Choices
from ..core.tape import Tape
from ..targets.base import Profile
from .allocator.generate import generate
from .author import Authors, Events, TapeAuthor
from .engine.declared import with_declared
from .part import Axis
from .registry import parts_of_profile
from .server import with_settings

__all__ = ["author_of", "generate_tape"]


def generate_tape(choices: Choices, profiles: Sequence[Profile], checks: tuple[str, ...] = ()) -> Tape:
    """A tape for a target with these profiles, which are all of one level, that asks for some `Config.checks`."""
    if profiles[0].level != "engine":
        return generate(choices, profiles)
    tape = with_declared(choices, _of_requests(choices, profiles))
    return replace(tape, config=replace(tape.config, checks=checks)) if checks else tape


def _of_requests(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape of whole requests, written by the author of one profile's parts."""
    if any(author_of(profile).alone for profile in profiles):
        profiles = [choices.pick(profiles)]
    profile = author_of(profiles[0]).choose(choices, profiles)
    return with_settings(
        choices.fork("settings"), author_of(profile).tape(choices, profile, _possible(profile)), profile
    )


def _possible(profile: Profile) -> Events:
    """The events that tapes for a target driven this way can have."""
    return tuple(event for part in parts_of_profile(profile) for event in part.events if event.kind in profile.events)


def author_of(profile: Profile) -> type[TapeAuthor]:
    """What writes tapes for a target driven this way."""
    axes = list(Axis)
    return _author(tuple(it.name for it in sorted(parts_of_profile(profile), key=lambda it: axes.index(it.axis))))


@cache
def _author(parts: tuple[str, ...]) -> type[TapeAuthor]:
    author = TapeAuthor
    for part in parts:
        author = _authors()[part](author) if part in _authors() else author
    return author


@cache
def _authors() -> Authors:
    """Who writes tapes of which part, from the folders of the parts."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/generate.py"))
    modules = [import_module(f".{folder}.generate", __package__) for folder in folders]
    return {part: author for module in modules for part, author in getattr(module, "AUTHORS", {}).items()}
