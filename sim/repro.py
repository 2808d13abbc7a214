"""A stand-alone script that shows a divergence with nothing but torch and the engine: no import of ours."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from staleloc.sim.explain import fact, sentence
from staleloc.sim.finding import Finding, our_version
from staleloc.sim.mutants import MUTANTS
from staleloc.sim.mutate import Transform
from staleloc.sim.repro_builtin import ROOTS as BUILTIN_ROOTS
from staleloc.sim.repro_builtin import BuiltinDialect
from staleloc.sim.repro_dialect import Dialect, Lines
from staleloc.sim.repro_embed import LOADER, closure, embedded, renamed, stripped
from staleloc.sim.repro_helpers import used_helpers
from staleloc.sim.repro_release import traits
from staleloc.sim.repro_sglang import ROOTS as SGLANG_ROOTS
from staleloc.sim.repro_sglang import SglangDialect
from staleloc.sim.repro_steps import Steps
from staleloc.sim.repro_verdict import last_step
from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.words import config_words, steps

__all__ = ["script"]

_HANG_SECONDS = 30

_BUILTIN = "staleloc.sim.targets.builtin."

_MODULES = (
    "collections", "copy", "faulthandler", "importlib.abc", "importlib.machinery", "linecache", "sys", "types",
)  # fmt: skip
"""Modules of the standard library that a script may use."""

_ANY = "from typing import Any, NoReturn"

_NAMES = {
    "full": "full = collections.defaultdict(list)  # request -> full locs of its tokens",
    "swa": "swa = collections.defaultdict(list)  # request -> their SWA locs, 0 for none",
    "buffer": "buffer = torch.zeros(4096, dtype=torch.int64)  # batches re-use it",
    "on_cpu": "on_cpu = {}",
    "memory": "memory = [{} for _ in layers]  # layer -> slot -> what it must hold",
    "copies": "copies = {}  # copy -> for each layer, what it must hold",
    "waiting_full": "waiting_full = []",
    "waiting_swa": "waiting_swa = []",
}
"""Names that steps may use -> how they begin."""

_TENSOR = [
    "kept_alive = []",
    "",
    "def t(locs):  # a loc tensor in new memory",
    "    kept_alive.append(torch.tensor(locs, dtype=torch.int64))",
    "    return kept_alive[-1]",
    "",
]

_MAIN = """

if __name__ == "__main__":
    sys.meta_path.insert(0, Embedded())
    try:
        code = main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 2
    sys.exit(code)
