"""Nothing is here that nobody shows: each event, check, mutant, stand-in and entry point of a release is covered
by a test or a scenario, or exempt for a reason.

What covers it is found out from pytest's own list of tests and from the scenarios where that can be; `NAMED` says the
rest. An entry for something that is gone, or that needs none, fails as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from staleloc.sim.matrix.record import scope_of
from staleloc.sim.parts.allocator.checks import CHECKS
from staleloc.sim.parts.allocator.events import EVENTS
from staleloc.sim.parts.decode_node.events import DISAGG_EVENTS
from staleloc.sim.parts.engine.events import ENGINE_EVENTS
from staleloc.sim.parts.events_file import ALPHABET
from staleloc.sim.parts.overlap.events import OVERLAP_EVENTS
from staleloc.sim.parts.registry import ENGINE_CHECKS
from staleloc.sim.parts.scheduler.events import SCHEDULER_EVENTS
from staleloc.sim.parts.speculative.events import SPEC_EVENTS
from staleloc.sim.tapes.scenarios import scenarios
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.sglang.drift import ALLOCATOR, DSV4, HYBRID
from staleloc.sim.targets.sglang.fakes import FAKES
from staleloc.sim.targets.sglang.leaves import LEAVES

ROOT = Path(__file__).parents[2]

FOUND = ("test_every_mutant_is_found_from_every_seed", "test_every_mutant_is_found")
"""Tests that take mutants by name, and find them."""

FIRED = (
    *("test_a_misbehaving_target_fires_its_check", "test_a_misbehaving_node_fires_its_check"),
    *("test_a_mutant_fires_the_check", "test_a_misbehaving_scheduler_fires_its_check"),
)
"""Tests whose cases begin with the name of a check, and fire it; each has one beside it in which it stays quiet."""

CALLS = "tests/release/test_releases.py::test_a_release_is_driven_through_every_event"
ALTERED = "tests/unit/parts/allocator/test_checks.py::test_a_misbehaving_target_fires_its_check"
DRAFTS = "tests/unit/parts/graphs/test_events.py::test_a_draft_that_is_no_longer_next_is_not_verified"
STEPS = "tests/unit/parts/graphs/test_events.py::test_a_runner_does_its_own_kind_of_step_only"
KERNELS = "tests/release/test_releases.py::test_replaced_kernels_agree_with_the_plain_functions"

GROUPS = "tests/release/test_batch_results.py::test_results_are_processed_inside_the_groups_of_the_release"

LAST = "tests/unit/targets/test_builtin_mutants.py::test_the_last_event_of_the_tape_shows_the_mutant"

NAMED: dict[str, str] = {
    **{f"event {kind}": ALTERED for kind in ("alloc", "clear", "read_kv", "translate", "move")},
    "event alloc_decode": LAST,
    "check sanity": "tests/unit/parts/engine/test_tree_checks.py::test_an_objection_of_the_engine_is_a_divergence",
    "event results": "tests/unit/parts/engine/test_results.py::test_each_request_is_treated_in_the_order_of_the_batch",
    "event on releases, engine: results": GROUPS,
    "event flush": "tests/unit/targets/builtin/test_engine.py::test_flushing_empties_everything",
    **{f"event {kind}": STEPS for kind in ("capture", "replay", "replay_chunk")},
    **{f"event {kind}": DRAFTS for kind in ("draft", "verify")},
    **{
        f"event on releases, allocator: {kind}": CALLS
        for kind in ("alloc", "alloc_decode", "clear", "read_kv", "translate", "move")
    },
    "event on releases, engine: flush": "tests/release/test_engine_releases.py::test_every_event_does_what_it_should",
    "call of the allocator": CALLS,
    "call of the hybrid pool": CALLS,
    "call of the dsv4 pool": CALLS,
    "stand-in alloc_extend_kernel": KERNELS,
    "stand-in alloc_decode_kernel": KERNELS,
    "stand-in fused_store_cache": CALLS,
}
"""What no parameter and no scenario covers -> the test that does. A name that ends where a colon follows is all that
begins with it."""

EXEMPT: dict[str, str] = {
    "stand-in cuda.synchronize": "a CPU has nothing to wait for, so there is nothing to get wrong",
    "answer": "one fixed value each, with its reason in fakes.py; whatever else a release asks for fails at its name",
}
"""What nothing covers -> why that is right."""


def items() -> Iterator[str]:
    """Everything that must be covered, by kind and name, from the registries."""
    yield from (f"event {event.kind}" for event in ALPHABET)
    yield from (f"check {check.name}" for check in dict.fromkeys((*CHECKS, *ENGINE_CHECKS)))
    yield from (f"mutant {name}" for name in MUTANTS)
    for owner, calls in (("allocator", ALLOCATOR), ("hybrid pool", HYBRID), ("dsv4 pool", DSV4)):
        yield from (f"call of the {owner}: {call.method}" for call in calls)
    for level, events in (
        ("allocator", EVENTS),
        ("engine", ENGINE_EVENTS),
        ("disagg", DISAGG_EVENTS),
        ("spec", SPEC_EVENTS),
        ("scheduler", SCHEDULER_EVENTS),
        ("overlap", OVERLAP_EVENTS),
    ):
        yield from (f"event on releases, {level}: {event.kind}" for event in events)
    yield from dict.fromkeys(f"stand-in {leaf.attribute}" for leaf in LEAVES)
    yield from (f"answer: {fake.module}.{fake.name}" for fake in FAKES)


def by_scenarios() -> Iterator[str]:
    """What scenarios cover: events, and where they diverge, on releases too."""
    for scenario in scenarios():
        scope = scope_of(scenario.tape)
        features = ("disagg", "spec", "overlap", "scheduler")
        level = next((name for name in features if name in scope.features), scope.level)
        for event in scenario.tape.events:
            yield f"event {event.kind}"
            if any(target.startswith("sglang") for target in scenario.diverges):
                yield f"event on releases, {level}: {event.kind}"


def by_tests(collected: list[str]) -> Iterator[str]:
    """What parametrized tests cover, in whatever file they are: mutants and checks."""
    for node in collected:
        test, _, parameter = node.partition("::")[2].partition("[")
        if test in FOUND:
            yield f"mutant {parameter.removesuffix(']')}"
        if test in FIRED:
            yield from (f"check {name}" for name in CHECK_NAMES if re.match(rf"{re.escape(name)}[:\-]", parameter))


CHECK_NAMES = [item.removeprefix("check ") for item in items() if item.startswith("check ")]


def faults(everything: list[str], covered: set[str], named: dict[str, str], exempt: dict[str, str]) -> list[str]:
    """One line for each thing that is not covered, or that an entry is wrong about."""
    meant = {entry: {it for it in everything if it == entry or it.startswith(f"{entry}:")} for entry in named | exempt}
    told = set().union(*meant.values())
    lines = [f"{it}: nothing covers it" for it in everything if it not in covered | told]
    lines += [f"{entry}: there is no such thing" for entry, those in meant.items() if not those]
    lines += [f"{entry}: needs no entry, it is covered" for entry, those in meant.items() if those & covered]
    lines += [f"{entry}: covered and exempt" for entry in named if entry in exempt]
    return lines + [f"{entry}: why?" for entry, why in exempt.items() if len(why.split()) < 4]


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Every test there is, with its parameters."""
    words = ["-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def covered(collected: list[str]) -> set[str]:
    """What is covered without an entry."""
    return {*by_scenarios(), *by_tests(collected)}


def test_everything_is_covered_or_exempt(covered: set[str]) -> None:
    """And no entry is about something that is gone, or covered anyway."""
    assert faults(list(items()), covered, NAMED, EXEMPT) == []


def test_every_named_test_is_there(collected: list[str]) -> None:
    """Those of the entries, and those that are asked for their parameters."""
    tests = {node.partition("[")[0] for node in collected}
    assert set(NAMED.values()) <= tests
    assert {*FOUND, *FIRED} <= {test.partition("::")[2] for test in tests}


@pytest.mark.parametrize("entry", [entry for entry in NAMED if entry.startswith("event")])
def test_a_named_test_is_about_what_it_covers(entry: str) -> None:
    """Its file, or a script beside it that it runs, has the event's name."""
    kind = entry.split()[-1]
    path = ROOT / NAMED[entry].partition("::")[0]
    files = [path] if path.parent.name != "release" else list(path.parent.glob("*.py"))
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    camel = kind.title().replace("_", "")
    assert re.search(rf"\b({camel}|{kind})\b", text)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda it: it["everything"].append("event teleport"), "event teleport: nothing covers it"),
        (lambda it: it["named"].update({"check gone": "test"}), "check gone: there is no such thing"),
        (lambda it: it["exempt"].update({"event alloc_extend": "this needs no words"}), "needs no entry"),
        (lambda it: it["exempt"].update({"check gone": "because"}), "check gone: why?"),
    ],
)
def test_a_gap_or_a_stale_entry_is_seen(change: Callable[..., None], fault: str, covered: set[str]) -> None:
    """Each kind of fault, planted."""
    gate = {"everything": list(items()), "covered": set(covered), "named": dict(NAMED), "exempt": dict(EXEMPT)}
    change(gate)
    assert any(fault in line for line in faults(**gate))  # type: ignore[arg-type]
