"""The options that say what each random tape is like: ``--config``, and ``--server-args``, from which it is made."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..targets.base import ASKED, Pins, shown_pins
from ..targets.pins import PinError, ordered, read_pins
from .text import say

__all__ = ["Drawn", "config_options", "drawn_as"]

F = TypeVar("F", bound=Callable[..., Any])


def config_options(command: F) -> F:
    """A command's options ``--config`` and ``--server-args``."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> Pins:
        try:
            return () if value is None else read_pins(value)
        except PinError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    config = (
        "Fields of the config that have one value in every random tape, such as page_size=64,window=128,host=on; "
        "layers are joined by +."
    )
    server = (
        "Flags of a server of the target, or the ServerArgs(...) of its log: features and config are read from them, "
        "and long lengths are scaled. --features adds to them, --config comes first."
    )
    command = click.option("--server-args", "server", metavar="FLAGS", help=server)(command)
    return click.option("--config", "pins", metavar="NAME=VALUE,...", callback=read, help=config)(command)


@dataclass(frozen=True)
class Drawn:
    """What random tapes are asked to be like.

    Attributes:
        level: the level, or None if it was not said.
        features: as ``--features`` gives them: the names, and whether each tape has all.
    """

    level: str | None
    features: tuple[tuple[str, ...], bool]
    pins: Pins

    @property
    def is_asked(self) -> bool:
        """Whether a level or features are asked for."""
        return self.level is not None or bool(self.features[0])


def drawn_as(target: str, server: str | None, asked: Drawn) -> Drawn:
    """What is asked for, with what a server's flags add to it, which is printed.

    Raises:
        TargetError: the flags cannot be read.
        UsageError: they do not go with the options beside them.
    """
    if server is None:
        return asked
    if asked.level not in (None, "engine"):
        raise click.UsageError(f"--server-args go with --level engine; leave out --level {asked.level}")
    from ..targets.registry import parse

    shape = parse(target).family.read_server(server, asked.features[0])
    given = dict(asked.pins)
    theirs = {name: value for name, value in shape.pins.items() if name not in given}
    if given.get("host") is False:
        theirs.pop("write_policy", None)
    features = tuple(name for name in ASKED if name in shape.features)
    try:
        pins = ordered({**theirs, **given})
    except PinError as error:
        raise click.UsageError(str(error)) from None
    words = ["--level", "engine"]
    words += ["--features", "+".join(features)] if features else []
    words += ["--config", shown_pins(pins)] if pins else []
    say(f"the server's flags: {shlex.join(words)}")
    if shape.scaled:
        say(f"  scaled, as tapes are short (--config keeps a value): {'; '.join(shape.scaled)}")
    for why in dict.fromkeys(why for _, why in shape.ignored):
        say(f"  ignored: {', '.join(flag for flag, reason in shape.ignored if reason == why)} ({why})")
    return Drawn("engine", (features, len(features) > 1), pins)
