"""``staleloc explain``: which known bugs look like a symptom of production."""

from __future__ import annotations

import click

from ..targets.base import Pins
from .paths import TARGET, Command
from .pins import Drawn, config_options, drawn_as
from .text import finish, say

__all__ = ["explain"]

DEFAULT_LIMIT = 5


@click.command(cls=Command)
@click.argument("symptom")
@click.option("--target", type=TARGET, help="What the server runs: its scenarios come first.")
@config_options
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Scenarios that are shown at most.",
)
def explain(symptom: str, target: str | None, pins: Pins, server: str | None, limit: int) -> int:
    """List known bugs that look like SYMPTOM: a message of a log, or what was seen, in a few words.

    Nothing is run. Exit codes: 0 something matches, 1 nothing does, 2 an error.
    """
    from ..symptoms.report import explain as answer
    from ..symptoms.search import Server
    from ..targets.base import HOST, Scope
    from ..targets.registry import counterpart, parse, release_of, released

    if not symptom.strip():
        raise click.UsageError("SYMPTOM is empty; give a message, such as 'pool memory leak detected'")
    if target is not None:
        parse(target)
    known = released().releases
    recorded = target if target is None or target in known else counterpart(target, release_of(target))
    if recorded is not None and recorded not in known:
        raise click.UsageError(f"nothing is recorded of {target}; give a release, such as --target {known[-1]}")
    drawn = drawn_as(target or known[-1], server, Drawn(None, ((), False), pins))
    options: list[str] = []
    if drawn.is_asked or pins:
        features, together = drawn.features
        options = Scope(drawn.level or "engine", features, together, pins=drawn.pins).options
    flags = None if server is None else frozenset(drawn.features[0])
    text, found = answer(symptom, target, options, Server(recorded, flags, dict(drawn.pins).get(HOST, False)), limit)
    say(text, newline=False)
    return finish(0 if found else 1)
