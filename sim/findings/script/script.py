"""A stand-alone script that shows a divergence with nothing but torch and the engine: no import of ours.

The adapter, the play of each event and the check come along as sources, so a script does exactly what was fuzzed.
"""

from __future__ import annotations

import re
import textwrap

from ...parts.hooks import loaded
from ...targets.family import ScriptTarget
from ...targets.mutants import MUTANTS
from ...targets.registry import parse
from ..describe import steps
from ..explain import fact, sentence
from ..finding import Finding, our_version
from .calls import OWN, main_text, roots
from .embed import LOADER, in_script, sources_of
from .runtime import HANG_SECONDS

__all__ = ["script"]

_RUNTIME = "staleloc.sim.findings.script.runtime"

_NODE = re.compile(r"\bnode \d+\b")
"""A node's name: it depends on what the process did before."""

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
except ImportError as missing:
    print(f"this script needs torch ({missing})", file=sys.stderr)
    sys.exit(2)
"""

_END = """if __name__ == "__main__":
    sys.meta_path.insert(0, Embedded())
    from {module} import {name}

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
    own = {OWN: file.text} if file is not None and asked else {}
    sources = sources_of(target, (*roots(finding, target), _RUNTIME), own)
    name, more = ("run_apart", f', "{finding.divergence.kind}"') if _apart(finding) else ("run", "")
    end = _END.format(module=in_script(_RUNTIME), name=name, call=f"{name}(main, MADE_FOR{more})")
    start = f"#!/usr/bin/env python3\n{_header(finding, target)}\n{_START}"
    made_for = f"MADE_FOR = {target.made_for!r}"
    return "\n\n".join([start, "\n\n\n".join([main_text(finding, target), made_for, LOADER.strip(), *sources, end])])


def _apart(finding: Finding) -> bool:
    """Whether the engine may never come back, or take its process with it."""
    return finding.divergence.kind == "hang" or finding.divergence.event < 0


def _header(finding: Finding, target: ScriptTarget) -> str:
    origin, divergence = finding.origin, finding.divergence
    defect = f" with mutant {origin.mutant}" if origin.mutant else ""
    said = dict.fromkeys((fact(divergence), sentence(divergence, finding.tape)))
    waits = f"A step may take {HANG_SECONDS:g} seconds, or as many as the environment variable HANG_SECONDS says.\n"
    text = (
        f"{divergence.kind} in {origin.target}{defect}, {finding.tape.config.pool} pool\n\n"
        + "".join(f"{_wrap(_NODE.sub('a node', line))}\n" for line in said)
        + f"\n{_steps(finding)}{target.run}\n\n"
        "Exit code 1: the bug shows; 0: it does not; 2: the engine could not be loaded or driven.\n"
        f"{waits if _apart(finding) else ''}"
        f"Written by staleloc {our_version()}, which it does not need. With it:\n\n    {origin.again}"
    )
    return '"""' + text.replace("\\", "\\\\").replace('"', "'") + '\n"""'


def _steps(finding: Finding) -> str:
    """The steps for people."""
    stop = finding.divergence.event + 1 or None
    width = max([13, *(len(event.kind) for event in finding.tape.events[:stop])])
    lines = []
    for number, (event, words) in enumerate(zip(finding.tape.events[:stop], steps(finding.tape), strict=False), 1):
        line = f"  {'>' if number == stop else ' '} {number:3}  {event.kind:{width}}  {words}"
        lines += textwrap.wrap(line, 110, subsequent_indent=" " * (width + 11))
    return "\n".join([*lines, "", ""])


def _wrap(text: str) -> str:
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)
