"""The command line: ``staleloc fuzz``, ``replay``, ``targets``, ``mutants``, ``scenarios``, ``matrix``,
``audit``, ``coverage``, ``ci``, ``explain``.

Exit codes: 0 nothing found, 1 divergence found, 2 wrong usage, a target that cannot be loaded, a tape that does not
fit the target, or interrupted before a finding. An error is one line on standard error. Heavy modules are imported by
the commands that need them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from ...models.config import LEVELS
from ..targets.base import ASKED, Pins
from .audit import audit
from .ci import ci
from .coverage import coverage
from .explain import explain
from .matrix import matrix
from .paths import BASE, FILE, FOLDER, TAPE, TARGET, Command
from .pins import Drawn, config_options, drawn_as
from .targets import mutants, scenarios, targets
from .text import (
    MAX_SEED,
    checks_option,
    cpus,
    events_file,
    events_option,
    features_of,
    finish,
    help_alone,
    isolation_options,
    open_streams,
    say,
    time_limit,
    warn,
)  # fmt: skip

__all__ = ["cli", "main", "run"]

DEFAULT_SECONDS = 30.0


_LEVEL_HELP = (
    "Single calls of the cache's API, or whole requests with a prefix tree and a host tier.  "
    f"[default: the mutant's, or {LEVELS[0]}]"
)

_FEATURES_HELP = (
    f"Features at the engine level, of {', '.join(ASKED)}. With commas, each tape has one or more of "
    "them; with +, as in disagg+spec, each tape has all."
)


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="staleloc", message="staleloc %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Does the KV-cache code of an LLM serving engine send every token to the slot it should?

    Plays random event tapes on a target and on a reference model, and reports the first difference. A target is
    builtin, builtin:POLICY, builtin@FOLDER, sglang==VERSION or sglang@PATH. Exit codes: 0 nothing found,
    1 divergence found, 2 wrong usage, a target that cannot be loaded, a tape that does not fit the target,
    or interrupted before a finding.
    """
    help_alone(ctx)


@cli.command(cls=Command)
@click.option(
    "--target", type=TARGET, default="builtin", show_default=True, help="What to test; see: staleloc targets list."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, MAX_SEED), help="Seed of the tapes.")
@click.option("--tapes", type=click.IntRange(min=1), help="Stop after this many tapes.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Stop after this time.  [default: {DEFAULT_SECONDS:.0f}]",
)
@click.option("--workers", type=click.IntRange(1, 256), help="Processes.  [default: one a CPU]")
@click.option("--first", is_flag=True, help="Stop at the first divergence.")
@click.option("--mutant", metavar="NAME", help="Play a mutant of the target; see: staleloc mutants list.")
@click.option("--level", type=click.Choice(LEVELS), help=_LEVEL_HELP)
@click.option("--features", metavar="A,B|A+B", callback=features_of, help=_FEATURES_HELP)
@config_options
@checks_option
@events_option
@isolation_options
@click.option(
    "--base",
    "bases",
    type=BASE,
    multiple=True,
    metavar="REF|TARGET|FILE",
    help="What is known, as for ci: exit code 1 only for findings that no base shows.",
)
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write a machine-readable summary.")
@click.option(
    "--repro", "repro_file", type=FILE, metavar="FILE", help="Write a script that shows the first divergence."
)
@click.option(
    "--save",
    "folder",
    type=FOLDER,
    metavar="DIR",
    default="staleloc-tapes",
    show_default=True,
    help="Folder for minimal tapes; created with the first finding.",
)
def fuzz(
    target: str,
    seed: int,
    tapes: int | None,
    seconds: float | None,
    workers: int | None,
    first: bool,
    mutant: str | None,
    level: str | None,
    features: tuple[tuple[str, ...], bool],
    pins: Pins,
    server: str | None,
    checks: tuple[str, ...],
    bases: tuple[str, ...],
    json_file: Path | None,
    repro_file: Path | None,
    folder: Path,
) -> int:
    """Play random tapes on a target, and shrink those that diverge."""
    from ..findings.finding import Origin
    from ..run.campaign import Budget
    from ..targets.registry import scope_of
    from . import run as cli_run

    seconds = time_limit(tapes, "--tapes", seconds, DEFAULT_SECONDS)
    outputs = cli_run.Outputs(json_file, repro_file, folder)
    drawn = drawn_as(target, server, Drawn(level, features, pins))
    scope = scope_of(mutant, drawn.level, *drawn.features, checks, drawn.pins)
    origin = Origin(target, mutant=mutant, seed=seed, scope=scope)
    return cli_run.fuzz(origin, Budget(tapes, seconds, first), workers or cpus(), outputs, bases)


@cli.command(cls=Command)
@click.argument("tape", type=TAPE)
@click.option(
    "--target",
    type=TARGET,
    help="What to play it on.  [default: builtin; a tape file that was found elsewhere needs it]",
)
@click.option("--mutant", metavar="NAME", help="Play a mutant of the target; see: staleloc mutants list.")
@checks_option
@events_option
@isolation_options
@click.option(
    "--times", default=1, show_default=True, type=click.IntRange(1, 10_000), help="Number of times to play it."
)
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write a machine-readable summary.")
@click.option("--repro", "repro_file", type=FILE, metavar="FILE", help="Write a script that shows the divergence.")
@click.option("--pytest", "test_file", type=FILE, metavar="FILE", help="Write a pytest module that plays the tape.")
def replay(
    tape: str,
    target: str | None,
    mutant: str | None,
    checks: tuple[str, ...],
    times: int,
    json_file: Path | None,
    repro_file: Path | None,
    test_file: Path | None,
) -> int:
    """Play TAPE: a tape file, or the name of a packaged scenario."""
    from . import run as cli_run

    return cli_run.replay(tape, target, mutant, checks, times, cli_run.Outputs(json_file, repro_file, None, test_file))


cli.add_command(ci)
cli.add_command(explain)
cli.add_command(audit)
cli.add_command(targets)
cli.add_command(mutants)
cli.add_command(scenarios)
cli.add_command(matrix)
cli.add_command(coverage)


def main() -> NoReturn:
    """Run the command line; every error is one line."""
    if (file := events_file(sys.argv[1:])) is not None:
        from .supervisor import supervised

        open_streams()
        sys.exit(supervised(run, file))
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the command and its options; None for those of the process.
    """
    _hear_signals()
    open_streams()
    try:
        code = cli.main(arguments, prog_name="staleloc", standalone_mode=False)
        say("", newline=False)
        return finish(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        warn(error.format_message())
    except (KeyboardInterrupt, click.Abort):
        warn("interrupted")
    except Exception as error:
        if not _is_plain(error):
            if os.environ.get("STALELOC_TRACEBACK"):
                raise
            warn(
                f"internal error, please report it: {type(error).__name__}: {error} (STALELOC_TRACEBACK=1 shows where)"
            )
        else:
            warn(str(error) or "out of memory")
    return 2


def _hear_signals() -> None:
    """An ended run prints its results so far, also when its terminal is gone. With nohup it goes on then."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)


def _is_plain(error: Exception) -> bool:
    """Whether the message was written for users."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return True
    from ..findings.files import KeepError
    from ..run.player import Unplayable
    from ..tapes.codec import TapeError
    from ..targets.base import TargetError

    return isinstance(error, TapeError | TargetError | Unplayable | KeepError | OSError)
