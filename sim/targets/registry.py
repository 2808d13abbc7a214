"""Target names: `builtin`, `builtin:POLICY`, `sglang==VERSION`, `sglang@PATH`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from staleloc.sim.targets.base import Profile, Target, TargetError

__all__ = ["TargetSpec", "open_target", "parse", "select_profiles"]

Transform = Callable[[str, str], str]
"""``(module name, source) -> source``: how a mutant changes what is loaded."""


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
        from staleloc.sim.targets.builtin.target import BuiltinTarget

        known = sorted({name for profile in BuiltinTarget.profiles for name in profile.policies})
        if policy and policy not in known:
            raise TargetError(f"builtin has no policy {policy!r}; it has {', '.join(known)}")
        return TargetSpec(text, family, policy or None)
    if text.startswith(("sglang==", "sglang@")) and text not in ("sglang==", "sglang@"):
        return TargetSpec(text, "sglang")
    raise TargetError(
        f"unknown target {text!r}; use builtin, builtin:POLICY, sglang==VERSION or sglang@PATH (see: staleloc targets list)"
    )


def open_target(spec: TargetSpec, mutant: str | None = None) -> Target:
    """Load a target into this process. SGLang is foreign code: only worker processes do this.

    Raises:
        TargetError: it cannot be loaded.
    """
    change = _mutant(mutant, spec)
    if spec.family == "builtin":
        from staleloc.sim.targets.builtin.target import BuiltinTarget

        return BuiltinTarget() if change is None else load_mutant(change)
    from staleloc.sim.targets.sglang import fetch, target

    return target.load(fetch.resolve(spec.text), None if change is None else change.transform)


def _mutant(name: str | None, spec: TargetSpec) -> Mutant | None:
    if name is None:
        return None
    from staleloc.sim.mutants import find

    return find(name, spec.family)


def select_profiles(profiles: Sequence[Profile], spec: TargetSpec, mutant: str | None = None) -> list[Profile]:
    """The profiles to draw from: the policy asked for, and of a mutant only those in which its code runs.

    Raises:
        TargetError: none is left.
    """
    change = _mutant(mutant, spec)
    chosen = []
    for profile in profiles:
        policies = [policy for policy in profile.policies if spec.policy in (None, policy)]
        if change is not None:
            fits = change.pool in (None, profile.pool)
            policies = [policy for policy in policies if fits and (not change.policies or policy in change.policies)]
        if policies:
            chosen.append(replace(profile, policies=tuple(policies)))
    if not chosen:
        raise TargetError(f"mutant {mutant} changes code that {spec.text} never runs")
    return chosen
