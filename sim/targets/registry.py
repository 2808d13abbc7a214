"""The families of targets, and what is done with a target by its name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from ...models.config import LEVELS
from .base import ASKED, Pins, Profile, Scope, Target, TargetError, of_requests
from .embedded import Embedded
from .family import Family, TargetSpec
from .mutants import MUTANTS
from .mutants.transform import Mutant, MutantError

__all__ = [
    "add", "counterpart", "families", "family_of", "files_of", "is_shipped", "open_target", "parse", "prepare",
    "release_of", "released", "scope_of", "select_profiles", "short_name",
]  # fmt: skip

GROUP = "staleloc.targets"
"""Entry points of installed packages that hold a `Family` each."""


@cache
def families() -> tuple[Family, ...]:
    """The embedded target, the families of the folders here, and those of installed packages, both by name.

    Raises:
        TargetError: an installed one cannot be loaded.
    """
    found = [_installed(it) for it in sorted(entry_points(group=GROUP), key=lambda it: it.name)]
    return (Embedded(), *_in_folders(), *found)


def _in_folders() -> list[Family]:
    """The families that are defined in a module ``family`` of a folder."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/family.py"))
    modules = [import_module(f".{folder}.family", __package__) for folder in folders]
    return [
        it()
        for module in modules
        for it in vars(module).values()
        if isinstance(it, type) and issubclass(it, Family) and it.__module__ == module.__name__
    ]


def _installed(entry: EntryPoint) -> Family:
    try:
        family: Family = entry.load()()
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise TargetError(f"the targets of {entry.name} ({entry.value}) cannot be loaded: {said}") from None
    return family


def family_of(target: str) -> Family | None:
    """The family that a target's name begins with, or None."""
    found = (it for it in families() if target.startswith(it.name))
    return max(found, key=lambda it: len(it.name), default=None)


def parse(text: str) -> TargetSpec:
    """The target a name stands for.

    Raises:
        TargetError: no such kind of target.
    """
    family = family_of(text)
    spec = None if family is None else family.parse(text)
    if spec is not None:
        return spec
    *forms, last = (form for it in families() for form in it.forms)
    raise TargetError(f"unknown target {text!r}; use {', '.join(forms)} or {last} (see: staleloc targets list)")


def files_of(target: str) -> list[Path]:
    """The files, and folders of sources, that are read for a target; none for a name that is no target's.

    Raises:
        TargetError: it names a folder that cannot be found.
    """
    family = family_of(target)
    return [] if family is None else family.files(target)


def is_shipped(target: str) -> bool:
    """Whether a name stands for code that comes along, and for nothing that lies elsewhere or is fetched.

    This alone may be chosen by data, such as a tape's file.
    """
    return target == Embedded.name or target.startswith(f"{Embedded.name}:")


def prepare(target: str) -> None:
    """Fetch what a target needs, so that workers find it; nothing of it is run.

    Raises:
        TargetError: there is no such target, or it cannot be had.
    """
    spec = parse(target)
    spec.family.release(spec.text)


def release_of(target: str) -> str | None:
    """The engine's release, or None if it has none; fetched now if need be, so that workers need not.

    Raises:
        TargetError: it cannot be had.
    """
    family = family_of(target)
    return None if family is None else family.release(target)


def released() -> Family:
    """The family whose releases the matrix measures, and whose incidents the scenarios are."""
    return next(it for it in families() if it.releases)


def short_name(target: str) -> str:
    """A target's name; of a release its version alone."""
    family = family_of(target)
    return target if family is None else target.removeprefix(f"{family.name}==")


def counterpart(target: str, version: str | None) -> str:
    """The target whose public record holds for a target of this version too; see `Family.counterpart`."""
    family = family_of(target)
    return target if family is None else family.counterpart(target, version)


def add(target: str) -> str:
    """Fetch a target now, so that later runs need no network; what to tell of it.

    Raises:
        TargetError: it cannot be had, or need not be fetched.
    """
    family = family_of(target)
    if family is None or not family.releases:  # one that has releases says how they are named
        family = released()
    return family.add(target)


def open_target(spec: TargetSpec, mutant: str | None = None) -> Target:
    """Load a target into this process. Most are foreign code: only worker processes do this.

    Raises:
        TargetError: it cannot be loaded.
    """
    change = _mutant(mutant, spec)
    try:
        return spec.family.load(spec) if change is None else spec.family.load_mutant(spec, change)
    except MutantError as error:
        raise TargetError(str(error)) from None


def select_profiles(profiles: Sequence[Profile], spec: TargetSpec, mutant: str | None = None) -> list[Profile]:
    """The profiles to draw from: the policy asked for, and of a mutant only those in which its code runs.

    Raises:
        TargetError: none is left.
    """
    change = _mutant(mutant, spec)
    chosen = list(profiles) if change is None else list(change.profiles(profiles))
    if spec.policy is not None:
        chosen = [replace(p, policies=(spec.policy,)) for p in chosen if spec.policy in p.policies]
    if not chosen:
        raise TargetError(f"mutant {mutant} changes code that {spec.text} never runs")
    return chosen


def scope_of(
    mutant: str | None,
    level: str | None,
    features: Sequence[str] = (),
    together: bool = False,
    checks: Sequence[str] = (),
    pins: Pins = (),
) -> Scope:
    """What to draw from: what was asked for, or else where the mutant shows. Features, checks and pins of whole
    requests imply the engine level.

    Raises:
        TargetError: the mutant shows elsewhere than was asked for, or the features are not of this level.
    """
    ordered = tuple(name for name in ASKED if name in features)
    known = MUTANTS.get(mutant or "")
    if known is not None:
        if level not in (None, known.level):
            raise TargetError(f"mutant {mutant} shows at the {known.level} level; leave out --level {level}")
        if ordered and known.asks != ordered:
            shows = f"with --features {'+'.join(known.asks)}" if known.asks else "without features"
            raise TargetError(f"mutant {mutant} shows {shows}; leave out --features {','.join(ordered)}")
        if checks and known.level == LEVELS[0]:
            raise TargetError(
                f"mutant {mutant} shows at the {known.level} level; leave out --checks {','.join(checks)}"
            )
        return Scope(known.level, known.asks, len(known.asks) > 1, known.checks or tuple(checks), pins)
    if ordered and level == LEVELS[0]:
        raise TargetError(f"--features go with --level engine; leave out --level {level}")
    if checks and level == LEVELS[0]:
        raise TargetError(f"--checks go with --level engine; leave out --level {level}")
    implied = LEVELS[-1] if ordered or checks or of_requests(pins) else LEVELS[0]
    return Scope(level or implied, ordered, together and len(ordered) > 1, tuple(checks), pins)


def _mutant(name: str | None, spec: TargetSpec) -> Mutant | None:
    if name is None:
        return None
    if name not in MUTANTS:
        close = get_close_matches(name, MUTANTS, n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc mutants list"
        raise TargetError(f"there is no mutant {name!r}; {hint}")
    if spec.root is not None:
        raise TargetError(f"mutants are made of the embedded target's own sources, not of {spec.text}")
    if MUTANTS[name].target != spec.family.name:
        raise TargetError(f"mutant {name} is one of {MUTANTS[name].target}, not of {spec.family.name}")
    return MUTANTS[name]
