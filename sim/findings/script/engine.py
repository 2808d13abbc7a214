"""The main part of a script for an engine-level tape: one call an event, on our own adapter, and the check's verdict.

The adapter, the play of each event and the check come along as sources, so a script does exactly what was fuzzed.
"""

from __future__ import annotations

import re
import textwrap

from ...core.event import Event
from ...parts.registry import parts_of
from ...targets.family import ScriptTarget
from ..describe import config_words
from ..finding import Finding
from .builtin import config_expression
from .dialect import Lines

__all__ = ["HANG_SECONDS", "engine_main", "engine_roots"]

HANG_SECONDS = 30

_WIDTH = 110

_BY_HAND, _ENGINE = "staleloc.sim.parts.by_hand", "Engine"
"""Module and class of what drives a target by hand."""


def engine_roots(finding: Finding, target: ScriptTarget) -> tuple[str, ...]:
    """Modules of ours that the script imports."""
    check = _check_module(finding)
    return (*target.roots, _BY_HAND, *([check] if check else []))


def _check_module(finding: Finding) -> str | None:
    """The module of the check that saw it; None if an exception, or nothing more, was seen."""
    checks = [check for part in parts_of(finding.tape.config) for check in part.checks]
    found = next((check for check in checks if check.name == finding.divergence.check), None)
    return None if found is None else found.run.__module__


def engine_main(finding: Finding, target: ScriptTarget) -> str:
    """The text of ``main``."""
    tape, divergence = finding.tape, finding.divergence
    last = divergence.event if divergence.event >= 0 else len(tape.events) - 1
    lines = [*_setup(finding, target), ""]
    known: set[str] = set()
    for number, event in enumerate(tape.events[: last + 1], 1):
        if event.kind not in known:
            known.add(event.kind)
            lines += [f"# {line}" for line in textwrap.wrap(_story(event), _WIDTH - 2)]
        call = _wrapped(_call(event))
        lines += [*call[:-1], f"{call[-1]}  # {number}"]
    raised = re.search(r" raised (\w+)", divergence.what) if divergence.kind == "crash" else None
    more = f', raised="{raised[1]}"' if raised else ""
    lines += ["", f'return engine.verdict("{divergence.kind}", step={last + 1}{more})']
    return "def main() -> int:\n" + textwrap.indent("\n".join(lines), "    ")


def _setup(finding: Finding, target: ScriptTarget) -> Lines:
    config = finding.tape.config
    check = _check_module(finding)
    lines = [
        "from embedded.models.config import Config",
        f"from {_BY_HAND.replace('staleloc', 'embedded', 1)} import {_ENGINE}",
    ]
    if check is not None:
        lines.append(f"from {check.replace('staleloc', 'embedded', 1)} import CHECK")
    lines += [*target.imports, ""]
    if finding.divergence.kind == "hang":
        lines.append(f"faulthandler.dump_traceback_later({HANG_SECONDS}, exit=True)  # with exit code 1")
    return [
        *lines,
        f"target = {target.make}",
        *(f"# {line}" for line in textwrap.wrap(config_words(config), _WIDTH - 2)),
        *_wrapped(f"config = {config_expression(config)}"),
        f"engine = {_ENGINE}(target, config, {'None' if check is None else 'CHECK'})",
    ]


def _wrapped(call: str) -> Lines:
    """A call in lines; it breaks inside its parentheses."""
    return textwrap.wrap(call, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _story(event: Event) -> str:
    """What an event is, as its class says it."""
    text = (type(event).__doc__ or "").partition("\n\n")[0]
    return " ".join(text.replace("`", "").split())


def _call(event: Event) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in event.arguments().items())
    return f"engine.{event.kind}({fields})"
