"""What commands share: output, kinds of options and their checks."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.text import printable
from ..targets.base import ASKED

__all__ = [
    "FILE", "FOLDER", "MAX_SEED",
    "check_seconds", "cpus", "events_file", "events_option", "features_of", "help_alone", "isolation_options",
    "say", "time_limit", "warn",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**64 - 1
"""The largest seed that commands take."""


FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def check_seconds(seconds: float | None, option: str) -> None:
    """Raise BadParameter for a number that is no time."""
    if seconds is not None and not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a time", param_hint=f"'{option}'")


def time_limit(counted: int | None, option: str, seconds: float | None, default: float | None) -> float | None:
    """The seconds to play: those given, or the default if nothing is counted. Raise UsageError for both."""
    if counted is not None and seconds is not None:
        raise click.UsageError(f"{option} and --seconds exclude each other; give one")
    check_seconds(seconds, "--seconds")
    return default if counted is None and seconds is None else seconds


def say(text: str, newline: bool = True, *, bold: bool = False) -> None:
    """Print to standard output, without control characters. If the reader is gone, the command continues without
    output."""
    try:
        text = printable(text)
        click.echo(click.style(text, bold=True) if bold else text, nl=newline)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print one line to standard error."""
    click.echo(f"staleloc: {printable(' '.join(text.split()))}", err=True)


def events_option(command: F) -> F:
    """A command's option ``--events``: the file is loaded before the command runs, for this process and its workers."""

    def load(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        from ..parts import events_file as declaring

        declaring.load(value)

    told = "Python file that declares events of your own; it is executed (see docs/EVENTS.md)."
    return click.option("--events", metavar="FILE", expose_value=False, callback=load, help=told)(command)


def isolation_options(command: F) -> F:
    """A command's options ``--no-network`` and ``--trusted``: what its workers may do."""

    def choose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            from ..run.isolation import Isolation, choose, chosen

            if chosen() is not Isolation.USUAL:
                raise click.UsageError("--no-network and --trusted exclude each other; give one")
            choose(Isolation.TRUSTED if param.name == "trusted" else Isolation.OFFLINE)

    offline = "Start no target unless the system can keep it from the network, as it is kept where that works."
    trusted = "Give targets your environment variables, home, folder and network, and no limits."
    for name, told in (("--trusted", trusted), ("--no-network", offline)):
        command = click.option(name, is_flag=True, expose_value=False, callback=choose, help=told)(command)
    return command


def events_file(words: Sequence[str]) -> str | None:
    """The file that a command line gives with ``--events``, or None."""
    for word, after in zip_longest(words, words[1:]):
        if word == "--events":
            return after
        if word.startswith("--events="):
            return word.partition("=")[2]
    return None


def help_alone(ctx: click.Context) -> None:
    """A group without a command prints its help."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())
        ctx.exit(2)


def features_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[tuple[str, ...], bool]:
    """The value of ``--features``: the names in a list, and whether plus signs join them: all in one tape."""
    together = value is not None and "+" in value
    names = tuple(name.strip() for name in value.split("+" if together else ",")) if value is not None else ()
    unknown = [name for name in names if name not in ASKED]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(ASKED)}", ctx, param)
    return names, together


def cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
