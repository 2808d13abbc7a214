"""A tape out of choices, at either level and with any parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path

from ...models.config import LEVELS
from ..core.choices import Choices, seeded
from ..core.tape import Tape
from ..targets.base import Pins, Profile, Scope, TargetError
from ..targets.pins import refusal
from .allocator.generate import draw_config, generate
from .author import Authors, Events, TapeAuthor
from .engine.declared import with_declared
from .part import Axis
from .pins import draw_pinned
from .registry import parts_of_profile
from .server import with_settings

__all__ = ["author_of", "generate_tape", "scopes_of", "undrawable"]


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


def undrawable(target: str, scope: Scope, profiles: Sequence[Profile]) -> str | None:
    """Why tapes of a scope cannot have its pins on a target with these profiles, or None."""
    if not scope.pins:
        return None
    for profile in scope.of(profiles):
        choices = seeded(0, 0)
        draw = draw_config if profile.level != "engine" else author_of(profile).draw_config
        try:
            draw_pinned(profile, partial(draw, choices, profile))
        except TargetError as error:
            return str(error)
    return refusal(target, scope, profiles)


def scopes_of(profiles: Sequence[Profile], pins: Pins = ()) -> list[Scope]:
    """Each level and each combination of features that a target has, the simple ones first; with pins, those whose
    tapes can have them."""
    had = {(profile.level, profile.asks) for profile in profiles}
    ordered = sorted(had, key=lambda it: (LEVELS.index(it[0]), len(it[1]), it[1]))
    scopes = [Scope(level, asks, together=len(asks) > 1, pins=pins) for level, asks in ordered]
    return [scope for scope in scopes if undrawable("", scope, profiles) is None]


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
