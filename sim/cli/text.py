"""What commands share: output, kinds of options and their checks."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeVar

import click

from ...models.config import CHECKS
from ..core.text import printable
from ..targets.base import ASKED
from .paths import READ

__all__ = [
    "MAX_SEED",
    "check_seconds", "checks_option", "cpus", "events_file", "events_option", "features_of", "finish", "help_alone",
    "isolation_options", "open_streams", "say", "time_limit", "warn",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**64 - 1
"""The largest seed that commands take."""


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


_unsaid: list[str] = []
"""Why standard output did not take everything, if it did not: one line."""


def open_streams() -> None:
    """Begin a command: nothing is unsaid, and no file that is opened later becomes a standard stream.

    If a standard stream is closed, the next file would get its number, and whatever writes to that number (the engine,
    a fault handler) would write into the file.
    """
    _unsaid.clear()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail


def say(text: str, newline: bool = True, *, bold: bool = False) -> None:
    """Print to standard output, without control characters. If it takes no more, the command continues without it."""
    try:
        text = printable(text)
        click.echo(click.style(text, bold=True) if bold else text, nl=newline)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has read enough
        _discard_output()
    except OSError as error:
        _discard_output()
        _unsaid.append(f"standard output took not everything ({error.strerror or error})")


def _discard_output() -> None:
    """Let standard output take the rest, also what is left in its buffer when the process ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def warn(text: str) -> None:
    """Print one line to standard error, if that takes it."""
    with suppress(OSError):
        click.echo(f"staleloc: {printable(' '.join(text.split()))}", err=True)


def finish(code: int, failed: Sequence[str] = ()) -> int:
    """End a command: say what could not be written, and return the exit code, which is 2 then."""
    lost = [*failed, *_unsaid]
    _unsaid.clear()
    for line in lost:
        warn(line)
    return 2 if lost else code


def events_option(command: F) -> F:
    """A command's option ``--events``: the file is loaded before the command runs, for this process and its workers."""

    @functools.wraps(command)
    def with_events(*arguments: Any, events: str | None, **options: Any) -> Any:
        from ..parts import events_file

        events_file.load(events)
        return command(*arguments, **options)

    told = "Python file that declares events of your own; it is executed (see docs/EVENTS.md)."
    return click.option("--events", metavar="FILE", type=READ, help=told)(with_events)  # type: ignore[return-value]


def checks_option(command: F) -> F:
    """A command's option ``--checks``: the names in a list, in the order of `CHECKS`."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        names = [name.strip() for name in value.split(",")] if value is not None else []
        unknown = [name for name in names if name not in CHECKS]
        if unknown:
            raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(CHECKS)}", ctx, param)
        return tuple(name for name in CHECKS if name in names)

    told = (
        f"Checks at the engine level that are off by default, of {', '.join(CHECKS)}: a cached prefix that is lost is "
        "no wrong answer, but work done twice."
    )
    return click.option("--checks", metavar="NAMES", callback=read, help=told)(command)


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
