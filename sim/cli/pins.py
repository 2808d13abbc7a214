"""The options of commands that draw tapes and say what each of them is like: ``--config``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..targets.base import Pins
from ..targets.pins import PinError, read_pins

__all__ = ["config_option"]

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """A command's option ``--config``: fields of a config that have one value in every tape."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> Pins:
        try:
            return () if value is None else read_pins(value)
        except PinError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    told = (
        "Fields of the config that have one value in every random tape, such as page_size=64,window=128,host=on; "
        "layers are joined by +."
    )
    return click.option("--config", "pins", metavar="NAME=VALUE,...", callback=read, help=told)(command)
