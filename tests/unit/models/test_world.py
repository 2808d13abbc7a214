"""The world, event by event, by hand: slots are adopted, and everything that follows from them is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staleloc.models.config import Config
from staleloc.models.contents import CopiedRows
from staleloc.models.world import Grant, World

SLOTS = Config(page_size=1, full_size=6, swa_size=4, layers=("full", "swa"), window=2)
PAGES = Config(page_size=4, full_size=16, swa_size=12, layers=("full", "swa"), window=4)


def give(world: World, request: int, *slots: tuple[int, int]) -> None:
    """A request's next tokens get these full and SWA locs."""
    first = len(world.locs(request))
    world.extend([Grant(request, first + i, loc, swa) for i, (loc, swa) in enumerate(slots)])


def page(loc: int, swa: int, count: int = 4) -> list[tuple[int, int]]:
    """Slots of a page in order; without SWA slots if `swa` is 0."""
    return [(loc + i, swa + i if swa else 0) for i in range(count)]


def run(world: World, tokens: Sequence[tuple[int, int]]) -> None:
    """Start a forward over these tokens and write it at every layer."""
    world.begin_forward(list(tokens))
    for layer in range(len(world.config.layers)):
        world.write(layer, world.new_tags(layer))


@pytest.fixture
def world() -> World:
    """Page size 1: request 0 has full locs 1 and 2 with SWA locs 4 and 3, given at event 1."""
    world = World(SLOTS)
    world.now = 1
    give(world, 0, (1, 4), (2, 3))
    world.now = 2
    return world


@pytest.fixture
def paged() -> World:
    """Page size 4: request 0 has six tokens in full pages 2 and 1 with SWA pages 1 and 3, given at event 1."""
    world = World(PAGES)
    world.now = 1
    give(world, 0, *page(8, 4), *page(4, 12, 2))
    world.now = 2
    return world


# Looking


def test_a_request_is_its_full_locs(world: World) -> None:
    """Spans of it, its last loc, and which of its locs have SWA slots."""
    assert world.locs(0) == [1, 2]
    assert world.locs(0, 1) == [2]
    assert world.locs(9) == []
    assert [world.last_loc(request) for request in (0, 9)] == [2, -1]
    assert world.mapped([0, 1, 2, 5]) == [1, 2]


def test_new_tokens_take_the_pages_that_the_last_page_does_not_cover(paged: World) -> None:
    """Six tokens leave two slots of the second page."""
    assert [paged.new_pages(0, count) for count in (1, 2, 3, 6, 7)] == [0, 0, 1, 1, 2]
    assert paged.new_pages(9, 4) == 1


# Allocation


def test_adopted_slots_have_owners_and_a_translation(world: World) -> None:
    """What was handed out is owned in both pools, and the mapping says which slots belong together."""
    assert world.full.owner == {1: 0, 2: 0}
    assert world.swa.owner == {4: 0, 3: 0}
    assert world.mapping.table[:3] == [0, 4, 3]
    assert world.mapping.history[1][0].event == 1
    assert world.seen["full_ne_swa"] == 2


def test_a_page_is_adopted_with_its_first_token(paged: World) -> None:
    """Tokens that go on in a page own nothing more."""
    assert paged.full.owner == {2: 0, 1: 0}
    assert paged.swa.owner == {1: 0, 3: 0}
    give(paged, 0, (6, 14))
    assert paged.swa.free == {2}


def test_the_answer_to_an_allocation_is_one_grant_a_token(paged: World) -> None:
    """Requests follow each other, positions go on, and SWA slots are read from the raw mapping."""
    actual = list(range(100, 120))
    assert paged.grants([(0, 2), (1, 1)], [6, 7, 12], actual, None) == [
        Grant(0, 6, 6, 106),
        Grant(0, 7, 7, 107),
        Grant(1, 0, 12, 112),
    ]


def test_the_head_of_a_tail_allocation_is_granted_no_swa_slots(paged: World) -> None:
    """Whatever the raw mapping says about it: that is for the mapping check to judge."""
    actual = list(range(100, 120))
    grants = paged.grants([(1, 5)], [12, 13, 14, 15, 0], actual, 1)
    assert [grant.swa for grant in grants] == [0, 0, 0, 0, 100]
    assert [grant.due for grant in grants] == [False, False, False, False, True]


def test_a_loc_outside_the_table_is_granted_without_an_swa_slot(paged: World) -> None:
    """The bounds check speaks about it; reading the table there would be a crash of our own."""
    assert [grant.swa for grant in paged.grants([(1, 2)], [-3, 99], [7] * 20, None)] == [0, 0]


