"""``staleloc targets``, ``mutants`` and ``scenarios``: what can be tested, broken on purpose, and played."""

from __future__ import annotations

import click

from ..parts.events_file import BY_NAME
from ..targets.base import Profile
from .text import help_alone, say

__all__ = ["mutants", "scenarios", "targets"]

_FLAGS = {
    "per_forward": (
        "the caller translates once a forward and hands the result to every layer",
        "the pool translates at each layer, from a cache or not",
    ),
    "restores_mapping": (
        "restore puts the mapping back too",
        "restore leaves the mapping alone; entries of slots that nobody owns may keep their last value",
    ),
    "precomputed": ("takes a translation made up front (set_swa_loc)", "takes no translation made up front"),
    "all_swa": ("every layer is an SWA layer", "layers are full or SWA layers"),
}
"""Flag of a profile -> what it says when set, and when not."""

_EVENTS_PER_LINE = 7


@click.group(invoke_without_command=True)
@click.pass_context
def targets(ctx: click.Context) -> None:
    """What can be tested."""
    help_alone(ctx)


@targets.command("list")
def list_targets() -> None:
    """Targets at hand, and how to name others."""
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
    """Fetch SPEC (sglang==VERSION or sglang@FILE.whl) now, so that later runs need no network."""
    from ..targets.registry import add

    say(add(spec))


@targets.command("show")
@click.argument("spec")
def show_target(spec: str) -> None:
    """What SPEC can do, and what stands in for parts of it."""
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
        ("given", "answered for stubbed modules"),
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
    """Defects that can be put into a target on purpose."""
    help_alone(ctx)


@mutants.command("list")
def list_mutants() -> None:
    """Every mutant: its name, its target, its story."""
    from ..findings.text import columns
    from ..targets.mutants import MUTANTS

    say("\n".join(columns([(mutant.name, mutant.target, mutant.story) for mutant in MUTANTS.values()], indent="")))


@click.group(invoke_without_command=True)
@click.pass_context
def scenarios(ctx: click.Context) -> None:
    """Tapes of reported incidents."""
    help_alone(ctx)


@scenarios.command("list")
def list_scenarios() -> None:
    """Every scenario: its name, the public reports, releases on which a test sees it diverge.

    It may diverge on others: staleloc matrix tells of all, docs/MATRIX.md has what it said. Play one with staleloc
    replay NAME.
    """
    from ..findings.text import columns
    from ..tapes import scenarios as packaged
    from ..targets.registry import short_name

    rows = [("scenario", "class", "public reports", "diverges on (where tests play it; on all: docs/MATRIX.md)")]
    rows += [(it.name, it.kind, it.incident, ", ".join(map(short_name, it.diverges))) for it in packaged.scenarios()]
    say("\n".join(columns(rows, indent="")))
