"""The main part of a script: one call an event on a target that is driven by hand, and the check's verdict."""

from __future__ import annotations

import re
import textwrap
from dataclasses import fields

from ....models.config import Config
from ...core.event import Event
from ...parts.allocator.checks import CHECKS
from ...parts.check import Check
from ...parts.hooks import FromFile
from ...parts.registry import parts_of
from ...targets.family import ScriptTarget
from ..describe import config_words
from ..finding import Finding
from .embed import PACKAGE, in_script

__all__ = ["OWN", "main_text", "roots"]

OWN = "staleloc.own"
"""Inside a script, the module with events that the user declares."""

_WIDTH = 110

_DRIVERS = {
    "allocator": ("staleloc.sim.parts.allocator.by_hand", "KvCache", "cache"),
    "engine": ("staleloc.sim.parts.engine.by_hand", "Engine", "engine"),
}
"""Level -> module and class of what drives a target by hand, and its name in a script."""


def roots(finding: Finding, target: ScriptTarget) -> tuple[str, ...]:
    """Modules of ours that the main part imports."""
    check = _check(finding)
    return (*target.roots, _DRIVERS[finding.tape.config.level][0], *([check.look.__module__] if check else []))


def _check(finding: Finding) -> Check | None:
    """The check that saw it; None if an exception, or nothing more, was seen."""
    config = finding.tape.config
    checks = CHECKS if config.level == "allocator" else [it for part in parts_of(config) for it in part.checks]
    return next((check for check in checks if check.name == finding.divergence.check), None)


def main_text(finding: Finding, target: ScriptTarget) -> str:
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
        call = _wrapped(f"{name}.{_call(event)}")
        lines += [*call[:-1], f"{call[-1]}  # {number}"]
    raised = re.search(r" raised (\w+)", divergence.what) if divergence.kind == "crash" else None
    more = f', raised="{raised[1]}"' if raised else ""
    lines += ["", f'return {name}.verdict("{divergence.kind}", step={last + 1}{more})']
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
        lines.append(f"from {PACKAGE} import {OWN.rpartition('.')[2]}")
    return [
        *lines,
        "",
        f"target = {target.make}",
        *(f"# {line}" for line in textwrap.wrap(config_words(config), _WIDTH - 2)),
        *_wrapped(f"config = {_config(config)}"),
        f"{name} = {driver}(target, config, {None if check is None else check.look.__name__})",
    ]


def _config(config: Config) -> str:
    """The cache's shape as an expression, less what every cache has."""
    values = ((field.name, getattr(config, field.name), field.default) for field in fields(config))
    return f"Config({', '.join(f'{name}={value!r}' for name, value, default in values if value != default)})"


def _wrapped(call: str) -> list[str]:
    """A call in lines; it breaks inside its parentheses."""
    return textwrap.wrap(call, _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _story(event: Event) -> str:
    """What an event is, as its class says it."""
    text = (type(event).__doc__ or "").partition("\n\n")[0]
    return " ".join(text.replace("`", "").split())


def _call(event: Event) -> str:
    """A call of the driver. The name of an event that the user declares need be no name in Python."""
    if isinstance(event, FromFile):
        return f"play(own.{event!r})"
    given = ", ".join(f"{name}={value!r}" for name, value in event.arguments().items())
    return f"{event.kind}({given})"
