"""A release in a stand-alone script: how it is had there, and the sources that have a defect."""

from __future__ import annotations

from ..family import ScriptTarget
from ..mutants.transform import Mutant, Transform
from .fetch import resolve

__all__ = ["script_target"]

_PACKAGE = __name__.rpartition(".")[0]


def script_target(name: str, mutant: Mutant | None) -> ScriptTarget:
    """See `Family.script`. The release comes from the reader; of it only what has the defect comes along."""
    release = resolve(name)
    mutated: dict[str, str] = {}
    if mutant is not None:
        transform = Transform(mutant)
        for module in sorted({edit.module for edit in mutant.edits}):
            file = release.root.joinpath(*module.split("."))
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            mutated[module] = transform(module, file.read_text(encoding="utf-8"))
    wheel = f"sglang=={release.version}" if release.version else "sglang"
    run = (
        f"Run it with {wheel} installed:\n\n    python THIS_SCRIPT\n\nor with a wheel, an unpacked wheel or a checkout "
        f"of it, on any machine with torch, numpy, pydantic, psutil,\nmsgspec and packaging; a CPU will do:\n\n"
        f"    pip download --no-deps {wheel}\n    python THIS_SCRIPT sglang-*.whl"
    )
    defect = f" with mutant {mutant.name}" if mutant is not None else ""
    return ScriptTarget(
        made_for=(wheel if release.version else name) + defect,
        run=run,
        roots=(f"{_PACKAGE}.argument",),
        imports=("from embedded.sim.targets.sglang.argument import load_release",),
        make="load_release(sys.argv[1:], MUTATED)",
        theirs=mutated,
    )
