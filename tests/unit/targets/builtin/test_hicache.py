"""The host tier of the builtin engine: backups, load-backs, and who may use a slot while a copy is queued."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import Admission, NodeView

LAYERS = ("full", "swa")


def make(write_policy: str = "write_through", device: int = 8, host: int = 16, window: int = 2) -> BuiltinEngine:
    """An engine with pages of two tokens; sizes in tokens."""
    engine = BuiltinEngine()
    engine.build(
        Config(
            level="engine",
            policy="memo",
            page_size=2,
            full_size=device,
            swa_size=device,
            layers=LAYERS,
            window=window,
            host_full_size=host,
            host_swa_size=host,
            write_policy=write_policy,
        )
    )
    return engine


def tags(tokens: Sequence[int], start: int, layer: int) -> list[int]:
    """A tag for each prefix of `tokens` that is longer than `start`."""
    names = [int("".join(map(str, tokens[: stop + 1]))) for stop in range(start, len(tokens))]
    return [2 * name + layer for name in names]


def admit(engine: BuiltinEngine, request: int, tokens: Sequence[int]) -> Admission:
    admission = engine.admit(request, list(tokens))
    assert admission is not None
    return admission


def compute(engine: BuiltinEngine, request: int, tokens: Sequence[int], cached: int) -> None:
    """Prefill the rest of an admitted request and write its rows."""
    assert engine.prefill(request, len(tokens) - cached) is not None
    for layer in range(2):
        engine.write([(request, cached, len(tokens))], layer, tags(tokens, cached, layer))


def serve(engine: BuiltinEngine, request: int, tokens: Sequence[int]) -> Admission:
    """A whole request that is finished at once."""
    admission = admit(engine, request, tokens)
    compute(engine, request, tokens, admission.cached)
    engine.finish(request)
    return admission


def finish_transfers(engine: BuiltinEngine) -> None:
    engine.transfer_done(engine.pending())


def to_host(engine: BuiltinEngine, tokens: Sequence[int]) -> None:
    """Serve a request and leave what it cached on the host only."""
    serve(engine, 90, tokens)
    finish_transfers(engine)
    engine.evict(8, 8)
    finish_transfers(engine)
    assert all(node.full is None for node in engine.raw_tree())


def node_of(engine: BuiltinEngine, tokens: Sequence[int]) -> NodeView:
    (node,) = [node for node in engine.raw_tree() if node.tokens == tuple(tokens)]
    return node


def host_rows(engine: BuiltinEngine, node: NodeView) -> list[list[int]]:
    """The tags of a node's rows on the host, full and SWA."""
    sides = (node.host_full, node.host_swa)
    return [[engine.raw_host_contents(layer).keys[slot] for slot in side or ()] for layer, side in enumerate(sides)]


def test_an_insertion_is_written_through() -> None:
    """The node is locked until the copy is over, and then the host has every row of it."""
    engine = make()
    serve(engine, 0, [1, 2, 3, 4])
    node = node_of(engine, [1, 2, 3, 4])
    assert (engine.pending(), node.full_locks, node.swa_locks) == (1, 1, 1)
    assert engine.in_flight()[0].device.full == list(node.full or ())
    assert engine.in_flight()[0].host.swa == list(node.host_swa or ())
    engine.transfer_done(1)
    node = node_of(engine, [1, 2, 3, 4])
    assert (engine.pending(), node.full_locks, node.swa_locks) == (0, 0, 0)
    assert host_rows(engine, node) == [tags([1, 2, 3, 4], 0, layer) for layer in range(2)]


def test_a_node_under_backup_is_not_evicted() -> None:
    """Its device slots are read by the copy, so they stay taken."""
    engine = make()
    serve(engine, 0, [1, 2, 3, 4])
    engine.evict(8, 8)
    assert node_of(engine, [1, 2, 3, 4]).full is not None


def test_a_load_back_takes_fresh_slots_and_maps_them() -> None:
    """The request gets what was offloaded, in slots that need not be those it left."""
    engine = make()
    to_host(engine, [1, 2, 3, 4])
    compute(engine, 1, [9, 9], admit(engine, 1, [9, 9]).cached)
    assert admit(engine, 2, [1, 2, 3, 4, 5]) == Admission(cached=4, loaded=4)
    node = node_of(engine, [1, 2, 3, 4])
    assert node.full == engine.raw_requests()[2].row
    assert tuple(engine.raw_mapping()[loc] for loc in node.full or ()) == node.swa
    assert engine.read(2, 0, 4, 0).keys == tags([1, 2, 3, 4], 0, 0)
    assert engine.read(2, 2, 4, 1).keys == tags([1, 2, 3, 4], 0, 1)[2:]
    assert engine.pending() == 0


