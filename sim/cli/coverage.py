"""``staleloc coverage``: which lines of a target's own code tapes run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...models.config import LEVELS
from ..targets.base import ASKED, Pins
from .paths import FILE, TARGET, Command
from .pins import Drawn, config_options, drawn_as
from .text import MAX_SEED, cpus, features_of, finish, isolation_options, say, time_limit, warn

if TYPE_CHECKING:
    from ..coverage.report import Report

__all__ = ["coverage"]

DEFAULT_SECONDS = 60.0


def _patterns(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (it.strip() for it in (value or "").split(","))))


@click.command(cls=Command)
@click.option(
    "--target", type=TARGET, default="builtin", show_default=True, help="What to measure; see: staleloc targets list."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, MAX_SEED), help="Seed of the tapes.")
@click.option("--tapes", type=click.IntRange(min=1), help="Tapes of each level and combination, instead of a time.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Time for tapes, in equal parts for all levels and combinations.  [default: {DEFAULT_SECONDS:.0f}]",
)
@click.option("--workers", type=click.IntRange(1, 256), help="Processes.  [default: one a CPU]")
@click.option("--level", type=click.Choice(LEVELS), help="This level only.  [default: all levels and combinations]")
@click.option(
    "--features",
    metavar="A,B|A+B",
    callback=features_of,
    help=f"The engine level with some of {', '.join(ASKED)} only.",
)
@config_options
@click.option(
    "--files",
    callback=_patterns,
    metavar="A,B",
    help="Report only PATH or PATH:FUNCTION that matches one of these, such as 'srt/mem_cache/allocator/*'.",
)
@click.option(
    "--min",
    "minimum",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Exit code 1 if a smaller part of the drivable lines was run.",
)
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write a machine-readable report.")
@isolation_options
def coverage(
    target: str,
    seed: int,
    tapes: int | None,
    seconds: float | None,
    workers: int | None,
    level: str | None,
    features: tuple[tuple[str, ...], bool],
    pins: Pins,
    server: str | None,
    files: tuple[str, ...],
    minimum: float | None,
    json_file: Path | None,
) -> int:
    """Play scenarios and random tapes, and list which lines of the target's own cache code never run, and why.

    The tapes are those of `fuzz`, of every level and combination of features that the target has. A tape that diverges
    ends there; look at it with `fuzz`. Exit code 1 if --min is not reached.
    """
    from ..coverage.command import run
    from ..coverage.measure import Plan
    from ..findings.files import Writer
    from ..targets.registry import scope_of

    seconds = time_limit(tapes, "--tapes", seconds, DEFAULT_SECONDS)
    drawn = drawn_as(target, server, Drawn(level, features, pins))
    scope = scope_of(None, drawn.level, *drawn.features, pins=drawn.pins) if drawn.is_asked else None
    report = run(Plan(target, seed, tapes, seconds, workers or cpus(), scope, drawn.pins), files)
    say(report.text(), newline=False)
    for note in report.measured.notes:
        warn(note)
    writer = Writer()
    writer.write(json_file, lambda: json.dumps(report.to_json(), indent=1) + "\n")
    return finish(_code(report, minimum), writer.failed)


def _code(report: Report, minimum: float | None) -> int:
    if report.measured.interrupted:
        return 2
    if minimum is not None and not report.count.reaches(minimum):
        warn(f"{report.count.percent} % of the drivable lines were run, less than {minimum:g} %")
        return 1
    return 0
