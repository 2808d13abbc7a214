"""What commands share: their output, and the range of seeds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["MAX_SEED", "events_option", "help_alone", "say", "warn"]

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**64 - 1
"""The largest seed that commands take."""


def say(text: str, newline: bool = True) -> None:
    """Print to standard output. If nobody reads it any more, the command goes on in silence."""
    try:
        click.echo(text, nl=newline)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print one line to standard error."""
    click.echo(f"staleloc: {' '.join(text.split())}", err=True)


def events_option(command: F) -> F:
    """A command's option ``--events``: the file is loaded before the command runs, for this process and its workers."""

    def load(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        from ..parts import events_file as declaring

        declaring.load(value)

    told = "A Python file that declares events of your own; it is run (see docs/EVENTS.md)."
    return click.option("--events", metavar="FILE", expose_value=False, callback=load, help=told)(command)


def help_alone(ctx: click.Context) -> None:
    """A group without a command prints its help."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())
        ctx.exit(2)
