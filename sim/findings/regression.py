"""A short pytest module that plays one tape on a target: a regression test for the engine's own tests."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.hooks import FromFile
from ..tapes.codec import TapeError, to_json
from .explain import fact
from .finding import our_version

__all__ = ["MAX_LINES", "regression_test"]

MAX_LINES = 40
"""Lines of the module at most."""

_WIDTH = 116

_MODULE = '''"""{title}

Written by staleloc {version}. To test another target: STALELOC_TARGET=NAME pytest THIS_FILE
"""

import os

from staleloc.sim.run.player import replay
from staleloc.sim.tapes.codec import loads

TARGET = os.environ.get("STALELOC_TARGET", {target})

TAPE = """
{tape}
"""


def test_{name}() -> None:
    """The tape plays to its end without a difference between the target and the reference model."""
    divergence = replay(loads(TAPE), TARGET{mutant}).divergence
    assert divergence is None, f"{{divergence.kind}}: {{divergence.what}}"
'''


def regression_test(name: str, tape: Tape, divergence: Divergence | None, target: str, mutant: str | None) -> str:
    """Return the text of the module.

    Args:
        name: what the user called the tape.
        divergence: what the tape shows now, or None.

    Raises:
        TapeError: the tape has events of a user's file, which the module would lack.
    """
    own = [event.kind for event in tape.events if isinstance(event, FromFile)]
    if own:
        raise TapeError(f"{name}: {own[0]} is declared in a file, which a test would lack; use --repro")
    stem = re.sub(r"\W+", "_", name.rpartition("/")[2].removesuffix(".json")).strip("_").lower()
    told = f"{divergence.kind}: {fact(divergence)}" if divergence is not None else f"No divergence of {name}"
    text = _MODULE.format(
        title=_line(told),
        version=our_version(),
        target=json.dumps(target),
        tape="{tape}",
        name=stem or "tape",
        mutant="" if mutant is None else f", {json.dumps(mutant)}",
    )
    room = MAX_LINES - text.count("\n") + 1
    return text.replace("{tape}", _wrapped(replace(tape, provenance=None), room))


def _line(text: str) -> str:
    """Return the first line of a docstring."""
    plain = " ".join(text.replace("\\", "/").replace('"', "'").split())
    return (plain if len(plain) < _WIDTH - 4 else f"{plain[: _WIDTH - 8]}...") + "."


def _wrapped(tape: Tape, room: int) -> str:
    """Return the tape as JSON in at most `room` lines, which are longer than usual if there is no other way."""
    values = to_json(tape)
    head = [f'{{"format": {json.dumps(values["format"])},', f'"version": {values["version"]},']
    fields = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in values["config"].items()]
    head += [f'"config": {{{fields[0]}', *fields[1:-1], f"{fields[-1].removesuffix(',')}}},"]
    events = [f"{json.dumps(it)}," for it in values["events"]]
    if events:
        events[-1] = events[-1].removesuffix(",")
    width = _WIDTH
    while True:
        lines = [*_filled(head, width), '"events": [', *_filled(events, width), "]}"]
        if len(lines) <= room:
            return "\n".join(lines)
        width *= 2


def _filled(parts: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines
