"""A stand-alone script that shows a divergence with nothing but torch and the engine: no import of ours.

The adapter, the play of each event and the check come along as sources, so a script does exactly what was fuzzed.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import fields

from ....models.config import Config
from ...core.event import Event
from ...parts.allocator.checks import CHECKS
from ...parts.check import Check
from ...parts.hooks import FromFile, loaded
from ...parts.registry import parts_of
from ...targets.family import ScriptTarget
from ...targets.mutants import MUTANTS
from ...targets.registry import parse
from ..explain import config_words, fact, sentence, steps
from ..finding import Finding, our_version
from .embed import LOADER, PACKAGE, in_script, sources_of
from .runtime import HANG_SECONDS

__all__ = ["script"]

_RUNTIME = "staleloc.sim.findings.script.runtime"

_NODE = re.compile(r"\bnode \d+\b")
"""A node's name: it depends on what the process did before."""

_OWN = "staleloc.own"
"""Inside a script, the module with events that the user declares."""

_WIDTH = 110

_DRIVERS = {
    "allocator": ("staleloc.sim.parts.allocator.by_hand", "KvCache", "cache"),
    "engine": ("staleloc.sim.parts.engine.by_hand", "Engine", "engine"),
}
"""Level -> module and class of what drives a target by hand, and its name in a script."""

_START = """
import importlib.abc
import importlib.machinery
import linecache
import sys

if sys.version_info < (3, 11):
    print("this script needs Python 3.11 or newer", file=sys.stderr)
    sys.exit(2)
try:
    import torch  # noqa: F401
except (Exception, SystemExit) as error:
    print(f"this script needs torch ({' '.join(str(error).split())})", file=sys.stderr)
    sys.exit(2)
"""

_END = """if __name__ == "__main__":
    sys.meta_path.insert(0, Embedded())
    try:
        from {module} import {name}
    except (Exception, SystemExit) as error:  # exit code 1 would say that the bug shows
        print(f"not played: {{type(error).__name__}}: {{' '.join(str(error).split())}}", file=sys.stderr)
        sys.exit(2)
    sys.exit({call})
"""


def script(finding: Finding) -> str:
    """The script's text; the same for the same finding.

    Raises:
        TargetError: the release is not at hand.
    """
    origin, file = finding.origin, loaded()
    spec, mutant = parse(origin.target), MUTANTS[origin.mutant] if origin.mutant is not None else None
    target = spec.family.script(spec, mutant, finding.tape.config, our_version())
    asked = file is not None and any(event.kind in file.events for event in finding.tape.events)
    own = {_OWN: file.text} if file is not None and asked else {}
    sources = sources_of(target, (*_roots(finding, target), _RUNTIME), own)
    name, more = ("run_apart", f", {json.dumps(finding.divergence.kind)}") if _apart(finding) else ("run", "")
    end = _END.format(module=in_script(_RUNTIME), name=name, call=f"{name}(main, MADE_FOR{more})")
    start = f"#!/usr/bin/env python3\n{_header(finding, target)}\n{_START}"
    made_for = f"MADE_FOR = {target.made_for!r}"
    text = "\n\n".join([start, "\n\n\n".join([_main_text(finding, target), made_for, LOADER.strip(), *sources, end])])
    ast.parse(text)  # a script that does not parse would end with 1, as if the bug showed
    return text


def _apart(finding: Finding) -> bool:
    """Whether the engine may never come back, or take its process with it."""
    return finding.divergence.kind == "hang" or finding.divergence.event < 0


def _header(finding: Finding, target: ScriptTarget) -> str:
    origin, divergence = finding.origin, finding.divergence
    defect = f" with mutant {origin.mutant}" if origin.mutant else ""
    name, again = _printable(origin.target), _printable(origin.again)
    said = dict.fromkeys((fact(divergence), sentence(divergence, finding.tape)))
    waits = f"A step may take {HANG_SECONDS:g} seconds, or the number in the environment variable HANG_SECONDS.\n"
    text = (
        f"{divergence.kind} in {name}{defect}, {finding.tape.config.pool} pool\n\n"
        + "".join(f"{_wrap(_NODE.sub('a node', line))}\n" for line in said)
        + f"\n{_steps(finding)}{target.run}\n\n"
        "Exit code 1: the bug shows; 0: it does not; 2: the engine could not be loaded or driven.\n"
        f"{waits if _apart(finding) else ''}"
        f"Written by staleloc {our_version()}, which it does not need. With it:\n\n    {again}"
    )
    text = "\n".join(map(_printable, text.split("\n")))
    return '"""' + text.replace("\\", "\\\\").replace('"', "'") + '\n"""'


