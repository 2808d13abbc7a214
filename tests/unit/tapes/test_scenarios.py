"""Packaged scenarios as the commands use them; whether they tell releases apart is tested on the releases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import SWA
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.tapes.scenarios import Scenario, find_scenario, lookalike, scenarios

ALL = {scenario.name: scenario for scenario in scenarios()}


def diverged(kind: str) -> Divergence:
    return Divergence(kind, "translation", 0, "")


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.name)
def test_a_scenario_looks_like_itself(scenario: Scenario) -> None:
    """Or like an earlier one of the same class and shape; never like one of another class."""
    found = lookalike(scenario.tape, diverged(scenario.kind))
    assert found is not None
    assert found.kind == scenario.kind
    assert lookalike(scenario.tape, diverged("misaligned")) is None


def test_which_call_allocated_and_how_many_forwards_there_were_does_not_matter() -> None:
    """But the pool whose code ran does, and the kinds of what happened."""
    known = ALL["pr25889-mapping-replaced"]
    _, begin, *rest = known.tape.events
    events = (ev.AllocExtend(((0, 4),)), ev.AllocDecode((0,)), begin, ev.EndForward(), begin, *rest)
    assert lookalike(replace(known.tape, events=events), diverged(known.kind)) == known
    assert lookalike(replace(known.tape, events=(*events, ev.FreeSwa(0, 0, 4))), diverged(known.kind)) is None
    hybrid = replace(known.tape, config=replace(known.tape.config, pool="hybrid", layers=(SWA, SWA)))
    assert lookalike(hybrid, diverged(known.kind)) is None


def test_a_tail_of_nothing_is_told_from_a_tail() -> None:
    """Two incidents differ in that alone."""
    for name in ("pr25805-tail-over-recycled-pages", "pr26078-zero-tail"):
        assert lookalike(ALL[name].tape, diverged("wrong-mapping")) == ALL[name]


def test_a_scenario_is_found_by_name_with_and_without_suffix() -> None:
    """And nothing else is."""
    assert find_scenario("pr26078-zero-tail.json") == find_scenario("pr26078-zero-tail") == ALL["pr26078-zero-tail"]
    assert find_scenario("pr26078") is None


def test_what_a_release_says_of_a_known_bug_is_recognized_on_that_release() -> None:
    """However long the tape is; on another target the same words may mean another bug."""
    known = ALL["pr36848-ack-takes-another-lock"]
    longer = replace(known.tape, events=(*known.tape.events, known.tape.events[0]))
    says = Divergence(known.kind, "locks", 0, "node 7 has 0 SWA locks and 2 running requests attend to it")
    assert lookalike(longer, says, known.diverges[0]) == known
    assert lookalike(longer, says, "sglang==0.5.23") is None
    assert lookalike(longer, replace(says, what="node 7 is gone"), known.diverges[0]) is None
