"""Pins as users write them, and why a target cannot have them.

``page_size=64,window=128,host=on`` gives fields of a config one value in every tape. `Pins` in
`staleloc.sim.targets.base` has their form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from ...models.config import EVICTION_POLICIES, FULL, SPEC_VERSIONS, SWA, TITLES, WRITE_POLICIES, Config
from .base import HOST, SIZES, Pins, Profile, Scope, shown_pins

__all__ = ["PinError", "PINNED", "no_scope", "ordered", "read_pins", "refusal"]


class PinError(ValueError):
    """A pin cannot be read; the message is one line that says what is allowed."""


_OPTIONS = {"level": "--level", "features": "--features", "checks": "--checks"}
"""Fields of a config that have an option of their own."""

_DRAWN = ("priorities", "switches")
"""Fields that are always drawn."""

PINNED: tuple[str, ...] = (*(it.name for it in fields(Config) if it.name not in (*_OPTIONS, *_DRAWN)), HOST)
"""What can be pinned, in the order in which pins are shown."""

_ALIASES = {
    "context": "context_len", "draft_tokens": "spec_draft_tokens", "steps": "spec_steps", "topk": "spec_topk",
    "tree": "decode_tree",
}  # fmt: skip
"""Shorter names for some of them."""

_WORDS: dict[str, tuple[str, ...]] = {
    "write_policy": WRITE_POLICIES,
    "spec_version": SPEC_VERSIONS,
    "eviction_policy": EVICTION_POLICIES,
}
"""Field -> the words that it takes on any target."""

_SWITCH = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}

_MOST = 1 << 20
"""The largest number that is read; the rules of a config are stricter."""

_TAKE_HOST = ("host_full_size", "host_swa_size")


def read_pins(text: str) -> Pins:
    """The pins of ``NAME=VALUE,...``.

    Raises:
        PinError: a name or a value is not known, or one name is given twice.
    """
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (it.strip() for it in part.partition("="))
        if not equals:
            raise PinError(f"{part.strip()!r} is not NAME=VALUE, as in page_size=64,window=128,host=on")
        name = _ALIASES.get(name, name)
        if name in _OPTIONS:
            raise PinError(f"{name} has an option of its own: {_OPTIONS[name]}")
        if name not in PINNED:
            close = get_close_matches(name, (*PINNED, *_ALIASES), n=1)
            hint = f"did you mean {close[0]}?" if close else f"fields are {', '.join(PINNED)}"
            raise PinError(f"a config has no field {name!r}; {hint}")
        if name in found:
            raise PinError(f"{name} is given twice; give it one value")
        found[name] = _value(name, value)
    return ordered(found)


def ordered(values: dict[str, Any]) -> Pins:
    """These values as pins, with the host tier that a write policy or host pools take.

    Raises:
        PinError: a host tier is refused and described at once.
    """
    host = [name for name in _TAKE_HOST if values.get(name)] + (["write_policy"] if "write_policy" in values else [])
    if host and values.get(HOST) is False:
        raise PinError(f"{host[0]} is a field of a host tier; leave out {HOST}=off or {host[0]}")
    if any(values.get(name) == 0 for name in _TAKE_HOST):
        raise PinError(f"a host tier has slots of both kinds; to have none, give {HOST}=off")
    if host:
        values = {**values, HOST: True}
    return tuple((name, values[name]) for name in PINNED if name in values)


_DEFAULTS = {it.name: it.default for it in fields(Config)}
_FEATURES = {it.name: it.metadata.get("feature") for it in fields(Config)}


def _value(name: str, text: str) -> Any:
    default = _DEFAULTS.get(name, False)
    if name == "layers":
        kinds = tuple(it.strip() for it in text.split("+"))
        if any(kind not in (FULL, SWA) for kind in kinds):
            raise PinError(f"layers is {FULL} and {SWA} joined by +, as in {FULL}+{SWA}+{SWA}, not {text!r}")
        return kinds
    if isinstance(default, bool):
        if text.lower() not in _SWITCH:
            raise PinError(f"{name} is on or off, not {text!r}")
        return _SWITCH[text.lower()]
    if isinstance(default, int):
        if not (text.isascii() and text.isdigit()) or int(text[:9]) > _MOST:
            raise PinError(f"{name} is a whole number up to {_MOST}, not {text!r}")
        return int(text)
    word = text.replace("-", "_") if name == "write_policy" else text
    if word not in _WORDS.get(name, (word,)):
        raise PinError(f"{name} is one of {', '.join(_WORDS[name])}, not {text!r}")
    return word


def refusal(target: str, scope: Scope, profiles: Iterable[Profile]) -> str | None:
    """Why no tape of a scope can have its pins on a target, with what is allowed instead; None if some can."""
    known = list(profiles)
    selected = scope.selected(known)
    if scope.of(known) or not selected:
        return None
    where = str(Scope(scope.level, scope.features, scope.together))
    for name, value in scope.pins:
        if not any(profile.pinned_to(((name, value),)) for profile in selected):
            return f"{target} at {where} has no {shown_pins(((name, value),))}: {_allowed(name, selected)}"
    return f"{target} at {where} has no {shown_pins(scope.pins)} together; {_conflict(scope.pins)}"


def no_scope(target: str, pins: Pins, profiles: Iterable[Profile]) -> str:
    """That no level and no combination of features of a target can have these pins, with what is allowed instead."""
    known = list(profiles)
    for name, value in pins:
        if not any(profile.pinned_to(((name, value),)) for profile in known):
            return f"{target} has no {shown_pins(((name, value),))}: {_allowed(name, known)}"
    return f"no level and no features of {target} have {shown_pins(pins)} together; {_conflict(pins)}"


def _conflict(pins: Pins) -> str:
    """What keeps pins apart that a target has one by one, as far as it is known."""
    values = dict(pins)
    size = values.get("page_size", 1)
    odd = [name for name, value in pins if name in SIZES and value % size]
    return f"{odd[0]} must be a multiple of page_size {size}" if odd else "leave out one of them"


def _allowed(name: str, profiles: Sequence[Profile]) -> str:
    """What a target takes in place of a pinned value that it does not take."""
    levels = {profile.level for profile in profiles}
    feature = _FEATURES.get(name)
    if feature is not None and not any(feature in profile.features for profile in profiles):
        return f"it is a field of {TITLES[feature]}; add --features {feature}"
    ways: dict[str, list[Any]] = {
        "pool": [profile.pool for profile in profiles],
        "policy": [policy for profile in profiles for policy in profile.policies],
        "page_size": sorted({size for profile in profiles for size in profile.all_pages}),
        "dtype": [dtype for profile in profiles for dtype in profile.dtypes],
        "spec_version": [version for profile in profiles for version in profile.spec_versions],
        "layers": ["swa layers only"],
    }
    if name in ways:
        return f"it is one of {', '.join(map(str, dict.fromkeys(ways[name])))}"
    if levels == {"allocator"}:
        return "it is a field of whole requests; add --level engine"
    if name == HOST:
        return "it is off here" if not any(it.host for it in profiles) else "it is on here, as --features asks for it"
    if name == "decode_tree":
        return "it is off here" if not any(it.decode_tree for it in profiles) else "it is on here, for its host tier"
    return "it must be a multiple of a page size, which is one of " + ", ".join(
        map(str, sorted({size for profile in profiles for size in profile.page_sizes}))
    )