def test_a_forward_waits_for_the_transfers_it_needs_and_no_others() -> None:
    """Older transfers are over with it, for they run in order; younger ones stay queued."""
    engine = make(device=16)
    to_host(engine, [1, 2])
    to_host(engine, [3, 4])
    serve(engine, 0, [5, 6])
    admit(engine, 1, [1, 2, 9])
    admit(engine, 2, [3, 4, 9])
    assert engine.pending() == 3
    compute(engine, 1, [1, 2, 9], 2)
    assert engine.pending() == 1
    assert engine.read(2, 0, 2, 0).keys == tags([3, 4], 0, 0)
    assert engine.pending() == 0


def test_a_second_request_waits_for_the_first_ones_load_back() -> None:
    """A prefix that is on its way is matched as if it were there, and read only when it is."""
    engine = make()
    to_host(engine, [1, 2])
    admit(engine, 1, [1, 2, 9])
    assert admit(engine, 2, [1, 2, 8]) == Admission(cached=2, loaded=0)
    assert engine.pending() == 1
    assert engine.read(2, 0, 2, 1).keys == tags([1, 2], 0, 1)


def test_a_load_back_outlives_its_request() -> None:
    """Its slots stay locked when the request is aborted before the copy is over."""
    engine = make()
    to_host(engine, [1, 2])
    admit(engine, 1, [1, 2, 9])
    engine.abort(1)
    engine.evict(8, 8)
    assert node_of(engine, [1, 2]).full_locks == 1
    finish_transfers(engine)
    engine.evict(8, 8)
    assert node_of(engine, [1, 2]).full is None


def test_only_the_window_is_loaded_for_swa_layers() -> None:
    """Nodes further up come back as tombstones, and keep their SWA rows on the host."""
    engine = make()
    serve(engine, 0, [1, 2])
    finish_transfers(engine)
    to_host(engine, [1, 2, 3, 4])
    admit(engine, 1, [1, 2, 3, 4, 9])
    top, leaf = node_of(engine, [1, 2]), node_of(engine, [3, 4])
    assert (top.full is None, top.swa is None, top.host_swa is None) == (False, True, False)
    assert leaf.swa is not None


def test_a_tombstone_gets_its_swa_rows_back_alone() -> None:
    """The full slots on the device stay what they are."""
    engine = make()
    serve(engine, 0, [1, 2])
    serve(engine, 1, [1, 2, 3, 4])
    finish_transfers(engine)
    engine.evict(0, 2)
    tombstone = node_of(engine, [1, 2])
    assert tombstone.swa is None
    assert admit(engine, 2, [1, 2, 9]) == Admission(cached=2, loaded=2)
    node = node_of(engine, [1, 2])
    assert node.full == tombstone.full
    assert node.swa is not None
    assert engine.read(2, 0, 2, 1).keys == tags([1, 2], 0, 1)


def test_without_room_for_a_load_back_only_the_device_part_is_used() -> None:
    """The request is admitted all the same, and the node stays on the host."""
    engine = make()
    serve(engine, 0, [1, 2])
    finish_transfers(engine)
    to_host(engine, [1, 2, 3, 4])
    compute(engine, 1, [1, 2, 9], admit(engine, 1, [1, 2, 9]).cached)
    admit(engine, 2, [7, 7, 7, 7])
    assert engine.prefill(2, 4) is not None
    assert admit(engine, 3, [1, 2, 3, 4, 5]) == Admission(cached=2, loaded=0)
    assert node_of(engine, [3, 4]).full is None


def test_a_node_that_is_computed_again_takes_the_new_slots() -> None:
    """An insertion over a node on the host puts it on the device without a copy."""
    engine = make()
    compute(engine, 1, [1, 2, 3], admit(engine, 1, [1, 2, 3]).cached)
    to_host(engine, [1, 2])
    row = engine.raw_requests()[1].row
    engine.checkpoint(1)
    assert node_of(engine, [1, 2]).full == row[:2]
    assert engine.raw_requests()[1].row == row


def test_a_split_while_a_backup_is_queued_copies_both_halves() -> None:
    """The copy was queued by slots, and the lock follows the split (SGLang PR 27072)."""
    engine = make()
    serve(engine, 0, [1, 2, 3, 4])
    admit(engine, 1, [1, 2, 9])
    assert node_of(engine, [1, 2]).full_locks == 2
    finish_transfers(engine)
    assert host_rows(engine, node_of(engine, [1, 2])) == [tags([1, 2], 0, layer) for layer in range(2)]
    assert host_rows(engine, node_of(engine, [3, 4])) == [tags([1, 2, 3, 4], 2, layer) for layer in range(2)]
    assert [node.full_locks for node in engine.raw_tree()] == [1, 0]


