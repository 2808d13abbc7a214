"""The builtin decode node whose requests speculate, driven by hand: slots, contents and free counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(
    level="engine", features=("disagg", "spec"), policy="memo", page_size=4, full_size=96, swa_size=96, window=4,
    layers=(FULL, SWA), spec_version="v2", spec_steps=2, spec_topk=1, spec_draft_tokens=3,
)  # fmt: skip

PROMPT = list(range(1, 11))
TREE = replace(CONFIG, decode_tree=True, bigram=True)
V1 = replace(CONFIG, spec_version="v1")
GRAPHS = replace(CONFIG, features=("disagg", "spec", "graphs"), policy="per_forward")
CONFIGS = [CONFIG, TREE, V1, replace(TREE, spec_version="v1"), GRAPHS, replace(CONFIG, page_size=1), TREE]


def node(config: Config) -> BuiltinEngine:
    target = BuiltinEngine()
    target.build(config)
    return target


def free(target: BuiltinEngine) -> tuple[list[int], list[int]]:
    slots = target.raw_free()
    return sorted(slots.full), sorted(slots.swa)


def slots_of(target: BuiltinEngine, number: int, layer: int, stop: int) -> list[tuple[int, int]]:
    """Position and slot of each token of a request that has a slot at a layer."""
    row, mapping = target.raw_requests()[number].row[:stop], target.raw_mapping()
    slots = [mapping[loc] for loc in row] if layer else row
    return [(position, slot) for position, slot in enumerate(slots) if slot]


def send(target: BuiltinEngine, number: int, length: int = len(PROMPT)) -> None:
    """Row `p` of a request is 100 and `p` in the target's pool, 200 and `p` in the draft's."""
    for layer in (0, 1):
        positions, slots = zip(*slots_of(target, number, layer, length), strict=True)
        target.receive(layer, list(slots), [100 + position for position in positions])
        target.receive_draft(layer, list(slots), [200 + position for position in positions])


def come(target: BuiltinEngine, number: int, stages: int) -> None:
    """A request goes through so many stages on its way to its first step."""
    for stage in (
        lambda: target.enqueue(number, PROMPT, 8),
        target.preallocate,
        lambda: (send(target, number), target.arrived(number, 50)),
        target.start,
        lambda: target.prepare_decode([number]),
    )[:stages]:
        stage()


def step(target: BuiltinEngine, number: int, accepted: int, first: int) -> None:
    """One step: a chain is drafted, verified, and so many tokens of it are accepted."""
    nodes, start = CONFIG.spec_draft_tokens, target.raw_requests()[number].committed
    assert start is not None
    assert target.prepare_decode([number])
    (branches,) = target.draft_branches([number])
    for depth, loc in enumerate(branches.slots[0]):
        for layer in (0, 1):
            target.write_draft([loc], layer, [200 + start + depth])
    target.drop_draft([number])
    assert target.begin_verify([number])
    for layer in (0, 1):
        target.write([(number, start, start + nodes)], layer, [100 + start + i for i in range(nodes)])
    target.accept([number], [range(accepted)], [[first, *range(60, 59 + accepted)]])
    if target._config.spec_ahead:
        target.commit([number])


def holds(target: BuiltinEngine, number: int) -> None:
    """Each row of the window at a sliding layer, and all at the other, is what was written for its position."""
    count = target.raw_requests()[number].committed
    assert count is not None
    for layer, start in ((0, 0), (1, count - CONFIG.window + 1)):
        found = target.read(number, start, count, layer).keys
        assert found == [100 + position for position in range(start, count)]


@pytest.mark.parametrize("config", CONFIGS)
def test_a_request_speculates_behind_what_was_sent(config: Config) -> None:
    """And nothing is left of it but what the tree keeps."""
    target = node(config)
    before = free(target)
    come(target, 0, 5)
    assert target.raw_queues().running == (0,)
    if config.spec_version == "v1":
        target.drop_draft([0])
    step(target, 0, 2, 50)
    step(target, 0, 3, 61)
    assert target.raw_requests()[0].committed == len(PROMPT) + 5
    holds(target, 0)
    locs = list(target.raw_requests()[0].row[: len(PROMPT)])
    assert target.read_draft(locs, 0).keys == [200 + position for position in range(len(PROMPT))]
    target.finish(0)
    target.evict(config.full_size, config.swa_size)
    assert free(target) == before


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("stages", range(6))
def test_an_abort_gives_everything_back(config: Config, stages: int) -> None:
    """At each stage, in the middle of a step too."""
    target = node(config)
    before = free(target)
    come(target, 0, stages)
    if config.spec_version == "v1" and stages == 5:
        target.drop_draft([0])
    target.abort(0)
    target.evict(config.full_size, config.swa_size)
    assert free(target) == before
    assert not target.raw_requests()
    assert not any(vars(target.raw_queues()).values())


@pytest.mark.parametrize("config", [it for it in CONFIGS if it.spec_version != "v1"])
def test_a_retraction_copies_what_is_committed_alone(config: Config) -> None:
    """Its slots beyond that are free at once; later it goes on from there."""
    target = node(config)
    come(target, 0, 5)
    step(target, 0, 3, 50)
    target.prepare_decode([0])
    assert len(target.raw_requests()[0].row) > len(PROMPT) + 3
    target.retract(0)
    assert len(target.raw_saved()[0]) == len(PROMPT) + 3
    assert not target.raw_requests()
    assert target.resume() == [0]
    assert len(target.raw_requests()[0].row) == len(PROMPT) + 3
    target.start()
    holds(target, 0)
    step(target, 0, 2, 70)
    holds(target, 0)
    assert target.raw_requests()[0].committed == len(PROMPT) + 5


def test_the_queues_count_what_the_scheduler_knows() -> None:
    """A step that is accepted counts once it is committed."""
    target = node(CONFIG)
    come(target, 0, 5)
    before = target.raw_retractable(0)
    target.begin_verify([0])
    target.accept([0], [range(2)], [[50, 60]])
    assert target.raw_retractable(0) == before
    target.commit([0])
    assert target.raw_retractable(0) == before + 2


def test_a_prefix_is_found_by_pairs() -> None:
    """Ten tokens have nine pairs, two whole pages of them; the same tokens with another one after them have fewer."""
    target = node(replace(TREE, window=16))
    come(target, 0, 4)
    target.enqueue(1, PROMPT, 8)
    target.enqueue(2, [*PROMPT[:8], 99, 98], 8)
    first, second = target.preallocate().admitted
    assert (first.cached, second.cached) == (8, 4)
