"""The builtin decode node with a host tier and with captured graphs, driven by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(
    level="engine", features=("disagg",), policy="memo", page_size=4, full_size=32, swa_size=32, window=4,
    layers=(FULL, SWA), decode_tree=True, host_full_size=64, host_swa_size=64,
)  # fmt: skip

BACK = replace(CONFIG, write_policy="write_back")
PROMPT = list(range(1, 10))


def node(config: Config = CONFIG) -> BuiltinEngine:
    target = BuiltinEngine()
    target.build(config)
    return target


def free(target: BuiltinEngine) -> tuple[list[int], list[int]]:
    slots = target.raw_free()
    return sorted(slots.full), sorted(slots.swa)


def send(target: BuiltinEngine, number: int, start: int, stop: int, tag: int) -> None:
    """The sender writes these tokens: in each layer `tag` and the position."""
    row, mapping = target.raw_requests()[number].row, target.raw_mapping()
    for layer in (0, 1):
        for position in range(start, stop):
            slot = mapping[row[position]] if layer else row[position]
            if slot:
                target.receive(layer, [slot], [tag + position])


def serve(target: BuiltinEngine, number: int, prompt: list[int], tag: int) -> None:
    """A request comes and is done, with no step."""
    target.enqueue(number, prompt, 4)
    (told,) = target.preallocate().admitted
    send(target, number, told.cached, len(prompt), tag)
    target.arrived(number, 50)
    target.start()
    target.finish(number)


def demoted(config: Config) -> BuiltinEngine:
    """A node that has the first eight tokens of `PROMPT` on the host only."""
    target = node(config)
    serve(target, 0, PROMPT, 100)
    for _ in (1, 2):  # a parent leaves after its child
        target.transfer_done(target.pending())
        target.evict(32, 32)
    target.transfer_done(target.pending())
    assert [(it.full, it.host_full is not None) for it in target.raw_tree()] == [(None, True)] * len(target.raw_tree())
    return target


@pytest.mark.parametrize("config", [CONFIG, BACK])
def test_a_prefix_on_the_host_is_loaded_back_before_the_transfer(config: Config) -> None:
    """The sender is told of what comes after it; a read waits for the copy."""
    target = demoted(config)
    target.enqueue(1, PROMPT, 4)
    (told,) = target.preallocate().admitted
    assert (told.cached, told.loaded) == (8, 8)
    assert target.pending() == 1
    assert len(told.full) == 1
    send(target, 1, 8, 9, 300)
    target.arrived(1, 50)
    target.start()
    assert target.read(1, 0, 9, 0).keys == [*range(100, 108), 308]
    assert target.read(1, 6, 9, 1).keys == [106, 107, 308]
    assert target.pending() == 0


def test_a_prefix_that_does_not_fit_is_sent() -> None:
    """There is room for the request with nothing loaded, as its SWA window alone is wanted then."""
    target = demoted(replace(CONFIG, full_size=16, swa_size=12, reserved_decode=0))
    target.enqueue(2, [90, 91, 92, 93], 1)
    assert target.preallocate().admitted[0].cached == 0
    target.enqueue(1, PROMPT, 1)
    (told,) = target.preallocate().admitted
    assert (told.cached, told.loaded) == (0, 0)
    assert target.pending() == 0
    assert all(it.full_locks == 0 for it in target.raw_tree())


def test_a_request_that_is_retracted_waits_for_its_prefix() -> None:
    """What is copied to the CPU is what the host had."""
    target = demoted(CONFIG)
    target.enqueue(1, PROMPT, 4)
    target.preallocate()
    send(target, 1, 8, 9, 300)
    target.arrived(1, 50)
    target.start()
    target.decode([1], [51])
    for layer in (0, 1):
        target.write([(1, 9, 10)], layer, [309])
    target.retract(1)
    assert target.pending() == 0
    target.resume()
    target.start()
    assert target.read(1, 0, 10, 0).keys == [*range(100, 108), 308, 309]


@pytest.mark.parametrize("stages", range(5))
def test_an_abort_gives_everything_back(stages: int) -> None:
    """Also with the load-back under way, whose lock goes when it is over."""
    target = demoted(CONFIG)
    for stage in (
        lambda: target.enqueue(1, PROMPT, 4),
        target.preallocate,
        lambda: target.arrived(1, 50),
        target.start,
        lambda: target.decode([1], [51]),
    )[: stages + 1]:
        stage()
    target.abort(1)
    target.transfer_done(target.pending())
    target.evict(32, 32)
    target.transfer_done(target.pending())
    assert free(target) == free(node())
    assert all(it.full_locks == 0 and it.host_locks == 0 for it in target.raw_tree())


def test_a_decode_step_replays_a_graph() -> None:
    """Behind a prompt that was sent."""
    target = node(replace(CONFIG, features=("disagg", "graphs"), policy="per_forward"))
    target.capture("standard", 4)
    target.enqueue(0, PROMPT, 4)
    target.preallocate()
    send(target, 0, 0, 9, 100)
    target.arrived(0, 50)
    target.start()
    target.decode([0], [51])
    target.replay("standard", [(0, 9, 10)], [[109], [109]])
    assert target.read(0, 0, 10, 0).keys == list(range(100, 110))
    assert target.read(0, 7, 10, 1).keys == list(range(107, 110))
    row = target.raw_requests()[0].row
    assert target.raw_run().locs[0][0] == row[9]
