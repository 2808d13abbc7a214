"""The scheduler's books, by hand, and against the world on tapes that were played."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.models.world import World
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.allocator.event import Step
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.allocator.ledger import Ledger, OpenForward, RequestState
from staleloc.sim.targets.base import Target
from staleloc.sim.targets.builtin import BuiltinTarget

PAGES = Config(page_size=4, full_size=24, swa_size=16)


def books(*events: ev.Event, config: Config = PAGES, per_forward: bool = False) -> Ledger:
    """The ledger after some events."""
    ledger = Ledger(config, per_forward)
    for event in events:
        ledger.apply(event)
    return ledger


def test_a_request_takes_whole_pages_of_both_pools() -> None:
    """Six tokens are two pages; three more fill the second and start a third."""
    ledger = books(ev.AllocExtend(((0, 6),)))
    assert (ledger.length(0), ledger.free_full, ledger.free_swa) == (6, 4, 2)
    assert ledger.new_pages(0, 3) == 1
    ledger.apply(ev.AllocExtend(((0, 3),)))
    assert (ledger.length(0), ledger.free_full, ledger.free_swa) == (9, 3, 1)


def test_a_batch_is_granted_as_a_whole_or_not_at_all() -> None:
    """The SWA pool has four pages; three requests of two pages each get none of them."""
    ledger = books(ev.AllocExtend(((0, 8), (1, 8), (2, 8))))
    assert (ledger.requests, ledger.free_full, ledger.free_swa) == ({}, 6, 4)


def test_a_tail_allocation_takes_swa_pages_for_its_tail_only() -> None:
    """Twelve tokens with a tail of four: three full pages, one SWA page, the last."""
    ledger = books(ev.AllocExtendSwaTail(0, 12, 4))
    assert (ledger.free_full, ledger.free_swa) == (3, 3)
    assert ledger.mapped(0, 0, 12) == [False, False, True]


def test_a_decode_step_is_one_token_a_request() -> None:
    """A page is taken only where the last one is full."""
    ledger = books(ev.AllocExtend(((0, 4), (1, 3))), ev.AllocDecode((0, 1)))
    assert (ledger.length(0), ledger.length(1), ledger.free_full) == (5, 4, 3)


def test_page_size_one_counts_slots() -> None:
    """Each token is a page of its own."""
    ledger = books(ev.Alloc(0, 3), config=Config(page_size=1, full_size=6, swa_size=4))
    assert (ledger.free_full, ledger.free_swa) == (3, 1)


def test_a_free_gives_back_what_was_mapped() -> None:
    """Freed from its second page on, a request with one evicted page gives back one SWA page."""
    ledger = books(ev.AllocExtend(((0, 12),)), ev.FreeSwa(0, 4, 8), ev.Free(0, 4))
    assert (ledger.length(0), ledger.free_full, ledger.free_swa) == (4, 5, 3)


def test_an_eviction_takes_every_page_it_touches() -> None:
    """Tokens 3 to 5 lie in two pages, and both lose their SWA slots."""
    ledger = books(ev.AllocExtend(((0, 12),)), ev.FreeSwa(0, 3, 5))
    assert ledger.mapped(0, 0, 12) == [False, False, True]
    assert (ledger.free_full, ledger.free_swa) == (3, 3)


def test_mapping_in_place_takes_swa_pages() -> None:
    """Full pages stay as they were."""
    ledger = books(ev.AllocExtendSwaTail(0, 12, 0), ev.SetMapping(0, 4, 8))
    assert ledger.mapped(0, 0, 12) == [False, True, False]
    assert (ledger.free_full, ledger.free_swa) == (3, 3)


def test_slots_freed_in_a_group_are_available_at_its_end() -> None:
    """Until then they are pending in both pools."""
    ledger = books(ev.AllocExtend(((0, 4),)), ev.FreeGroupBegin(), ev.Free(0, 0))
    assert (ledger.free_full, ledger.pending_full, ledger.free_swa, ledger.pending_swa) == (5, 1, 3, 1)
    ledger.apply(ev.FreeGroupEnd())
    assert (ledger.free_full, ledger.pending_full, ledger.free_swa, ledger.pending_swa) == (6, 0, 4, 0)
    assert not ledger.group_open


def test_a_restore_forgets_the_draft() -> None:
    """Lengths and counts are those of the backup, and there is no backup any more."""
    before = books(ev.AllocExtend(((0, 4),)))
    ledger = books(ev.AllocExtend(((0, 4),)), ev.Backup(), ev.AllocExtend(((0, 1), (1, 4))), ev.Restore())
    assert ledger.requests == before.requests
    assert (ledger.free_full, ledger.free_swa) == (before.free_full, before.free_swa)
    assert ledger.saved is None


def test_a_flush_leaves_copies_only() -> None:
    """Requests, counts, an open group and the running batch are gone."""
    ledger = books(
        ev.AllocExtend(((0, 8),)),
        ev.CpuCopy(3, 0, 2, 7),
        ev.BeginForward(((0, 0, 8),)),
        ev.FreeGroupBegin(),
        ev.Clear(),
    )
    assert (ledger.requests, ledger.free_full, ledger.free_swa, ledger.group_open) == ({}, 6, 4, False)
    assert ledger.copies == {3: 5}
    assert ledger.forward is not None
    assert ledger.forward.broken


@pytest.mark.parametrize(("start", "broken"), [(0, True), (4, True), (8, False)])
def test_a_batch_is_broken_when_it_loses_a_token(start: int, broken: bool) -> None:
    """Freeing tokens of the request that the batch does not hold leaves it whole."""
    ledger = books(ev.AllocExtend(((0, 12),)), ev.BeginForward(((0, 2, 7),)), ev.Free(0, start))
    assert ledger.forward is not None
    assert ledger.forward.broken is broken


def test_a_batch_translated_up_front_is_frozen() -> None:
    """Either the forward brings its translation, or the target always translates once a forward."""
    forward = ev.BeginForward(((0, 0, 4),))
    extend = ev.AllocExtend(((0, 4),))
    frozen = [
        books(extend, forward),
        books(extend, replace(forward, precomputed=True)),
        books(extend, forward, per_forward=True),
    ]
    assert [ledger.forward is not None and ledger.forward.frozen for ledger in frozen] == [False, True, True]


def test_layers_are_counted_until_the_forward_ends() -> None:
    """Each write moves on to the next layer."""
    ledger = books(ev.AllocExtend(((0, 4),)), ev.BeginForward(((0, 0, 4),)), ev.WriteKv(0))
    assert ledger.forward == OpenForward(((0, 0, 4),), frozen=False, next_layer=1)
    assert ledger.forward.tokens == 4
    ledger.apply(ev.EndForward())
    assert ledger.forward is None


def test_a_request_whose_last_page_was_evicted_cannot_be_appended_to() -> None:
    """Unless that page is full, for then the next token starts a page."""
    evict = ev.FreeSwa(0, 4, 8)
    assert books(ev.AllocExtend(((0, 7),))).appendable(0)
    assert not books(ev.AllocExtend(((0, 7),)), replace(evict, stop=7)).appendable(0)
    assert books(ev.AllocExtend(((0, 8),)), evict).appendable(0)
    assert books().appendable(0)


@pytest.mark.parametrize("index", range(60))
def test_the_books_agree_with_the_world(index: int) -> None:
    """On a tape that is played, lengths, mapped pages and free pages are the same in both after every event."""
    target: Target = BuiltinTarget()
    tape = generate(seeded(5, index), target.profiles)
    size = tape.config.page_size
    world, ledger = World(tape.config), Ledger(tape.config)
    target.build(tape.config)
    for number, event in enumerate(tape.events):
        world.now = number
        step = Step(number, event, world, target)
        event.perform(step)
        event.adopt(step)
        ledger.apply(event)
        table = world.mapping.table
        assert {
            r: RequestState(len(locs), [table[loc] > 0 for loc in locs[::size]]) for r, locs in world.requests.items()
        } == (ledger.requests)
        assert (ledger.free_full, ledger.free_swa) == (len(world.full.free), len(world.swa.free))
        assert (ledger.pending_full, ledger.pending_swa) == (len(world.full.pending), len(world.swa.pending))
        assert ledger.copies == {copy: len(locs) for copy, (_, locs) in world.copies.items()}
        assert (ledger.forward is None) == (world.forward is None)
        assert ledger.group_open == world.group_open
