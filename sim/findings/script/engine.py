"""The main part of a script for an engine-level tape: one call an event, on our own adapter, and the check's verdict.

The adapter, the play of each event and the check come along as sources, so a script does exactly what was fuzzed.
"""

from __future__ import annotations

import re
import textwrap

from ...core.event import Event
from ...parts.registry import parts_of
from ..describe import config_words
from ..finding import Finding
from .builtin import config_expression
from .dialect import Lines

__all__ = ["HANG_SECONDS", "engine_main", "engine_roots"]

HANG_SECONDS = 30

_WIDTH = 110

_BUILTIN = ("staleloc.sim.targets.builtin.engine", "BuiltinEngine")
_GRAPHS = ("staleloc.sim.targets.builtin.graph_engine", "GraphEngine")
_BUILTIN_NODE = ("staleloc.sim.targets.builtin.disagg", "DisaggEngine")
_BUILTIN_SPEC = ("staleloc.sim.targets.builtin.speculative", "SpecEngine")
_BUILTIN_SPEC_GRAPHS = ("staleloc.sim.targets.builtin.spec_graphs", "SpecGraphEngine")
_SGLANG = ("staleloc.sim.targets.sglang.sources", "staleloc.sim.targets.sglang.target")
_ENGINE = ("staleloc.sim.parts.by_hand", "Engine")
"""Module and class of the builtin target for each set of features, and of the hand driver."""


def engine_roots(finding: Finding) -> tuple[str, ...]:
    """Modules of ours that the script imports."""
    (builtin, _), (by_hand, _) = _parts(finding)
    target = _SGLANG if finding.origin.target.startswith("sglang") else (builtin,)
    check = _check_module(finding)
    return (*target, by_hand, *([check] if check else []))


def _parts(finding: Finding) -> tuple[tuple[str, str], tuple[str, str]]:
    """The builtin target, and what drives a target by hand."""
    features = finding.tape.config.features
    if "disagg" in features:
        return _BUILTIN_NODE, _ENGINE
    if "spec" in features:
        return (_BUILTIN_SPEC_GRAPHS if "graphs" in features else _BUILTIN_SPEC), _ENGINE
    return (_GRAPHS if "graphs" in features else _BUILTIN), _ENGINE


def _check_module(finding: Finding) -> str | None:
    """The module of the check that saw it; None if an exception, or nothing more, was seen."""
    checks = [check for part in parts_of(finding.tape.config) for check in part.checks]
    found = next((check for check in checks if check.name == finding.divergence.check), None)
    return None if found is None else found.run.__module__


def engine_main(finding: Finding) -> str:
    """The text of ``main``."""
    tape, divergence = finding.tape, finding.divergence
    last = divergence.event if divergence.event >= 0 else len(tape.events) - 1
    lines = [*_setup(finding), ""]
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


def _setup(finding: Finding) -> Lines:
    config = finding.tape.config
    check = _check_module(finding)
    (builtin, target_class), (by_hand, engine) = _parts(finding)
    lines = [
        "from embedded.models.config import Config",
        f"from {by_hand.replace('staleloc', 'embedded', 1)} import {engine}",
    ]
    if check is not None:
        lines.append(f"from {check.replace('staleloc', 'embedded', 1)} import CHECK")
    target = "load_release(sys.argv[1] if len(sys.argv) > 1 else None)"
    if not finding.origin.target.startswith("sglang"):
        lines.append(f"from {builtin.replace('staleloc', 'embedded', 1)} import {target_class}")
        target = f"{target_class}()"
    lines.append("")
    if finding.divergence.kind == "hang":
        lines.append(f"faulthandler.dump_traceback_later({HANG_SECONDS}, exit=True)  # with exit code 1")
    return [
        *lines,
        f"target = {target}",
        *(f"# {line}" for line in textwrap.wrap(config_words(config), _WIDTH - 2)),
        *_wrapped(f"config = {config_expression(config)}"),
        f"engine = {engine}(target, config, {'None' if check is None else 'CHECK'})",
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
