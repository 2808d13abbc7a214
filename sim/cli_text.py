"""What commands share: their output, and the range of seeds."""

from __future__ import annotations

import os
import sys

import click

__all__ = ["MAX_SEED", "help_alone", "say", "warn"]

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


def help_alone(ctx: click.Context) -> None:
    """A group without a command prints its help."""
    if ctx.invoked_subcommand is None:
        say(ctx.get_help())
        ctx.exit(2)