def test_a_slot_handed_out_again_is_noticed(world: World) -> None:
    """Reuse, another translation than before, and a recycled slot under a head are situations worth reaching."""
    world.free(0, 0)
    give(world, 1, (1, 3), (2, 0))
    assert world.seen["slot_reused"] == 2
    assert world.seen["tail_over_recycled"] == 1
    assert world.seen["entry_remapped"] == 1
    assert world.mapping.table[:3] == [0, 3, 0]


def test_live_tokens_take_over_fresh_swa_slots(world: World) -> None:
    """A load-back maps in place: the full slots stay, the new SWA slots have the request as owner."""
    world.free_swa(0, 0, 2)
    grants = world.remap_grants(0, 0, [1, 2])
    assert grants == [Grant(0, 0, 1, 1), Grant(0, 1, 2, 2)]
    world.remap(grants)
    assert world.mapping.table[:3] == [0, 1, 2]
    assert world.swa.owner == {1: 0, 2: 0}


def test_slots_that_a_replaced_mapping_no_longer_names_are_free_again(paged: World) -> None:
    """They are released after the new ones were taken; unmapped entries released nothing."""
    old = paged.mapping.table[8:12]
    paged.remap(paged.remap_grants(0, 0, [8, 9, 10, 11]))
    paged.release_swa([*old, 0])
    assert paged.swa.owner == {2: 0, 3: 0}
    assert paged.swa.free == {1}


# Giving up


def test_a_freed_request_leaves_nothing_behind(world: World) -> None:
    """Both pools get the slots back and the entries are 0."""
    world.free(0, 0)
    assert world.locs(0) == []
    assert not world.full.owner
    assert not world.swa.owner
    assert world.mapping.table == [0] * 7


def test_a_request_can_be_cut_at_a_page(paged: World) -> None:
    """The pages before `start` stay."""
    paged.free(0, 4)
    assert paged.locs(0) == [8, 9, 10, 11]
    assert paged.full.owner == {2: 0}
    assert paged.swa.owner == {1: 0}


def test_an_evicted_window_keeps_its_full_slots(paged: World) -> None:
    """The SWA page is free and the page's entries are 0; the request goes on."""
    paged.free_swa(0, 0, 4)
    assert paged.locs(0)[:4] == [8, 9, 10, 11]
    assert paged.full.owner == {2: 0, 1: 0}
    assert paged.swa.owner == {3: 0}
    assert paged.mapping.table[8:12] == [0] * 4
    assert paged.seen["window_evicted"] == 1
    assert not paged.seen["partial_page_evicted"]


@pytest.mark.parametrize(("start", "stop"), [(1, 4), (0, 3), (2, 3)])
def test_evicting_a_part_of_a_page_evicts_the_page(paged: World, start: int, stop: int) -> None:
    """A page's SWA slots are one allocation, so none of its entries may survive."""
    paged.free_swa(0, start, stop)
    assert paged.mapping.table[8:12] == [0] * 4
    assert paged.seen["partial_page_evicted"] == 1


def test_evicting_a_partly_filled_last_page_is_no_partial_eviction(paged: World) -> None:
    """A span that reaches the request's end names all there is of the page."""
    paged.free_swa(0, 4, 6)
    assert paged.swa.owner == {1: 0}
    assert not paged.seen["partial_page_evicted"]


def test_a_token_without_an_swa_slot_releases_none(world: World) -> None:
    """Freed after its window was evicted, a token gives back its full slot only."""
    world.free_swa(0, 0, 1)
    world.free(0, 0)
    assert world.swa.free == {1, 2, 3, 4}


def test_what_is_freed_in_a_group_waits_for_its_end(world: World) -> None:
    """Slots are pending and the old entries tolerated; at the end slots are free and entries must be 0."""
    world.begin_group()
    world.free(0, 1)
    assert (world.full.pending, world.swa.pending) == ({2}, {3})
    assert world.mapping.lenient == {2: 3}
    world.end_group()
    assert (world.full.free, world.swa.free) == ({2, 3, 4, 5, 6}, {1, 2, 3})
    assert not world.mapping.lenient
    assert world.seen["group_deferred"] == 1


def test_ending_a_group_that_is_not_open_frees_nothing(world: World) -> None:
    """What the world holds is the same afterwards."""
    world.end_group()
    assert world.full.owner == {1: 0, 2: 0}
    assert world.full.free == {3, 4, 5, 6}


def test_a_page_mapped_again_before_its_group_ends_keeps_its_new_slots(world: World) -> None:
    """Ownership was resolved when the free was queued, so the end of the group cannot take the new slot."""
    world.begin_group()
    world.free_swa(0, 0, 1)
    world.remap(world.remap_grants(0, 0, [2]))
    world.end_group()
    assert world.swa.owner == {2: 0, 3: 0}
    assert world.mapping.table[1] == 2
    assert world.seen["remapped_in_group"] == 1