def _printable(text: str) -> str:
    """A text in one line, with escapes in place of what is not printable or turns the direction of writing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _steps(finding: Finding) -> str:
    """The steps for people."""
    stop = finding.divergence.event + 1 or None
    width = max([13, *(len(event.kind) for event in finding.tape.events[:stop])])
    lines = []
    for number, (event, words) in enumerate(zip(finding.tape.events[:stop], steps(finding.tape), strict=False), 1):
        line = f"  {'>' if number == stop else ' '} {number:3}  {event.kind:{width}}  {words}"
        lines += textwrap.wrap(line, _WIDTH, subsequent_indent=" " * (width + 11))
    return "\n".join([*lines, "", ""])


def _wrap(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _roots(finding: Finding, target: ScriptTarget) -> tuple[str, ...]:
    """Modules of ours that the main part imports."""
    check = _check(finding)
    return (*target.roots, _DRIVERS[finding.tape.config.level][0], *([check.look.__module__] if check else []))


def _check(finding: Finding) -> Check | None:
    """The check that saw it; None if an exception, or nothing more, was seen."""
    config = finding.tape.config
    checks = CHECKS if config.level == "allocator" else [it for part in parts_of(config) for it in part.checks]
    return next((check for check in checks if check.name == finding.divergence.check), None)


def _main_text(finding: Finding, target: ScriptTarget) -> str:
    """The text of ``main``."""
    tape, divergence = finding.tape, finding.divergence
    last = divergence.event if divergence.event >= 0 else len(tape.events) - 1
    name = _DRIVERS[tape.config.level][2]
    lines = [*_setup(finding, target), ""]
    known: set[str] = set()
    for number, event in enumerate(tape.events[: last + 1], 1):
        if event.kind not in known:
            known.add(event.kind)
            lines += [f"# {line}" for line in textwrap.wrap(_story(event), _WIDTH - 2)]
        call = _call_lines(f"{name}.{_call(event)}")
        lines += [*call[:-1], f"{call[-1]}  # {number}"]
    raised = re.search(r" raised (\w+)", divergence.what) if divergence.kind == "crash" else None
    more = f", raised={json.dumps(raised[1])}" if raised else ""
    lines += ["", f"return {name}.verdict({json.dumps(divergence.kind)}, step={last + 1}{more})"]
    return "def main() -> int:\n" + textwrap.indent("\n".join(lines), "    ")


def _setup(finding: Finding, target: ScriptTarget) -> list[str]:
    config, check = finding.tape.config, _check(finding)
    module, driver, name = _DRIVERS[config.level]
    lines = [
        f"from {PACKAGE}.models.config import Config",
        f"from {in_script(module)} import {driver}",
        *target.imports,
    ]
    if check is not None:
        lines.append(f"from {in_script(check.look.__module__)} import {check.look.__name__}")
    if any(isinstance(event, FromFile) for event in finding.tape.events):
        lines.append(f"from {PACKAGE} import {_OWN.rpartition('.')[2]}")
    return [
        *lines,
        "",
        f"target = {target.make}",
        *(f"# {line}" for line in textwrap.wrap(config_words(config), _WIDTH - 2)),
        *_call_lines(f"config = {_config(config)}"),
        f"{name} = {driver}(target, config, {None if check is None else check.look.__name__})",
    ]


def _config(config: Config) -> str:
    """The cache's shape as an expression, less what every cache has."""
    values = ((field.name, getattr(config, field.name), field.default) for field in fields(config))
    return f"Config({', '.join(f'{name}={value!r}' for name, value, default in values if value != default)})"


def _call_lines(call: str) -> list[str]:
    """A call in lines; it breaks inside its parentheses."""
    return textwrap.wrap(call, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _story(event: Event) -> str:
    """What an event is, as its class says it."""
    text = (type(event).__doc__ or "").partition("\n\n")[0]
    return _printable(" ".join(text.replace("`", "").split()))


def _call(event: Event) -> str:
    """A call of the driver. The name of an event that the user declares need be no name in Python."""
    if isinstance(event, FromFile):
        return f"play(own.{event!r})"
    given = ", ".join(f"{name}={value!r}" for name, value in event.arguments().items())
    return f"{event.kind}({given})"