"""


def script(finding: Finding) -> str:
    """The script's text.

    Raises:
        TargetError: the release is not at hand.
    """
    engine = _sglang(finding) if finding.origin.target.startswith("sglang") else _builtin(finding)
    main = _main(finding, engine)
    helpers = [renamed(helper) for helper in used_helpers(main)]
    text = "\n\n\n".join([main, *helpers, LOADER.strip("\n"), *engine.texts])
    code = "\n".join([main, *helpers, LOADER, _MAIN])
    imports = [f"import {module}" for module in _MODULES if _names(module, code)]
    opening = ["#!/usr/bin/env python3", _header(finding, engine), "", *imports, _ANY, "", "import torch", "", "", ""]
    return "\n".join(opening) + text + _MAIN


@dataclass(frozen=True)
class _Engine:
    """What a script needs of an engine.

    Attributes:
        tensors: calls take tensors, not lists.
        run: how to run the script.
        texts: sources at the end of the script.
    """

    dialect: Dialect
    tensors: bool
    run: str
    texts: tuple[str, ...]


def _builtin(finding: Finding) -> _Engine:
    sources = closure(BUILTIN_ROOTS)
    ours = {name: source for name, source in sources.items() if name.startswith(_BUILTIN)}
    sources = {name: source if name in ours else stripped(source) for name, source in sources.items()}
    if finding.origin.mutant is not None:
        transform = Transform(MUTANTS[finding.origin.mutant])
        sources |= {name: transform(name.removeprefix(_BUILTIN), source) for name, source in ours.items()}
        transform.finish()
    run = "Run it with torch installed:\n\n    python THIS_SCRIPT"
    return _Engine(BuiltinDialect(), False, run, (embedded("SOURCES", sources, "embedded"),))


def _sglang(finding: Finding) -> _Engine:
    release = resolve(finding.origin.target)
    sources = {name: stripped(source) for name, source in closure(SGLANG_ROOTS).items()}
    mutated: dict[str, str] = {}
    if finding.origin.mutant is not None:
        transform = Transform(MUTANTS[finding.origin.mutant])
        for module in sorted({edit.module for edit in MUTANTS[finding.origin.mutant].edits}):
            file = release.root.joinpath(*module.split("."))
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            mutated[module] = transform(module, file.read_text(encoding="utf-8"))
    wheel = f"sglang=={release.version}" if release.version else "sglang"
    run = (
        f"Run it with {wheel} installed:\n\n    python THIS_SCRIPT\n\nor with a wheel, an unpacked wheel or a checkout "
        f"of it, on any machine with torch, numpy, pydantic, psutil,\nmsgspec and packaging; a CPU will do:\n\n"
        f"    pip download --no-deps {wheel}\n    python THIS_SCRIPT sglang-*.whl"
    )
    texts = (embedded("SOURCES", sources, "embedded"), embedded("MUTATED", mutated))
    return _Engine(SglangDialect(traits(release.root), finding.tape.config), True, run, texts)


def _header(finding: Finding, engine: _Engine) -> str:
    origin, divergence = finding.origin, finding.divergence
    defect = f" with mutant {origin.mutant}" if origin.mutant else ""
    text = (
        f"{divergence.kind} in {origin.target}{defect}, {finding.tape.config.pool} pool\n\n"
        f"{_wrap(fact(divergence))}\n{_wrap(sentence(divergence, finding.tape))}\n\n"
        f"{engine.run}\n\nExit code 1: the bug shows; 0: it does not; 2: the engine could not be loaded or driven.\n"
        f"Written by staleloc {our_version()}, which it does not need."
    )
    return '"""' + text.replace("\\", "\\\\").replace('"', "'") + '\n"""'


def _wrap(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _main(finding: Finding, engine: _Engine) -> str:
    tape, divergence = finding.tape, finding.divergence
    last = divergence.event if divergence.event >= 0 else len(tape.events) - 1
    writer = Steps(tape, divergence, engine.dialect)
    body: Lines = []
    for number, (event, words) in enumerate(zip(tape.events[: last + 1], steps(tape), strict=False)):
        body += ["", f"# {number + 1}  {event.kind}: {words}"]
        if number == divergence.event:
            body += last_step(writer, event, divergence)
        else:
            calls, books = writer.write(event)
            body += [*calls, *books]
    if divergence.event < 0:
        body += ["", f"return 0  # {divergence.kind}: the engine never comes here"]
    start = [f"# {config_words(tape.config)}"]
    if divergence.kind == "hang":
        start.append(f"faulthandler.dump_traceback_later({_HANG_SECONDS}, exit=True)  # with exit code 1")
    start += [*engine.dialect.setup(tape.config), "", *_locals(body, engine, tape.config.layers)]
    return "def main():\n" + textwrap.indent("\n".join([*start, *body]), "    ")


def _locals(body: Lines, engine: _Engine, layers: tuple[str, ...]) -> Lines:
    """What the body uses: books, and local functions that look into the cache."""
    functions: Lines = []
    text = "\n".join(body)
    for name, lines in reversed(engine.dialect.looks().items()):
        if _names(name, text):
            functions = [*lines, "", *functions]
            text = "\n".join([*lines, text])
    books = [line for name, line in _NAMES.items() if _names(name, text)]
    if _names("memory", text):
        books.insert(0, f"layers = {layers!r}")
    return [*(_TENSOR if engine.tensors else []), *functions, *books]


def _names(name: str, text: str) -> bool:
    """Whether lines of code use a name; comments and attributes do not count."""
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", re.sub(r"#.*", "", text)) is not None
