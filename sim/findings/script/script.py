"""A stand-alone script that shows a divergence with nothing but torch and the engine: no import of ours."""

from __future__ import annotations

import re
import textwrap

from ....models.config import LEVELS
from ...parts.hooks import loaded
from ...targets.family import ScriptTarget
from ...targets.mutants import MUTANTS
from ...targets.registry import parse
from ..describe import config_words, steps
from ..explain import fact, sentence
from ..finding import Finding, our_version
from .builtin import ROOTS as BUILTIN_ROOTS
from .builtin import BuiltinDialect
from .dialect import Dialect, Lines
from .embed import LOADER, renamed, sources_of, stripped
from .engine import HANG_SECONDS, engine_main, engine_roots
from .helpers import used_helpers
from .release import traits
from .sglang import ROOTS as SGLANG_ROOTS
from .sglang import SglangDialect
from .steps import Steps
from .verdict import last_step

__all__ = ["script"]

OWN, DECLARES = "staleloc.own", "staleloc.sim.declared"
"""Names of a file with events of the user's own, inside a script, and of what it is made of."""

_NODE = re.compile(r"\bnode \d+\b")
"""A node's name: it depends on what the process did before."""

_MODULES = (
    "collections", "copy", "faulthandler", "importlib.abc", "importlib.machinery", "linecache", "sys", "types",
)  # fmt: skip
"""Modules of the standard library that a script may use."""

_IMPORTS = """
from pathlib import Path
from typing import Any, NoReturn

if sys.version_info < (3, 11):
    print("this script needs Python 3.11 or newer", file=sys.stderr)
    sys.exit(2)
try:
    import torch
except ImportError as missing:
    print(f"this script needs torch ({missing})", file=sys.stderr)
    sys.exit(2)


"""

_NAMES = {
    "full": "full = collections.defaultdict(list)  # request -> full locs of its tokens",
    "swa": "swa = collections.defaultdict(list)  # request -> their SWA locs, 0 for none",
    "on_cpu": "on_cpu = {}",
    "memory": "memory = [{} for _ in layers]  # layer -> slot -> what it must hold",
    "copies": "copies = {}  # copy -> for each layer, what it must hold",
    "frees": "frees = Frees(allocator, arena)  # of the release's calls, those that its scheduler uses",
    "waiting_full": "waiting_full = []",
    "waiting_swa": "waiting_swa = []",
}
"""Names that steps may use -> how they begin."""

_TENSORS = [
    "from embedded.sim.targets.arena import Arena",
    "",
    "arena = Arena()",
    "t = arena.fresh  # a loc tensor in new memory",
    "",
]

_MAIN = """

if __name__ == "__main__":
    sys.meta_path.insert(0, Embedded())
    try:
        code = main()
    except Exception as error:
        unfit(error)
    sys.exit(code)
"""


def script(finding: Finding) -> str:
    """The script's text; the same for the same finding.

    Raises:
        TargetError: the release is not at hand.
    """
    origin, config = finding.origin, finding.tape.config
    spec, mutant = parse(origin.target), MUTANTS[origin.mutant] if origin.mutant is not None else None
    target = spec.family.script(spec, mutant, config, our_version())
    main, sources = (_engine if config.level == "engine" else _allocator)(finding, target)
    helpers = [renamed(helper) for helper in used_helpers(main + _MAIN, *target.helpers)]
    made_for = f'MADE_FOR = "{target.made_for}"'
    text = "\n\n\n".join([main, made_for, *helpers, LOADER.strip("\n"), *sources])
    code = "\n".join([main, *helpers, LOADER, _IMPORTS, _MAIN])
    imports = [f"import {module}" for module in _MODULES if _names(module, code)]
    return "\n".join(["#!/usr/bin/env python3", _header(finding, target), "", *imports]) + _IMPORTS + text + _MAIN


def _engine(finding: Finding, target: ScriptTarget) -> tuple[str, tuple[str, ...]]:
    """For the engine level: our own modules come along, every line as it is."""
    return engine_main(finding, target), sources_of(target, engine_roots(finding, target), str, {})