def test_write_back_copies_a_node_when_it_is_evicted() -> None:
    """Nothing is queued before; its device slots are free only when the copy is over."""
    engine = make("write_back")
    serve(engine, 0, [1, 2, 3, 4])
    assert engine.pending() == 0
    engine.evict(2, 0)
    assert engine.pending() == 1
    assert len(engine.raw_free().full) == 2
    engine.transfer_done(1)
    node = node_of(engine, [1, 2, 3, 4])
    assert (node.full, node.swa) == (None, None)
    assert len(engine.raw_free().full) == 4
    assert host_rows(engine, node) == [tags([1, 2, 3, 4], 0, layer) for layer in range(2)]


def test_a_node_used_while_it_is_written_back_stays() -> None:
    """The copy was made, and the request goes on with the slots on the device."""
    engine = make("write_back")
    serve(engine, 0, [1, 2])
    engine.evict(2, 0)
    assert admit(engine, 1, [1, 2, 3]) == Admission(cached=2, loaded=0)
    engine.transfer_done(1)
    node = node_of(engine, [1, 2])
    assert node.full == engine.raw_requests()[1].row
    assert node.host_full is not None


@pytest.mark.parametrize("write_policy", ["write_through", "write_back"])
def test_an_allocation_waits_for_copies_that_will_free_slots(write_policy: str) -> None:
    """A prefill that does not fit completes transfers, oldest first, until it does."""
    engine = make(write_policy)
    serve(engine, 0, [1, 1, 1, 1])
    serve(engine, 1, [2, 2, 2, 2])
    admit(engine, 2, [3, 3])
    assert engine.prefill(2, 2) is not None
    assert node_of(engine, [1, 1, 1, 1]).full is None
    assert node_of(engine, [2, 2, 2, 2]).full is not None


def test_a_full_host_gives_up_its_oldest_leaf() -> None:
    """A node that is nowhere else goes with it; a copy of one on the device is only forgotten."""
    engine = make(host=4)
    to_host(engine, [1, 1])
    serve(engine, 1, [2, 2])
    serve(engine, 2, [3, 3])
    assert {node.tokens for node in engine.raw_tree()} == {(2, 2), (3, 3)}
    finish_transfers(engine)
    serve(engine, 3, [4, 4])
    assert node_of(engine, [2, 2]).host_full is None
    assert node_of(engine, [2, 2]).full is not None


def test_host_slots_of_a_queued_copy_are_not_given_away() -> None:
    """A backup that would need them is not made."""
    engine = make(host=2)
    serve(engine, 0, [1, 1])
    serve(engine, 1, [2, 2])
    assert engine.pending() == 1
    assert node_of(engine, [2, 2]).host_full is None
    assert engine.raw_host_free().full == []


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_node_the_host_cannot_take_is_dropped(tombstone: bool) -> None:
    """What hangs below it on the host gives way first, and then it goes itself, with SWA rows or without."""
    engine = make("write_back", host=2)
    serve(engine, 0, [1, 1, 1, 1])
    serve(engine, 1, [1, 1, 1, 1, 2, 2])
    engine.evict(0, 2 * tombstone)
    assert (node_of(engine, [1, 1, 1, 1]).swa is None) == tombstone
    engine.evict(2, 0)
    finish_transfers(engine)
    assert node_of(engine, [2, 2]).full is None
    engine.evict(2, 0)
    assert engine.raw_tree() == []
    assert len(engine.raw_free().full) == 4
    assert len(engine.raw_host_free().full) == 2


def test_the_host_gives_up_swa_rows_alone() -> None:
    """With a small SWA pool on the host, older nodes keep their full rows there."""
    engine = BuiltinEngine()
    shape = {"page_size": 2, "full_size": 16, "swa_size": 16, "window": 2, "host_full_size": 16, "host_swa_size": 4}
    engine.build(Config(level="engine", policy="memo", **shape))
    serve(engine, 0, [1, 1])
    serve(engine, 1, [1, 1, 2, 2])
    finish_transfers(engine)
    serve(engine, 2, [3, 3])
    top = node_of(engine, [1, 1])
    assert (top.host_full is None, top.host_swa is None) == (False, True)


def test_a_flush_waits_for_what_is_queued() -> None:
    """No copy may write to a slot that was handed out anew."""
    engine = make()
    serve(engine, 0, [1, 2])
    engine.flush()
    assert engine.pending() == 0
    assert len(engine.raw_host_free().full) == 16
    assert serve(engine, 1, [1, 2, 3]).cached == 0
