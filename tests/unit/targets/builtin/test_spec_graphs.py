"""The builtin's speculative decode through captured graphs: what they write, and that one draft's pool serves both."""

from __future__ import annotations

from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinEngine

POLICIES = ("uncached", "side_channel", "memo", "per_forward")
LAYERS = ("full", "swa", "swa")


def built(policy: str, version: str) -> Any:
    """An engine with one request of five tokens, in a graph's reach; full and SWA slots are not the same numbers."""
    engine = BuiltinEngine()
    engine.build(
        Config(
            level="engine", features=("spec", "graphs"), policy=policy, page_size=1, full_size=64, swa_size=13,
            window=8, layers=LAYERS, spec_version=version, spec_steps=3, spec_draft_tokens=4,
        )
    )  # fmt: skip
    engine.capture("speculative", 6)
    for request in (9, 0):
        engine.admit(request, [1 + request, 2, 3, 4, 5, *[6] * request][: 5 + request // 3])
        engine.prefill(request, 5 + request // 3)
        engine.checkpoint(request)
        if request:
            engine.finish(request)
            engine.evict(0, 8)
    return engine


def tags(*numbers: int) -> list[list[int]]:
    return [[100 * layer + number for number in numbers] for layer in range(len(LAYERS))]


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_step_through_graphs_writes_where_the_mapping_says(policy: str, version: str) -> None:
    """Each forward of the draft, in its pool, and the verification, in the target's; rows beyond go to the dummy."""
    engine = built(policy, version)
    assert engine.prepare_decode([0])
    (branches,) = engine.draft_branches([0])
    for depth, loc in enumerate(branches.slots[0]):
        engine.replay_draft([loc], tags(10 + depth))
        swa = engine.raw_mapping()[loc]
        assert swa not in (0, loc)
        assert [it[:2] for it in engine.raw_run().locs] == [(loc, 0), (swa, 0), (swa, 0)]
    for layer in range(len(LAYERS)):
        assert engine.read_draft(list(branches.slots[0]), layer).keys == [100 * layer + 10 + it for it in range(3)]
    engine.drop_draft([0])
    assert engine.begin_verify([0])
    engine.replay("speculative", [(0, 5, 9)], tags(1, 2, 3, 4))
    locs = engine.raw_requests()[0].row[5:9]
    mapping = engine.raw_mapping()
    assert engine.raw_run().locs[0] == (*locs, 0, 0)
    assert engine.raw_run().locs[1] == (*(mapping[loc] for loc in locs), 0, 0)
    engine.accept([0], [[0, 1]], [[6, 7]])
    assert engine.read(0, 5, 7, 2).keys == [201, 202]


def test_a_draft_without_a_graph_writes_to_the_same_pool() -> None:
    """What one wrote the other reads."""
    engine = built("memo", "v2")
    engine.prepare_decode([0])
    row = list(engine.raw_requests()[0].row[5:7])
    for layer in range(len(LAYERS)):
        engine.write_draft(row, layer, [7, 8])
    engine.replay_draft(row[:1], tags(9))
    assert engine.read_draft(row, 1).keys == [109, 8]