def _allocator(finding: Finding, target: ScriptTarget) -> tuple[str, tuple[str, ...]]:
    """For the allocator level: calls are written out, and of our modules only what they need comes along."""
    file = loaded()
    if file is not None and not any(event.kind in file.events for event in finding.tape.events):
        file = None
    own = {} if file is None else {OWN: file.text}
    declares = () if file is None else (DECLARES,)
    if target.theirs is not None:
        spec = parse(finding.origin.target)
        dialect = SglangDialect(traits(spec.family.sources(spec).root), finding.tape.config)
        return _main(finding, dialect, True), sources_of(target, (*SGLANG_ROOTS, *declares), stripped, own)
    sources = sources_of(target, (*BUILTIN_ROOTS, *declares), stripped, own)
    return _main(finding, BuiltinDialect(), False), sources


def _header(finding: Finding, target: ScriptTarget) -> str:
    origin, divergence = finding.origin, finding.divergence
    defect = f" with mutant {origin.mutant}" if origin.mutant else ""
    said = dict.fromkeys((fact(divergence), sentence(divergence, finding.tape)))
    text = (
        f"{divergence.kind} in {origin.target}{defect}, {finding.tape.config.pool} pool\n\n"
        + "".join(f"{_wrap(_NODE.sub('a node', line))}\n" for line in said)
        + f"\n{_steps(finding)}{target.run}\n\n"
        "Exit code 1: the bug shows; 0: it does not; 2: the engine could not be loaded or driven.\n"
        f"Written by staleloc {our_version()}, which it does not need. With it:\n\n    {origin.again}"
    )
    return '"""' + text.replace("\\", "\\\\").replace('"', "'") + '\n"""'


def _steps(finding: Finding) -> str:
    """The steps for people, where `main` does not have them beside each call."""
    if finding.tape.config.level == LEVELS[0]:
        return ""
    divergence = finding.divergence
    stop = divergence.event + 1 or None
    lines = []
    for number, (event, words) in enumerate(zip(finding.tape.events[:stop], steps(finding.tape), strict=False), 1):
        line = f"  {'>' if number == stop else ' '} {number:3}  {event.kind:13}  {words}"
        lines += textwrap.wrap(line, 110, subsequent_indent=" " * 24)
    return "\n".join([*lines, "", ""])


def _wrap(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _main(finding: Finding, dialect: Dialect, tensors: bool) -> str:
    """The text of ``main`` at the allocator level; with `tensors`, calls take tensors and not lists."""
    tape, divergence = finding.tape, finding.divergence
    last = divergence.event if divergence.event >= 0 else len(tape.events) - 1
    writer = Steps(tape, divergence, dialect)
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
        start.append(f"faulthandler.dump_traceback_later({HANG_SECONDS}, exit=True)  # with exit code 1")
    start += [*dialect.setup(tape.config), "", *_locals(body, dialect, tensors, tape.config.layers)]
    return "def main():\n" + textwrap.indent("\n".join([*start, *body]), "    ")


def _locals(body: Lines, dialect: Dialect, tensors: bool, layers: tuple[str, ...]) -> Lines:
    """What the body uses: books, and local functions that look into the cache."""
    functions: Lines = []
    text = "\n".join(body)
    for name, lines in reversed(dialect.looks().items()):
        if _names(name, text):
            functions = [*lines, "", *functions]
            text = "\n".join([*lines, text])
    books = [line for name, line in _NAMES.items() if _names(name, text)]
    if _names("own", text):
        functions = ["from embedded import own", "from embedded.sim.declared import Cache", "", *functions]
    if _names("memory", text):
        books.insert(0, f"layers = {layers!r}")
    return [*(_TENSORS if tensors else []), *functions, *books]


def _names(name: str, text: str) -> bool:
    """Whether lines of code use a name; comments and attributes do not count."""
    return re.search(rf"(?<![\w.]){re.escape(name)}\b", re.sub(r"#.*", "", text)) is not None
