"""Target names: `builtin`, `builtin:POLICY`, `builtin@FOLDER`, `sglang==VERSION`, `sglang@PATH`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ...models.config import FEATURES, LEVELS
from .base import Profile, Target, TargetError
from .mutants import MUTANTS
from .mutants.transform import Mutant, MutantError, Transform, load_builtin, load_changed
from .scope import Scope

__all__ = ["TargetSpec", "open_target", "parse", "prepare", "scope_of", "select_profiles"]


@dataclass(frozen=True)
class TargetSpec:
    """A target by name.

    Attributes:
        text: the name as the user gave it.
        family: ``"builtin"`` or ``"sglang"``.
        policy: the one policy asked for, or None for all.
        root: folder of a changed copy of the embedded target's sources, or None for its own.
    """

    text: str
    family: str
    policy: str | None = None
    root: Path | None = None


def parse(text: str) -> TargetSpec:
    """The target a name stands for.

    Raises:
        TargetError: no such kind of target.
    """
    family, _, policy = text.partition(":")
    if text == "builtin":
        return TargetSpec(text, family)
    if family == "builtin" and policy:
        return TargetSpec(text, family, _policy(policy))
    if text.startswith("builtin@") and text != "builtin@":
        return TargetSpec(text, "builtin", root=_copy(text))
    if text.startswith(("sglang==", "sglang@")) and text not in ("sglang==", "sglang@"):
        return TargetSpec(text, "sglang")
    forms = "builtin, builtin:POLICY, builtin@FOLDER, sglang==VERSION or sglang@PATH"
    raise TargetError(f"unknown target {text!r}; use {forms} (see: staleloc targets list)")


def _policy(name: str) -> str:
    # Only here: a command that plays in workers has no use for torch, which takes longer to load than all the rest.
    from .builtin import BuiltinEngine

    known = sorted({policy for profile in BuiltinEngine.profiles for policy in profile.policies})
    if name not in known:
        raise TargetError(f"builtin has no policy {name!r}; it has {', '.join(known)}")
    return name


def _copy(text: str) -> Path:
    root = Path(text.removeprefix("builtin@")).expanduser().absolute()
    if not (root / "swa.py").is_file() or not (root / "target.py").is_file():
        raise TargetError(
            f"{text}: that folder holds no copy of the embedded target's sources, its swa.py and the rest"
        )
    return root


def prepare(spec: TargetSpec) -> None:
    """Fetch what the target needs, so that workers find it; nothing of it is run.

    Raises:
        TargetError: it cannot be had.
    """
    if spec.family == "sglang":
        from .sglang import fetch

        fetch.resolve(spec.text)


def open_target(spec: TargetSpec, mutant: str | None = None) -> Target:
    """Load a target into this process. SGLang is foreign code: only worker processes do this.

    Raises:
        TargetError: it cannot be loaded.
    """
    change = _mutant(mutant, spec)
    try:
        if spec.root is not None:
            return _load_copy(spec, spec.root)
        if spec.family == "builtin":
            from .builtin import BuiltinEngine

            return load_builtin(change) if change is not None else BuiltinEngine()
        from .sglang import fetch, target

        transform = None if change is None else Transform(change)
        loaded = target.load(fetch.resolve(spec.text), transform)
        if transform is not None:
            transform.finish()
        return loaded
    except MutantError as error:
        raise TargetError(str(error)) from None


def _load_copy(spec: TargetSpec, root: Path) -> Target:
    try:
        target: Target = load_changed("copy", lambda module, source: source, root=root).BuiltinEngine()
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise TargetError(f"{spec.text} could not be loaded: {said}") from None
    target.name = spec.text
    return target


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


def scope_of(mutant: str | None, level: str | None, features: Sequence[str] = (), together: bool = False) -> Scope:
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
        return Scope(known.level, known.features, len(known.features) > 1)
    if ordered and level == LEVELS[0]:
        raise TargetError(f"--features go with --level engine; leave out --level {level}")
    return Scope(level or (LEVELS[-1] if ordered else LEVELS[0]), ordered, together and len(ordered) > 1)


def _mutant(name: str | None, spec: TargetSpec) -> Mutant | None:
    if name is None:
        return None
    if name not in MUTANTS:
        close = get_close_matches(name, MUTANTS, n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc mutants list"
        raise TargetError(f"there is no mutant {name!r}; {hint}")
    if spec.root is not None:
        raise TargetError(f"mutants are made of the embedded target's own sources, not of {spec.text}")
    if MUTANTS[name].target != spec.family:
        raise TargetError(f"mutant {name} is one of {MUTANTS[name].target}, not of {spec.family}")
    return MUTANTS[name]
