"""The family of the embedded target: `builtin`, one policy of it, and changed copies of its sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ...models.config import Config
from ..core.text import message
from .base import Target, TargetError
from .family import Family, Rewrite, ScriptTarget, SourceTree, TargetSpec, user_path
from .mutants.transform import Mutant, Transform, builtin_root, load_builtin, load_changed

__all__ = ["Embedded"]

_PACKAGE = f"{__package__}.builtin."

_COPY = "copy"
"""Name of the package that is loaded from a user's folder."""

_AUDITED = "instrumented"
"""Name of the package's copy that an audit loads."""


class Embedded(Family):
    """See `Family`. Modules of the target are imported late: they load torch."""

    name = title = "builtin"
    forms = ("builtin", "builtin:POLICY", "builtin@FOLDER")
    audited = ("builtin",)
    plumbing = (r"/builtin/(slots|swa|pools|host_pool|tree_slots|device)\.py ", r"\.end_results$")

    def parse(self, text: str) -> TargetSpec | None:
        rest = text.removeprefix(self.name)
        mark, value = rest[:1], rest[1:]
        if not rest:
            return TargetSpec(text, self)
        if mark == ":" and value:
            return TargetSpec(text, self, _policy(value))
        return TargetSpec(text, self, root=_copy(text, value)) if mark == "@" and value else None

    def rows(self, policies: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
        return [
            (self.name, "the embedded implementation, all policies"),
            *((f"{self.name}:{policy}", "one policy of it") for policy in policies(self.name)),
            (f"{self.name}@FOLDER", "a changed copy of its sources"),
        ]

    def load(self, spec: TargetSpec, rewrite: Rewrite | None = None) -> Target:
        from .builtin import BuiltinEngine

        if rewrite is not None:
            return self.load_audited(spec, rewrite)
        return BuiltinEngine() if spec.root is None else _load_copy(spec, spec.root)

    def load_mutant(self, spec: TargetSpec, mutant: Mutant) -> Target:
        return load_builtin(mutant)

    def load_audited(self, spec: TargetSpec, rewrite: Rewrite | None) -> Target:
        target: Target = load_changed(_AUDITED, rewrite or _as_it_is, root=spec.root).BuiltinEngine()
        return target

    def sources(self, spec: TargetSpec) -> SourceTree:
        return SourceTree(spec.root or builtin_root(), "", None)

    def files(self, text: str) -> list[Path]:
        _, mark, folder = text.partition("@")
        return [user_path(folder)] if mark else []

    def code_file(self, spec: TargetSpec, tree: SourceTree, path: str) -> str:
        if spec.root is None:
            return super().code_file(spec, tree, path)
        return f"<{__package__}._{_COPY}.{path.removesuffix('.py')}>".replace(".__init__>", ">")

    def script(self, spec: TargetSpec, mutant: Mutant | None, config: Config, version: str) -> ScriptTarget:
        defect = "" if mutant is None else f" with mutant {mutant.name}"
        name, made = _made(config)
        return ScriptTarget(
            made_for=f"the builtin target of staleloc {version}{defect}"
            if spec.root is None
            else f"{spec.text}, staleloc {version}",
            run="Run it with torch installed:\n\n    python THIS_SCRIPT",
            roots=(f"{_PACKAGE}{name}",),
            imports=(f"from embedded.sim.targets.builtin.{name} import {made}",),
            make=f"{made}()",
            ours=_sources(spec.root, mutant),
        )

    def checkout(self, folder: Path) -> str | None:
        return f"{self.name}@{folder}" if _is_copy(folder) else None

    def counterpart(self, text: str, version: str | None) -> str:
        return self.name if text.startswith(f"{self.name}@") else text

    def module(self, name: str) -> str:
        return f"{__package__}._{_AUDITED}.{name}"


def _made(config: Config) -> tuple[str, str]:
    """Module and class of the target for a cache: of those that can hold it, the one that inherits least."""
    from .builtin import BuiltinEngine

    wanted, hosted = (config.level, config.features), config.host_full_size > 0
    fitting = [
        it
        for it in BuiltinEngine.__mro__
        if any((way.level, way.features) == wanted and way.host >= hosted for way in getattr(it, "profiles", ()))
    ]
    made = min(fitting, key=lambda it: len(it.__mro__))
    return made.__module__.rpartition(".")[2], made.__name__


def _sources(root: Path | None, mutant: Mutant | None) -> dict[str, str]:
    """The target's sources by module, those of a copy or with a defect."""
    names = [path.stem for path in sorted(builtin_root().glob("*.py"))]
    files = {name: (root or builtin_root()) / f"{name}.py" for name in names}
    sources = {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.is_file()}
    if mutant is not None:
        transform = Transform(mutant)
        sources = {name: transform(name, source) for name, source in sources.items()}
        transform.finish()
    return {f"{_PACKAGE}{name}": source for name, source in sources.items()}


def _policy(name: str) -> str:
    from .builtin import BuiltinEngine

    known = sorted({policy for profile in BuiltinEngine.profiles for policy in profile.policies})
    if name not in known:
        raise TargetError(f"builtin has no policy {name!r}; it has {', '.join(known)}")
    return name


def _copy(text: str, folder: str) -> Path:
    root = user_path(folder)
    if not _is_copy(root):
        raise TargetError(
            f"{text}: that folder holds no copy of the embedded target's sources (swa.py, target.py and the others)"
        )
    return root


def _is_copy(folder: Path) -> bool:
    return all(os.path.isfile(folder / name) for name in ("swa.py", "target.py"))


def _load_copy(spec: TargetSpec, root: Path) -> Target:
    try:
        target: Target = load_changed(_COPY, _as_it_is, root=root).BuiltinEngine()
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {message(error)}".split())
        raise TargetError(f"{spec.text} could not be loaded: {said}") from None
    target.name = spec.text
    return target


def _as_it_is(module: str, source: str) -> str:
    return source
