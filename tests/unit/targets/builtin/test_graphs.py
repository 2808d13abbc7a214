"""The builtin's runners: each writes where the mapping says, with every policy, and lets nothing else in."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import RUNNERS
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

POLICIES = ("uncached", "side_channel", "memo", "per_forward")

LAYERS = ("full", "swa", "swa")


def built(policy: str, engine: Any = None, **shape: Any) -> Any:
    engine = engine or BuiltinEngine()
    shape = {"full_size": 32, "swa_size": 16, "window": 8, **shape}
    engine.build(Config(level="engine", features=("graphs",), policy=policy, layers=LAYERS, **shape))
    return engine


def tags(*numbers: int) -> list[list[int]]:
    """Tags of a batch's tokens, told apart by layer."""
    return [[100 * layer + number for number in numbers] for layer in range(len(LAYERS))]


def served(engine: Any, request: int, *tokens: int) -> None:
    """A request whose prompt is computed; slots of the pools are then no longer the same numbers."""
    engine.admit(request, list(tokens))
    engine.prefill(request, len(tokens))
    engine.checkpoint(request)


def shifted(engine: Any) -> None:
    """Make full locs and SWA locs differ soon: a tombstone keeps the first full slots, and their SWA slots go round."""
    served(engine, 9, 8, 8, 8, 8)
    engine.finish(9)
    engine.evict(0, 4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("runner", ["standard", "breakable"])
def test_a_decode_step_writes_where_the_mapping_says(runner: str, policy: str) -> None:
    """Batches smaller and as large as the graph, one after the other, in all layers."""
    engine = built(policy)
    engine.capture(runner, 3)
    shifted(engine)
    for request in range(3):
        served(engine, request, 1 + request, 2)
    for step, batch in enumerate(([0, 1, 2], [1], [2, 0], [0, 1, 2])):
        locs = engine.decode(batch, [5] * len(batch))
        lengths = {request: len(engine.raw_requests()[request].row) for request in batch}
        engine.replay(runner, [(r, lengths[r] - 1, lengths[r]) for r in batch], tags(*(10 * step + r for r in batch)))
        mapping = engine.raw_mapping()
        swa = [mapping[loc] for loc in locs]
        for layer, written in enumerate(engine.raw_run().locs):
            assert list(written[: len(batch)]) == (swa if layer else locs)
            assert not any(written[len(batch) :])
        for r in batch:
            rows = engine.read(r, lengths[r] - 1, lengths[r], 2)
            assert rows.keys == [200 + 10 * step + r]
    assert swa != locs


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("runner", ["piecewise", "breakable"])
def test_a_chunk_writes_its_own_tokens_only(runner: str, policy: str) -> None:
    """What a runner writes outside of its graphs is cut to the batch."""
    engine = built(policy)
    engine.capture(runner, 4)
    for request, count in ((0, 4), (1, 2), (2, 3)):
        engine.admit(request, [1 + request] * 5)
        locs = engine.prefill(request, count)
        engine.replay(runner, [(request, 0, count)], tags(*range(1, count + 1)))
        mapping = engine.raw_mapping()
        assert [list(it) for it in engine.raw_run().locs] == [locs, *[[mapping[loc] for loc in locs]] * 2]
        assert engine.read(request, 0, count, 1).keys == [101 + index for index in range(count)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_draft_leaves_nothing_behind_and_a_verification_keeps_what_is_accepted(policy: str, page_size: int) -> None:
    """Free lists and mapping are as before the draft; rejected tokens give their pages back."""
    engine = built(policy, page_size=page_size)
    engine.capture("speculative", 8)
    served(engine, 0, 1, 2, 1, 2)
    before = engine.raw_free(), engine.raw_mapping()
    drafted = engine.begin_draft([0], 6)
    engine.draft(tags(*range(6)))
    mapping = engine.raw_mapping()
    assert [list(it)[:6] for it in engine.raw_run().locs] == [drafted, *[[mapping[loc] for loc in drafted]] * 2]
    engine.end_draft()
    assert (engine.raw_free(), engine.raw_mapping()) == before
    assert engine.append([0], [5] * 6) == drafted
    engine.replay("speculative", [(0, 4, 10)], tags(*range(1, 7)))
    assert engine.read(0, 4, 10, 1).keys == [101, 102, 103, 104, 105, 106]
    engine.reject(0, 5)
    assert engine.raw_requests()[0].row == (*engine.raw_requests()[0].row[:4], drafted[0])
    assert engine.read(0, 4, 5, 1).keys == [101]
    pages = len(before[0].full) - len(engine.raw_free().full)
    assert pages == 1
    engine.finish(0)


def test_a_capture_touches_the_dummy_slot_alone() -> None:
    """In the middle of a run too: warm-ups, capture and first replay write nobody's slot."""
    engine = built("memo")
    served(engine, 0, 1, 2)
    engine.decode([0], [5])
    engine.write([(0, 2, 3)], 0, [7])
    before = [engine.raw_contents(layer).keys[1:] for layer in range(3)]
    for runner in RUNNERS:
        engine.capture(runner, 4)
        assert not any(slot for layer in engine.raw_run().locs for slot in layer)
    assert [engine.raw_contents(layer).keys[1:] for layer in range(3)] == before


def test_a_batch_takes_the_smallest_graph_that_holds_it() -> None:
    """And one that none holds is refused, for it would have to run without."""
    engine = built("memo")
    engine.capture("standard", 1)
    engine.capture("standard", 4)
    for request in (0, 1):
        served(engine, request, 1 + request, 2)
    for batch, size in (([0], 1), ([0, 1], 4)):
        engine.decode(batch, [5] * len(batch))
        spans = [(r, len(engine.raw_requests()[r].row) - 1, len(engine.raw_requests()[r].row)) for r in batch]
        engine.replay("standard", spans, tags(*batch))
        assert len(engine.raw_run().locs[0]) == size
    with pytest.raises(ValueError, match="no graph was captured for 5 tokens"):
        engine.replay("standard", [(0, 0, 3), (1, 0, 2)], tags(*range(5)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_forward_that_begins_warns_of_nothing(policy: str) -> None:
    """All layers of a forward ask with one tensor, in warm-ups, captures and what runs between two graphs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = built(policy)
        for runner in RUNNERS:
            engine.capture(runner, 2)
        served(engine, 0, 1, 2)
        engine.decode([0], [5])
        engine.replay("breakable", [(0, 2, 3)], tags(1))


def test_a_memo_hits_within_a_capture_and_not_across_it() -> None:
    """Of two SWA layers the second is answered from the cache, in each warm-up and in the capture; the first
    replay runs no code."""
    engine = built("memo")
    engine.capture("standard", 2)
    assert engine.cache_hits() == 3


def test_without_the_invalidation_every_replay_is_stale() -> None:
    """Twenty of twenty; with it, none."""
    for engine, stale in ((None, 0), (load_builtin(MUTANTS["graph-keeps-warm-up"]), 20)):
        engine = built("memo", engine, full_size=64, swa_size=64, window=64)
        engine.capture("standard", 2)
        served(engine, 0, 1, 2)
        wrong = 0
        for step in range(20):
            (loc,) = engine.decode([0], [5])
            engine.replay("standard", [(0, 2 + step, 3 + step)], tags(step))
            wrong += engine.raw_run().locs[1][0] != engine.raw_mapping()[loc]
        assert wrong == stale


def test_graphs_take_a_config_that_asks_for_them() -> None:
    """A policy that only graphs have is refused elsewhere."""
    with pytest.raises(TargetError, match="no engine on the hybrid pool with policy per_forward"):
        BuiltinEngine().build(Config(level="engine", policy="per_forward", layers=LAYERS))
