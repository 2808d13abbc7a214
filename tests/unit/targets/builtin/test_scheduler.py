"""The embedded scheduler: who is admitted with how many tokens, what a request keeps, and who is retracted."""

from __future__ import annotations

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.scheduler import DecodeRound, Grant, PrefillRound


def scheduler(**shape: object) -> BuiltinEngine:
    """An empty one, with pages of 4 and a window of two pages."""
    plain = {"page_size": 4, "full_size": 64, "swa_size": 24, "window": 8, "chunk": 16, "max_prefill": 64}
    target = BuiltinEngine()
    target.build(Config(level="engine", features=("scheduler",), policy="uncached", **(plain | shape)))  # type: ignore[arg-type]
    return target


def prefill(target: BuiltinEngine) -> tuple[Grant, ...]:
    """A round and its forward."""
    grants = target.prefill_round().grants
    target.prefilled()
    return grants


def free_swa(target: BuiltinEngine) -> int:
    return len(target.raw_free().swa)


def test_a_prompt_is_computed_in_chunks() -> None:
    """Each as long as a chunk may be, the last one as long as what is left."""
    target = scheduler()
    assert target.submit(0, [1] * 38, 2) == 2
    assert [prefill(target) for _ in range(4)] == [
        (Grant(0, 0, 0, 16),), (Grant(0, 16, 0, 16),), (Grant(0, 32, 0, 6),), (),
    ]  # fmt: skip


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_between_two_chunks_only_a_window_is_kept(prefix_cache: bool) -> None:
    """With a prefix cache the rest can be evicted, without one it is free."""
    target = scheduler(prefix_cache=prefix_cache, chunk=20)
    target.submit(0, [1] * 60, 1)
    assert [prefill(target)[0].count for _ in range(4)] == [20, 16, 16, 8] if prefix_cache else [20, 4, 16, 16]


def test_a_chunk_is_cut_to_what_there_is_room_for() -> None:
    """Down to whole pages."""
    target = scheduler(swa_size=20, chunk=32, window=5)
    target.submit(0, [1] * 40, 1)
    assert prefill(target) == (Grant(0, 0, 0, 20),)


def test_who_came_first_is_served_first() -> None:
    """Nobody overtakes a request that does not fit."""
    target = scheduler(chunk=0, full_size=24)
    target.submit(0, [1] * 12, 4)
    target.submit(1, [2] * 16, 4)
    target.submit(2, [3] * 4, 4)
    assert [grant.request for grant in prefill(target)] == [0]
    assert prefill(target) == ()
    target.finish(0)
    assert [grant.request for grant in prefill(target)] == [1, 2]


def test_input_tokens_of_a_batch_are_bounded() -> None:
    """Beyond its first prompt, which is taken in any case."""
    target = scheduler(chunk=0, max_prefill=4)
    for number in range(2):
        target.submit(number, [number + 1] * 8, 1)
    assert [[grant.request for grant in prefill(target)] for _ in range(2)] == [[0], [1]]


def test_a_cached_prefix_locks_its_window_only() -> None:
    """A long node is split where the window begins, so the SWA slots in front of it can be evicted."""
    target = scheduler(swa_size=40, chunk=40)
    target.submit(0, [1] * 32, 1)
    prefill(target)
    target.finish(0)
    target.submit(1, [1] * 36, 4)
    assert prefill(target) == (Grant(1, 32, 0, 4),)
    assert sum(len(node.tokens) for node in target.raw_tree() if node.swa_locks) == 8


def test_who_joined_last_is_retracted_first() -> None:
    """It gives everything up, waits behind the others, and what it decoded is computed again."""
    target = scheduler(full_size=24, chunk=0, prefix_cache=False)
    target.submit(0, [1] * 8, 12)
    target.submit(1, [2] * 8, 12)
    prefill(target)
    rounds = [target.decode_round(1) for _ in range(5)]
    assert rounds[0] == DecodeRound((0, 1))
    assert rounds[4] == DecodeRound((0,), (1,))
    assert list(target.raw_requests()) == [0]
    target.finish(0)
    assert prefill(target) == (Grant(1, 0, 0, 12),)


def test_a_request_that_no_pool_can_hold_is_refused() -> None:
    """Without chunks the SWA pool must hold all of it; new tokens are cut to what the pools can hold."""
    assert scheduler(chunk=0).submit(0, [1] * 24, 1) is None
    assert scheduler(chunk=0).submit(0, [1] * 20, 100) == 4
    assert scheduler().submit(0, [1] * 24, 100) == 40
    assert scheduler(swa_size=12, window=5).submit(0, [1] * 4, 1) is None


def test_an_aborted_request_leaves_nothing() -> None:
    """Whether it waits or is between two chunks."""
    target = scheduler()
    empty = target.raw_free()
    target.submit(0, [1] * 24, 1)
    target.submit(1, [2] * 24, 1)
    prefill(target)
    target.abort(1)
    target.abort(0)
    assert prefill(target) == ()
    assert (sorted(target.raw_free().full), sorted(target.raw_free().swa)) == (sorted(empty.full), sorted(empty.swa))


def test_without_a_prefix_cache_nothing_is_stored() -> None:
    """What finished is free again."""
    target = scheduler(prefix_cache=False)
    target.submit(0, [1] * 12, 1)
    before = free_swa(target)
    prefill(target)
    target.finish(0)
    assert target.raw_tree() == []
    assert free_swa(target) == before
    assert target.prefill_round() == PrefillRound()
