"""``staleloc targets``, ``mutants`` and ``scenarios``: what can be tested, broken on purpose, and played."""

from __future__ import annotations

import click

from ..parts.events_file import BY_NAME
from ..targets.base import Profile
from .text import help_alone, isolation_options, say

__all__ = ["mutants", "scenarios", "targets"]

_FLAGS = {
    "per_forward": (
        "the caller translates once per forward and passes the result to every layer",
        "the pool translates at each layer, with or without a cache",
    ),
    "restores_mapping": (
        "restore also restores the mapping",
        "restore does not change the mapping; entries of slots without an owner may keep their last value",
    ),
    "precomputed": ("accepts a translation made in advance (set_swa_loc)", "accepts no translation made in advance"),
    "all_swa": ("every layer is an SWA layer", "layers are full or SWA layers"),
}
"""Flag of a profile -> what it says when set, and when not."""

_EVENTS_PER_LINE = 7


@click.group(invoke_without_command=True)
@click.pass_context
def targets(ctx: click.Context) -> None:
    """List, show and download targets."""
    help_alone(ctx)


@targets.command("list")
def list_targets() -> None:
    """List the targets that are here, and how to name others."""
    from ..findings.text import columns
    from ..run.process import WorkerProcess
    from ..targets.registry import families

    def policies(target: str) -> list[str]:
        with WorkerProcess(target) as worker:
            return list(dict.fromkeys(policy for profile in worker.profiles for policy in profile.policies))

    say("\n".join(columns([row for family in families() for row in family.rows(policies)], indent="")))


@targets.command("add")
@click.argument("spec")
def add_target(spec: str) -> None:
    """Download SPEC (sglang==VERSION or sglang@FILE.whl) now, so that later runs need no network."""
    from ..targets.registry import add

    say(add(spec))


@targets.command("show")
@click.argument("spec")
@isolation_options
def show_target(spec: str) -> None:
    """Show what SPEC can do, and which parts of it are replaced."""
    from ..findings.text import columns
    from ..run.process import WorkerProcess
    from ..targets.registry import release_of

    release_of(spec)
    with WorkerProcess(spec) as worker:
        profiles, stand_ins = worker.profiles, worker.stand_ins
    lines = [spec]
    for profile in profiles:
        also = f" with {' and '.join(profile.features)}" if profile.features else ""
        lines += ["", f"{profile.pool} pool, {profile.level} level{also}", *columns(_facts(profile))]
    for kind, words in (
        ("replaced", "replaced, because it needs a GPU or a server around it"),
        ("given", "values that stubbed modules return"),
    ):
        if stand_ins[kind]:
            lines += ["", words, *columns(stand_ins[kind])]
    say("\n".join(lines))


def _facts(profile: Profile) -> list[tuple[str, str]]:
    events = [kind for kind in BY_NAME if kind in profile.events]
    lines = range(0, len(events), _EVENTS_PER_LINE)
    listed = [", ".join(events[i : i + _EVENTS_PER_LINE]) + "," for i in lines]
    listed[-1] = listed[-1].removesuffix(",")
    return [
        ("policies", ", ".join(profile.policies)),
        ("page sizes", ", ".join(map(str, profile.page_sizes))),
        ("dtypes", ", ".join(profile.dtypes)),
        *((name, words[not getattr(profile, name)]) for name, words in _FLAGS.items()),
        *(("" if number else "events", line) for number, line in enumerate(listed)),
        *((f"no {kind}", reason) for kind, reason in sorted(profile.missing.items())),
        *((f"never {situation}", reason) for situation, reason in sorted(profile.unreachable.items())),
        *((f"not {' + '.join(parts)}", reason) for parts, reason in sorted(profile.excluded.items())),
    ]


@click.group(invoke_without_command=True)
@click.pass_context
def mutants(ctx: click.Context) -> None:
    """List mutants: targets with one defect each."""
    help_alone(ctx)


@mutants.command("list")
def list_mutants() -> None:
    """List every mutant with its target and its defect."""
    from ..findings.text import columns
    from ..targets.mutants import MUTANTS

    say("\n".join(columns([(mutant.name, mutant.target, mutant.story) for mutant in MUTANTS.values()], indent="")))


@click.group(invoke_without_command=True)
@click.pass_context
def scenarios(ctx: click.Context) -> None:
    """List the tapes of reported incidents."""
    help_alone(ctx)


@scenarios.command("list")
def list_scenarios() -> None:
    """List every scenario with its public reports and the releases on which a test sees it diverge.

    It may diverge on others: staleloc matrix tests all, and docs/MATRIX.md shows the result. Play one with staleloc
    replay NAME.
    """
    from ..findings.text import columns
    from ..tapes import scenarios as packaged
    from ..targets.registry import short_name

    rows = [("scenario", "class", "public reports", "diverges on (tested; for all releases see docs/MATRIX.md)")]
    rows += [(it.name, it.kind, it.incident, ", ".join(map(short_name, it.diverges))) for it in packaged.scenarios()]
    say("\n".join(columns(rows, indent="")))
