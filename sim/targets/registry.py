"""Target names: `builtin`, `builtin:POLICY`, `sglang==VERSION`, `sglang@PATH`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from staleloc.models.config import FEATURES, LEVELS
from staleloc.sim.mutants import MUTANTS
from staleloc.sim.mutate import Mutant, MutantError, Transform, load_builtin
from staleloc.sim.scope import Scope
from staleloc.sim.targets.base import Profile, Target, TargetError

__all__ = ["TargetSpec", "open_target", "parse", "prepare", "scope_of", "select_profiles"]


@dataclass(frozen=True)
class TargetSpec:
    """A target by name.

    Attributes:
        text: the name as the user gave it.
        family: ``"builtin"`` or ``"sglang"``.
        policy: the one policy asked for, or None for all.
    """

    text: str
    family: str
    policy: str | None = None


def parse(text: str) -> TargetSpec:
    """The target a name stands for.

    Raises:
        TargetError: no such kind of target.
    """
    family, colon, policy = text.partition(":")
    if family == "builtin" and bool(policy) == bool(colon):
        from staleloc.sim.targets.builtin import BuiltinEngine

        known = sorted({name for profile in BuiltinEngine.profiles for name in profile.policies})
        if policy and policy not in known:
            raise TargetError(f"builtin has no policy {policy!r}; it has {', '.join(known)}")
        return TargetSpec(text, family, policy or None)
    if text.startswith(("sglang==", "sglang@")) and text not in ("sglang==", "sglang@"):
        return TargetSpec(text, "sglang")
    forms = "builtin, builtin:POLICY, sglang==VERSION or sglang@PATH"
    raise TargetError(f"unknown target {text!r}; use {forms} (see: staleloc targets list)")


def prepare(spec: TargetSpec) -> None:
    """Fetch what the target needs, so that workers find it; nothing of it is run.

    Raises:
        TargetError: it cannot be had.
    """
    if spec.family == "sglang":
        from staleloc.sim.targets.sglang import fetch

        fetch.resolve(spec.text)


def open_target(spec: TargetSpec, mutant: str | None = None) -> Target:
    """Load a target into this process. SGLang is foreign code: only worker processes do this.

    Raises:
        TargetError: it cannot be loaded.
    """
    change = _mutant(mutant, spec)
    try:
        if spec.family == "builtin":
            from staleloc.sim.targets.builtin import BuiltinEngine

            return load_builtin(change) if change is not None else BuiltinEngine()
        from staleloc.sim.targets.sglang import fetch, target

        transform = None if change is None else Transform(change)
        loaded = target.load(fetch.resolve(spec.text), transform)
        if transform is not None:
            transform.finish()
        return loaded
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


def scope_of(mutant: str | None, level: str | None, features: Sequence[str] = ()) -> Scope:
    """What to draw from: what was asked for, or else where the mutant shows. Features imply the engine level.

    Raises:
        TargetError: the mutant shows elsewhere than was asked for, or the features are not of this level.
    """
    ordered = tuple(name for name in FEATURES if name in features)
    known = MUTANTS.get(mutant or "")
    if known is not None:
        if level not in (None, known.level):
            raise TargetError(f"mutant {mutant} shows at the {known.level} level; leave out --level {level}")
        if ordered and known.features != ordered:
            shows = f"with --features {','.join(known.features)}" if known.features else "without features"
            raise TargetError(f"mutant {mutant} shows {shows}; leave out --features {','.join(ordered)}")
        return Scope(known.level, known.features)
    if ordered and level == LEVELS[0]:
        raise TargetError(f"--features go with --level engine; leave out --level {level}")
    return Scope(level or (LEVELS[-1] if ordered else LEVELS[0]), ordered)


def _mutant(name: str | None, spec: TargetSpec) -> Mutant | None:
    if name is None:
        return None
    if name not in MUTANTS:
        close = get_close_matches(name, MUTANTS, n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc mutants list"
        raise TargetError(f"there is no mutant {name!r}; {hint}")
    if MUTANTS[name].target != spec.family:
        raise TargetError(f"mutant {name} is one of {MUTANTS[name].target}, not of {spec.family}")
    return MUTANTS[name]
