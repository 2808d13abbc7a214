"""``staleloc audit``: which places change the mapping, and whether a cached translation can outlive one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .paths import FILE, FOLDER, TARGET, Command
from .text import MAX_SEED, check_seconds, events_option, finish, isolation_options, say, time_limit, warn

__all__ = ["audit"]

DEFAULT_SECONDS = 20.0

EACH_SECONDS = 10.0
"""On the embedded target what is noticed at all is noticed within two."""


@click.command(cls=Command)
@click.option(
    "--target", type=TARGET, default="builtin", show_default=True, help="What to audit; see: staleloc targets list."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, MAX_SEED), help="Seed of the tapes.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    help="Stop after this many rounds of tapes at every level, instead of a time.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Time to play tapes.  [default: {DEFAULT_SECONDS:.0f}]",
)
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option(
    "--guards",
    default="*",
    metavar="A,B",
    help="Remove only guards in PATH:FUNCTION that matches one of these, such as 'srt/mem_cache/allocator/*'.",
)
@click.option(
    "--each",
    type=click.FloatRange(min=0, min_open=True),
    default=EACH_SECONDS,
    show_default=True,
    help="Processor time for the tapes with one guard removed, in seconds.",
)
@events_option
@isolation_options
@click.option(
    "--strict", is_flag=True, help="Exit code 1 also for unproven sites, unnoticed guards and unexplained divergences."
)
@click.option("--github", is_flag=True, help="Print annotations for a pull request.")
@click.option("--prefix", default="", metavar="PATH", help="Folder of the target's sources in the repository.")
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write the whole result.")
@click.option("--html", "html_file", type=FILE, metavar="FILE", help="Write the whole result as a page.")
@click.option("--sarif", "sarif_file", type=FILE, metavar="FILE", help="Write a SARIF log for code scanning.")
@click.option(
    "--save",
    "folder",
    type=FOLDER,
    metavar="DIR",
    default="staleloc-tapes",
    show_default=True,
    help="Folder for minimal tapes; created with the first finding.",
)
def audit(
    target: str,
    seed: int,
    rounds: int | None,
    seconds: float | None,
    workers: int,
    guards: str,
    each: float,
    strict: bool,
    github: bool,
    prefix: str,
    json_file: Path | None,
    html_file: Path | None,
    sarif_file: Path | None,
    folder: Path,
) -> int:
    """Find every mutation site, play tapes through it, and remove its guards one at a time.

    Verdicts: safe (live translations were requested again, and without any one of its invalidations a tape diverges),
    unguarded (a cached translation outlived it; a tape shows this), unproven (the report says what is missing). Exit
    code 1 if a site is unguarded.
    """
    from ..audit.play.coverage import AuditBudget
    from ..audit.report.command import AuditOutputs, run
    from ..findings.files import Writer
    from ..findings.saves import Saves

    seconds = time_limit(rounds, "--rounds", seconds, DEFAULT_SECONDS)
    check_seconds(each, "--each")
    prefix = f"{prefix.rstrip('/')}/" if prefix else ""
    writer = Writer()
    show = warn if sys.stderr.isatty() else lambda text: None
    budget = AuditBudget(seed, rounds, seconds, workers, each)
    result = run(target, budget, Saves(folder, writer), show, guards, prefix)
    say(result.text)
    for finding in result.findings:
        say(f"\n{finding}")
    if github:
        say("\n".join(result.annotations))
    AuditOutputs(json_file, sarif_file, html_file, prefix).write(result.audit, writer)
    return finish(result.code(strict), writer.failed)
