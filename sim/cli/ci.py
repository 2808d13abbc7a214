"""``staleloc ci``: the gate for a change of a target."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..targets.base import Pins
from .paths import BASE, CHECKOUT, FILE, FOLDER, TAPES, Command
from .pins import Drawn, config_options, drawn_as
from .text import MAX_SEED, check_seconds, cpus, finish, isolation_options, say, warn

__all__ = ["ci"]

DEFAULT_MINUTES = 5.0


@click.command(cls=Command)
@click.option(
    "--target",
    type=CHECKOUT,
    default=".",
    show_default=True,
    help="Folder with a checkout, or a target; see: staleloc targets list.",
)
@click.option(
    "--base",
    "bases",
    type=BASE,
    multiple=True,
    metavar="REF|TARGET|FILE",
    help="What is known: a git ref of the checkout, a target, or a .json file of accepted findings.  "
    "[default: the release that the target is judged as]",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Time for everything, shrinking included.  [default: {DEFAULT_MINUTES:g}]",
)
@click.option(
    "--tapes",
    type=click.IntRange(min=1),
    help="Random tapes of each level and combination, instead of a time: the same result on any machine.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, MAX_SEED), help="Seed of the tapes.")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes.  [default: one a CPU]")
@click.option(
    "--kept",
    type=TAPES,
    metavar="DIR",
    help="Folder of kept tapes.  [default: that of --save]",
)
@click.option(
    "--corpus",
    type=FOLDER,
    metavar="DIR",
    help="Folder of tapes that grows: they are replayed first, random tapes go on where the last run ended, and those "
    "that reach new situations are added.",
)
@click.option(
    "--accept",
    "accept_file",
    type=FILE,
    metavar="FILE",
    help="Write the known findings (without --base all findings) to a file; give each a reason, then use it as --base.",
)
@config_options
@isolation_options
@click.option("--junit", "junit_file", type=FILE, metavar="FILE", help="Write JUnit XML.")
@click.option("--sarif", "sarif_file", type=FILE, metavar="FILE", help="Write a SARIF log for code scanning.")
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write the whole result.")
@click.option("--summary", "summary_file", type=FILE, metavar="FILE",
              help="Append a Markdown summary.  [default: $GITHUB_STEP_SUMMARY]")  # fmt: skip
@click.option("--github", is_flag=True, help="Print annotations for a pull request.  [default: in a GitHub workflow]")
@click.option(
    "--save",
    "folder",
    type=FOLDER,
    metavar="DIR",
    default="staleloc-tapes",
    show_default=True,
    help="Folder for minimal tapes; created with the first new finding.",
)
def ci(
    target: str,
    bases: tuple[str, ...],
    minutes: float | None,
    tapes: int | None,
    seed: int,
    workers: int | None,
    kept: Path | None,
    corpus: Path | None,
    accept_file: Path | None,
    pins: Pins,
    server: str | None,
    junit_file: Path | None,
    sarif_file: Path | None,
    json_file: Path | None,
    summary_file: Path | None,
    github: bool,
    folder: Path,
) -> int:
    """Judge a change: play scenarios, kept tapes, then random tapes of all levels and combinations of features.

    A divergence that a base shows as well is known. A ref is read with git archive; your work tree is not touched.
    Exit codes: 0 nothing new, 1 a new finding or an incident that is back, 2 an error, nothing played, or interrupted.
    """
    from ..findings.files import Writer
    from ..findings.saves import Saves
    from ..gate.checkout import locate
    from ..gate.command import GateRequest, run
    from ..gate.formats import to_annotations
    from ..gate.outputs import GateOutputs
    from ..gate.report import to_text
    from ..targets.registry import scope_of

    if minutes is not None and tapes is not None:
        raise click.UsageError("--tapes and --minutes exclude each other; give one")
    check_seconds(minutes, "--minutes")
    seconds = None if tapes is not None else 60 * (DEFAULT_MINUTES if minutes is None else minutes)
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    outputs = GateOutputs(
        junit_file, sarif_file, json_file, summary_file or (Path(step) if step else None), accept_file
    )
    accepted, writer = outputs.accepted(), Writer()
    drawn = Drawn(None, ((), False), pins)
    if server is not None:
        drawn = drawn_as(locate(target).target, server, drawn)
    request = GateRequest(
        target,
        bases,
        seed,
        seconds,
        tapes,
        workers or cpus(),
        kept,
        corpus,
        minimal=accept_file is not None,
        scope=scope_of(None, drawn.level, *drawn.features, pins=drawn.pins) if drawn.is_asked else None,
        pins=drawn.pins,
    )
    result = run(request, folder, Saves(folder, writer))
    say(to_text(result), newline=False)
    for warning in result.warnings:
        warn(warning)
    if github or os.environ.get("GITHUB_ACTIONS") == "true":
        for line in to_annotations(result):
            say(line)
    for line in outputs.write(result, accepted, bool(bases), writer):
        warn(line)
    fails = bool(result.failures) and bool(bases or accept_file is None)
    return finish(1 if fails else 2 if result.interrupted else 0, writer.failed)
