"""The answer of ``staleloc explain`` in lines: what matches a symptom, where it shows, and what to try."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from ..tapes.scenarios import Scenario
from ..targets.registry import released, short_name
from .record import Symptom, record
from .search import Match, Server, search, symptoms_of

__all__ = ["explain"]

_WIDTH = 118

_ANY_WAYS: Sequence[Sequence[str]] = ((), ("--level", "engine"))
"""What to try for a symptom of no known kind."""


def explain(text: str, target: str | None, flags: Sequence[str], server: Server, limit: int) -> tuple[str, bool]:
    """The answer, and whether a scenario matches.

    Args:
        text: the symptom.
        target: the server's target, or None.
        flags: options of a campaign that its flags stand for.
        limit: scenarios that are listed at most.
    """
    kinds = symptoms_of(text)
    matches = search(text, server)
    lines = [line for kind in kinds[:2] for line in _wrapped(f"{kind.name}: {kind.means}", "")]
    if lines:
        lines.append("")
    here = [it for it in matches if server.shows(it.scenario)]
    if matches:
        some = f"{len(here)} of them" if here else "none of them"
        where = f", {some} on {server.target}" if server.target else ""
        lines.append(f"{_counted(len(matches))} like it{where}")
    else:
        lines.append(
            "no scenario looks like it; give a message as it is in the log, or what was seen: leak, hang, wrong tokens"
        )
    for number, match in enumerate(matches[:limit], 1):
        lines += ["", *_shown(number, match, target, server)]
    if len(matches) > limit:
        lines += ["", f"{len(matches) - limit} more; --limit {len(matches)} lists all"]
    return "\n".join([*lines, "", *_next(kinds, matches, target, flags)]) + "\n", bool(matches)


def _counted(number: int) -> str:
    return f"{number} scenario{'s' * (number != 1)} look{'s' * (number == 1)}"


def _shown(number: int, match: Match, target: str | None, server: Server) -> Iterator[str]:
    scenario = match.scenario
    targets = record().shown.get(scenario.name, scenario.diverges)
    yield f"{number}. {scenario.name} ({scenario.kind}; {scenario.family})"
    yield from _wrapped(f"matches: {'; '.join(match.why)}", "   ")
    report = f", draft report docs/reports/{scenario.name}.md in the repository" * (scenario.name in record().drafts)
    yield from _wrapped(f"report: {scenario.incident}{report}", "   ")
    yield from _wrapped(scenario.mechanism, "   ")
    yield from _wrapped(f"shows on: {_releases(targets)}{_fixed(scenario)}", "   ")
    if not server.shows(scenario):
        yield f"   not on {server.target}"
    elif not server.runs(scenario):
        yield "   it takes what the server's flags do not ask for: " + ", ".join(_takes(scenario))
    play = target if target is not None and server.shows(scenario) else targets[-1] if targets else None
    if play is not None:
        yield f"   try: staleloc replay {scenario.name} --target {shlex.quote(play)} --repro repro.py"


def _takes(scenario: Scenario) -> list[str]:
    config = scenario.tape.config
    return [*config.features, *(["a host tier"] if config.host_full_size else [])]


def _fixed(scenario: Scenario) -> str:
    fixed = scenario.said.fixed if scenario.said is not None else None
    return f"; fixed in {fixed}" if fixed is not None else ""


def _releases(targets: Sequence[str]) -> str:
    """Targets in the order of releases, with ranges."""
    order = list(released().releases)
    at = sorted(order.index(it) for it in targets if it in order)
    spans: list[list[int]] = []
    for number in at:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    names = [[short_name(order[span[0]]), short_name(order[span[-1]])] for span in spans]
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in names) or "no known release"


def _next(
    kinds: Sequence[Symptom], matches: Sequence[Match], target: str | None, flags: Sequence[str]
) -> Iterator[str]:
    """What to do next: play the scenarios on the release, and fuzz for what is not known."""
    newest = released().releases[-1]
    where = target or newest
    yield "next:" if target else f"next (give --target for your own release; here {newest}):"
    if matches:
        yield f"  staleloc matrix --targets {shlex.quote(where)} --blind none   # replay every scenario on it"
    ways = [list(flags)] if flags else []
    ways += [list(way) for kind in kinds for way in kind.ways] or [list(way) for way in _ANY_WAYS]
    for way in list(map(list, dict.fromkeys(map(tuple, ways))))[:4]:
        yield f"  {shlex.join(['staleloc', 'fuzz', '--target', where, *way, '--seconds', '300'])}"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False)
