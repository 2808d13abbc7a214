"""The order of eviction under each policy: judged by the check of hits, and drawn without a change of events."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine import events as ee
from staleloc.sim.parts.server import with_settings
from staleloc.sim.targets.builtin.engine_state import ENGINE
from staleloc.sim.targets.builtin.tree import PrefixTree
from staleloc.sim.targets.registry import open_target, parse
from staleloc.sim.targets.sglang.switches import throw


def _visit(number: int, *tokens: int) -> list[ee.EngineEvent]:
    arrival = [ee.Arrive(number, tokens), ee.Admit(number)]
    return [*arrival, ee.Prefill(number, len(tokens)), ee.Checkpoint(number), ee.Finish(number)]


CONFIG = Config(level="engine", policy="uncached", window=2, checks=("hits",))

VISITS = (*_visit(0, 1, 2, 3), *_visit(1, 4, 5, 6), *_visit(0, 1, 2, 3))
"""What came first is used last, and inserted more often; it has the higher priority."""


@pytest.mark.parametrize("policy", ["fifo", "lfu", "priority"])
def test_another_order_is_a_lost_hit(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eviction in the order of the policy is silent, and one in the opposite order diverges."""
    priorities = (2, 0) if policy == "priority" else ()
    config = replace(CONFIG, eviction_policy=policy, priorities=priorities)
    # Under lfu an insertion of each chunk counts at most, so what stays must have been inserted often enough.
    visits = (*VISITS, *_visit(0, 1, 2, 3), *_visit(0, 1, 2, 3)) if policy == "lfu" else VISITS
    tape = Tape(config, (*visits, ee.Evict(1, 0)))
    target = open_target(parse("builtin"))
    assert drive_engine(tape, target).divergence is None
    keep = PrefixTree.first_to_leave

    def last_to_leave(tree: PrefixTree, wanted: object) -> object:
        first = keep(tree, wanted)  # type: ignore[arg-type]
        return keep(tree, lambda node: wanted(node) and node is not first) or first  # type: ignore[operator]

    monkeypatch.setattr(PrefixTree, "first_to_leave", last_to_leave)
    found = drive_engine(tape, target).divergence
    assert found is not None
    assert (found.kind, policy in found.what) == ("lost-hit", True)


def test_settings_change_no_event() -> None:
    """A quarter of all tapes gets another policy, and every tape keeps its events and the choices that follow."""
    tape = Tape(replace(CONFIG, checks=()), VISITS)
    choices = [seeded(0, index) for index in range(100)]
    drawn = [with_settings(it.fork("settings"), tape, ENGINE) for it in choices]
    assert {it.events for it in drawn} == {tape.events}
    assert 10 <= sum(it.config.eviction_policy != "lru" for it in drawn) <= 30
    assert [it.integer(0, 999) for it in choices] == [seeded(0, index).integer(0, 999) for index in range(100)]


def test_a_switch_holds_for_one_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next cache finds it as the release has it."""
    monkeypatch.delenv("SGLANG_RETRACT_DECODE_STEPS", raising=False)
    throw(("retract-for-one-step",))
    assert os.environ["SGLANG_RETRACT_DECODE_STEPS"] == "1"
    throw(())
    assert "SGLANG_RETRACT_DECODE_STEPS" not in os.environ