def test_a_flushed_cache_has_no_requests(world: World) -> None:
    """Everything is free and unmapped and no group is open; copies on the CPU stay."""
    world.cpu_copy(5, [1])
    world.begin_group()
    world.clear()
    assert not world.requests
    assert not world.group_open
    assert not world.full.owner
    assert not world.swa.owner
    assert not any(world.mapping.table)
    assert list(world.copies) == [5]
    assert world.seen["cleared"] == 1


# Backup and restore


def test_a_rolled_back_draft_never_was(world: World) -> None:
    """Requests and owners are those of the backup, and the draft's entries are 0."""
    world.backup()
    give(world, 0, (5, 1))
    give(world, 1, (6, 2))
    world.restore()
    assert world.requests == {0: [1, 2]}
    assert world.full.owner == {1: 0, 2: 0}
    assert world.swa.free == {1, 2}
    assert world.mapping.table == [0, 4, 3, 0, 0, 0, 0]
    assert not world.mapping.lenient
    assert world.seen["restored"] == 1


def test_a_restore_that_leaves_the_mapping_is_tolerated_until_the_slot_is_used() -> None:
    """Nobody can ask for the entry of a slot that nobody owns; once it is handed out, one answer is right."""
    world = World(SLOTS, restores_mapping=False)
    world.backup()
    give(world, 0, (5, 1))
    world.restore()
    assert world.mapping.lenient == {5: 1}
    give(world, 1, (5, 0))
    assert not world.mapping.lenient


# Forwards


def test_a_forward_knows_its_locs_as_they_were_when_it_began(world: World) -> None:
    """Its tokens are named once; the mapping they are written through is that of each write."""
    give(world, 1, (3, 1))
    assert world.begin_forward([(0, 1), (1, 0)]) == [2, 3]
    world.free(1, 0)
    assert world.forward is not None
    assert world.forward.locs == [2, 3]


def test_a_write_lands_where_the_mapping_says_now(world: World) -> None:
    """Full layers take full locs, SWA layers the translated ones."""
    run(world, [(0, 0), (0, 1)])
    assert world.contents.layers == [[0, 1, 2, 0, 0, 0, 0], [0, 0, 0, 4, 3]]


def test_a_batch_whose_mapping_changes_is_noticed(world: World) -> None:
    """Only a change of the batch's own locs counts, and a later write is a situation of its own."""
    world.begin_forward([(0, 0)])
    world.free_swa(0, 1, 2)
    assert not world.seen["changed_mid_forward"]
    world.free_swa(0, 0, 1)
    assert world.seen["changed_mid_forward"] == 1
    world.write(0, world.new_tags(0))
    assert not world.seen["written_after_change"]
    world.write(1, world.new_tags(1))
    assert world.seen["written_after_change"] == 1


# Copies and moves


def test_a_copy_holds_the_swa_rows_that_exist(world: World) -> None:
    """A copy of an evicted token lacks its SWA row; that some are held and some are not is noticed."""
    run(world, [(0, 0), (0, 1)])
    world.free_swa(0, 0, 1)
    world.cpu_copy(5, [1, 2])
    assert world.copies[5] == (CopiedRows([[1, 2], [None, 4]], [False, True]), [1, 2])
    assert world.seen["partial_mask"] == 1


def test_a_load_skips_what_either_side_lacks(world: World) -> None:
    """A hole is not filled, a row without a slot goes nowhere, and both are noticed, as is a load elsewhere."""
    run(world, [(0, 0), (0, 1)])
    world.free_swa(0, 0, 1)
    world.cpu_copy(5, [1, 2])
    give(world, 1, (3, 2), (4, 0))
    world.load_cpu_copy(5, [3, 4])
    assert world.contents.layers == [[0, 1, 2, 1, 2, 0, 0], [0, 0, 0, 4, 3]]
    assert {name: world.seen[name] for name in ("unfilled_hole", "row_skipped", "loaded_elsewhere")} == {
        "unfilled_hole": 1,
        "row_skipped": 1,
        "loaded_elsewhere": 1,
    }


def test_moved_rows_are_in_both_pools(world: World) -> None:
    """The target's slots hold the source's rows in every layer."""
    run(world, [(0, 0), (0, 1)])
    world.move([1], [2])
    assert world.contents.layers == [[0, 2, 2, 0, 0, 0, 0], [0, 0, 0, 4, 4]]
    assert world.seen["moved"] == 1
