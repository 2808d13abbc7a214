"""A release in a stand-alone script: how it is found and loaded there, and the sources that have a defect.

Functions with `argument` go into the script as text, those that are used; ``main`` hands over the script's argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ..family import ScriptTarget
from ..mutants.transform import Mutant, Transform
from .fetch import resolve

__all__ = ["find_release", "load_release", "script_target"]

MADE_FOR = ""
MUTATED: dict[str, str] = {}
give_up: Callable[[str], NoReturn] = sys.exit
"""In a script: what it was made for, sources of the release with a defect, and how it ends with exit code 2."""

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
        roots=(f"{_PACKAGE}.sources", f"{_PACKAGE}.target"),
        imports=(),
        make="load_release(sys.argv[1] if len(sys.argv) > 1 else None)",
        helpers=(sys.modules[__name__],),
        theirs=mutated,
    )


def find_release(argument: str | None) -> Path:
    """The folder that holds the `sglang` package of a wheel, an unpacked wheel or a checkout, or what is installed."""
    import atexit
    import importlib.util
    import shutil
    import tempfile
    import zipfile

    if argument is None:
        spec = importlib.util.find_spec("sglang")
        if spec is None or not spec.submodule_search_locations:
            give_up(f"sglang is not installed; give the path of a wheel, of an unpacked wheel or of a checkout, "
                    f"best of {MADE_FOR}")  # fmt: skip
        root = Path(next(iter(spec.submodule_search_locations))).parent
    else:
        root = Path(argument)
        if root.suffix == ".whl":
            try:
                with zipfile.ZipFile(argument) as wheel:
                    root = Path(tempfile.mkdtemp(prefix="sglang-"))
                    atexit.register(shutil.rmtree, root, ignore_errors=True)
                    names = [name for name in wheel.namelist() if name.endswith(".py") or "/rust_tree_core/" in name]
                    wheel.extractall(root, names)
            except (OSError, zipfile.BadZipFile) as error:
                give_up(f"{argument} cannot be read as a wheel ({error})")
        root = next((folder for folder in (root, root / "python") if (folder / "sglang").is_dir()), root)
    if not (root / "sglang" / "srt" / "mem_cache").is_dir():
        give_up(f"{argument or root} holds no sglang/srt/mem_cache; this script was made for {MADE_FOR}")
    return root


def open_release(argument: str | None) -> None:
    """Make a release importable. Its KV-cache layer is imported for real; everything else it names is a stub
    that fails when used, so that a CPU and torch are enough."""
    import os

    from .environment import ENVIRONMENT
    from .fakes import fake_names
    from .seal import seal

    root = find_release(argument)
    os.environ.update(ENVIRONMENT)
    seal("sglang", root, fake_names(), transform=lambda module, source: MUTATED.get(module, source))


def load_release(argument: str | None) -> Any:
    """A release behind our adapter. Its tree, allocator, pools and host tier are imported for real; everything else
    it names is a stub that fails when used, so that a CPU and torch are enough."""
    from .sources import Release
    from .target import load

    release = Release("this release", None, find_release(argument))
    return load(release, (lambda module, source: MUTATED.get(module, source)) if MUTATED else None)
