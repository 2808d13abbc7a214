"""``staleloc matrix``: which release shows which incident, by its tape and by blind fuzzing."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import click

from ..matrix.measurements import BLIND, MAX_SECONDS, MAX_TAPES, SECONDS
from .paths import FILE, TARGET, Command
from .text import finish, isolation_options, say, time_limit, warn

__all__ = ["matrix"]

_MAX_SEEDS = 1000


def _seeds(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """The numbers in a list such as ``0-4`` or ``0,3``."""
    if value is None:
        return None
    ranges = [_range(part) for part in value.split(",")]
    if not all(ranges) or sum(map(len, ranges)) > _MAX_SEEDS:
        raise click.BadParameter(f"{value!r} is not a list of seeds; use for example 0-4 or 0,3", ctx, param)
    return tuple(dict.fromkeys(itertools.chain(*ranges)))


def _range(part: str) -> range:
    """The numbers of ``3`` or ``0-4``, none of anything else; of too many some, one more than may be."""
    found = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
    if found is None:
        return range(0)
    first = int(found[1])
    return range(first, min(int(found[2] or first), first + _MAX_SEEDS) + 1)


def _targets(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of targets of an engine with releases; a version alone is a release."""
    from ..targets.registry import families, released

    family = released()
    names = [name.strip() for text in value for name in text.split(",")]
    named = [f"{family.name}=={name}" if re.fullmatch(r"\d+(\.\w+)+", name) else name for name in names]
    begins = [it.begins for it in families() if it.releases]
    strange = [name for name in named if not re.match("|".join(begins), name)]
    if strange:
        raise click.BadParameter(
            f"{strange[0]!r} is not a release of {family.title}; use for example 0.5.12", ctx, param
        )
    return tuple(named)


@click.command(cls=Command)
@click.option(
    "--targets",
    type=TARGET,
    multiple=True,
    callback=_targets,
    metavar="A,B",
    help="Releases.  [default: all known ones]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True, max=MAX_SECONDS),
    help=f"Processor time of each hunt.  [default: {SECONDS:.0f}]",
)
@click.option(
    "--tapes", type=click.IntRange(1, MAX_TAPES), help="Tapes of each hunt; gives the same result on every machine."
)
@click.option(
    "--seeds", callback=_seeds, metavar="0-4", help="Seeds of the hunts; the table shows the median.  [default: 0-4]"
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Hunts at the same time.")
@click.option(
    "--blind",
    type=click.Choice(BLIND),
    default=BLIND[0],
    show_default=True,
    help="Fuzz everywhere, only where no tape diverges, or nowhere.",
)
@click.option("--show", is_flag=True, help="Measure nothing: show the contents of the --json file.")
@click.option(
    "--json",
    "json_file",
    type=FILE,
    metavar="FILE",
    help="Save the measurements; a later run continues from this file.  [default: nothing is saved]",
)
@click.option("--html", type=FILE, metavar="FILE", help="Write the table as a page.")
@click.option(
    "--markdown",
    type=FILE,
    multiple=True,
    metavar="FILE",
    help="Write the table as a Markdown page, or between the marks of a file.",
)
@isolation_options
def matrix(
    targets: tuple[str, ...],
    seconds: float | None,
    tapes: int | None,
    seeds: tuple[int, ...] | None,
    workers: int,
    blind: str,
    show: bool,
    json_file: Path | None,
    html: Path | None,
    markdown: tuple[Path, ...],
) -> int:
    """Show which SGLang release has which incident.

    Each scenario is replayed on each release. Each release is also fuzzed without knowledge of the scenarios, once for
    each level and seed, until every scenario that diverges there was found or the budget is spent. Where no scenario
    diverges, only the first seed is fuzzed, to the end of the budget. Exit code 1: a release diverges although the
    record says that it is fixed and the scenario does not list it, or fuzzing finds a bug where no scenario diverges.
    """
    from ..findings.files import Writer
    from ..matrix import command
    from ..matrix.measurements import HuntBudget

    seconds = time_limit(tapes, "--tapes", seconds, None)
    if show and json_file is None:
        raise click.UsageError("--show needs a file; give it with --json")
    budget = None if tapes is None and seconds is None else HuntBudget(tapes, seconds)
    asked = command.Asked(targets, seeds, budget, workers, blind, measure=not show)
    outputs = command.MatrixOutputs(json_file, html, markdown)
    writer = Writer()
    new, interrupted, _ = command.run(asked, outputs, writer, lambda text: say(text, newline=False))
    if interrupted:
        warn("interrupted; these are the measurements so far")
    return finish(1 if new else 2 if interrupted else 0, writer.failed)
