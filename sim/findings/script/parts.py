"""What a script needs beside its main part: how it is run, and the sources at its end, for each family of targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...targets.mutants import MUTANTS
from ...targets.mutants.transform import Transform
from ...targets.registry import parse
from ...targets.sglang.sources import Release
from ..finding import Origin, our_version
from .embed import closure, embedded

__all__ = ["Parts", "builtin_parts", "sglang_parts"]

_BUILTIN = "staleloc.sim.targets.builtin."

Prepare = Callable[[str], str]
"""From a module of ours to what is shown of it."""


@dataclass(frozen=True)
class Parts:
    """The parts.

    Attributes:
        made_for: what the script was made for.
        run: how to run it.
        texts: sources at its end.
    """

    made_for: str
    run: str
    texts: tuple[str, ...]


def builtin_parts(origin: Origin, roots: Iterable[str], prepare: Prepare, own: Mapping[str, str]) -> Parts:
    """The embedded target comes along, as it is or mutated.

    Args:
        origin: what was run.
        roots: modules of ours that the script imports.
        prepare: see `Prepare`.
        own: sources of the user's that come along as they are, by name.
    """
    sources = closure(roots, own)
    root = parse(origin.target).root
    if root is not None:
        theirs = {name: root / f"{name.removeprefix(_BUILTIN)}.py" for name in sources if name.startswith(_BUILTIN)}
        sources |= {name: file.read_text(encoding="utf-8") for name, file in theirs.items() if file.is_file()}
    ours = {name: source for name, source in sources.items() if name.startswith(_BUILTIN)}
    sources = {name: source if name in {**ours, **own} else prepare(source) for name, source in sources.items()}
    made_for = f"the builtin target of staleloc {our_version()}"
    if origin.mutant is not None:
        transform = Transform(MUTANTS[origin.mutant])
        sources |= {name: transform(name.removeprefix(_BUILTIN), source) for name, source in ours.items()}
        transform.finish()
        made_for += f" with mutant {origin.mutant}"
    if root is not None:
        made_for = f"{origin.target}, staleloc {our_version()}"
    run = "Run it with torch installed:\n\n    python THIS_SCRIPT"
    return Parts(made_for, run, (embedded("SOURCES", sources, "embedded"),))


def sglang_parts(
    origin: Origin, release: Release, roots: Iterable[str], prepare: Prepare, own: Mapping[str, str]
) -> Parts:
    """The release comes from the reader; of it only what was mutated comes along.

    Args:
        origin: what was run.
        release: the release's sources.
        roots: modules of ours that the script imports.
        prepare: see `Prepare`.
        own: sources of the user's that come along as they are, by name.
    """
    known = closure(roots, own)
    sources = {name: source if name in own else prepare(source) for name, source in known.items()}
    mutated: dict[str, str] = {}
    if origin.mutant is not None:
        transform = Transform(MUTANTS[origin.mutant])
        for module in sorted({edit.module for edit in MUTANTS[origin.mutant].edits}):
            file = release.root.joinpath(*module.split("."))
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            mutated[module] = transform(module, file.read_text(encoding="utf-8"))
    wheel = f"sglang=={release.version}" if release.version else "sglang"
    run = (
        f"Run it with {wheel} installed:\n\n    python THIS_SCRIPT\n\nor with a wheel, an unpacked wheel or a checkout "
        f"of it, on any machine with torch, numpy, pydantic, psutil,\nmsgspec and packaging; a CPU will do:\n\n"
        f"    pip download --no-deps {wheel}\n    python THIS_SCRIPT sglang-*.whl"
    )
    defect = f" with mutant {origin.mutant}" if mutated else ""
    texts = (embedded("SOURCES", sources, "embedded"), embedded("MUTATED", mutated))
    return Parts((wheel if release.version else origin.target) + defect, run, texts)
