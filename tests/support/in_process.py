"""The command line in this process: one command after the other, each in milliseconds.

What a process of its own has (signals, streams, a death) is tested with `warm` or `subprocess`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from staleloc.sim.cli.main import cli, run
from staleloc.sim.cli.paths import BASE, CHECKOUT, FILE, FOLDER, READ, TAPE, TAPES, TARGET

__all__ = ["KINDS", "PATHS", "SCENARIO", "Done", "call", "refused", "tree", "words"]

KINDS = (READ, FILE, FOLDER, TARGET, TAPE, TAPES, CHECKOUT, BASE)

SCENARIO = "pr26078-zero-tail"

_PATIENCE = 60
"""Seconds after which a command that waits for something that never comes is ended."""


@dataclass(frozen=True)
class Done:
    """A command that is over."""

    code: int
    out: str
    err: str


def call(*arguments: str) -> Done:
    """Run a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _own_signals():
        code = run(arguments)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Done(code, *texts)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def refused(done: Done, *said: str) -> bool:
    """Whether a command ended with exit code 2 and one line that says this."""
    lines = done.err.splitlines()
    fine = done.code == 2 and len(lines) == 1 and lines[0].startswith("staleloc: ") and "internal error" not in lines[0]
    return fine and "interrupted" not in lines[0] and all(it in lines[0] for it in said)


def _paths() -> list[tuple[str, click.Parameter]]:
    """Every option of every command that stands for files."""
    found: list[tuple[str, click.Parameter]] = []
    for name, command in cli.commands.items():
        found += [(name, param) for param in command.params if param.type in KINDS]
    return found


PATHS = _paths()


def words(command: str, *given: tuple[click.Parameter, str | os.PathLike[str]]) -> list[str]:
    """A command with these options; arguments that it needs beside them are added."""
    line = [command]
    for param in cli.commands[command].params:
        value = next((os.fspath(it) for other, it in given if other is param), None)
        if isinstance(param, click.Option) and value is not None:
            line += [param.opts[0], value]
    for param in cli.commands[command].params:
        if isinstance(param, click.Argument):
            line += ["--", next((os.fspath(it) for other, it in given if other is param), SCENARIO)]
    return line


def tree(folder: Path) -> dict[str, bytes]:
    """The plain files below a folder, by path."""
    return {str(it.relative_to(folder)): it.read_bytes() for it in sorted(folder.rglob("*")) if it.is_file()}
