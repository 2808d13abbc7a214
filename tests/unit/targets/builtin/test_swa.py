"""The hybrid allocator: what every operation does to the mapping and to both free lists."""

from __future__ import annotations

import pytest
import torch

from staleloc.models.config import Config
from staleloc.sim.targets.builtin.pools import HybridPool
from staleloc.sim.targets.builtin.swa import SwaAllocator


def make(page_size: int = 4, full_pages: int = 4, swa_pages: int = 4) -> SwaAllocator:
    config = Config(
        policy="memo", page_size=page_size, full_size=full_pages * page_size, swa_size=swa_pages * page_size
    )
    return SwaAllocator(config, HybridPool(config))


def table(allocator: SwaAllocator, locs: list[int]) -> list[int]:
    """The entries of these locs in the table that the pool translates with."""
    entries: list[int] = allocator.pool.full_to_swa_index_mapping[torch.tensor(locs)].tolist()
    return entries


def state(allocator: SwaAllocator) -> tuple[list[int], list[int], list[int]]:
    mapping: list[int] = allocator.full_to_swa_index_mapping.tolist()
    return mapping, allocator.full.free_pages(), allocator.swa.free_pages()


def test_every_loc_handed_out_is_mapped() -> None:
    """Both pools hand out slots, and the table pairs them in order."""
    allocator = make(page_size=1)
    allocator.swa.take(1)
    assert allocator.alloc(2) == [1, 2]
    assert table(allocator, [1, 2]) == [2, 3]


def test_a_refused_allocation_changes_nothing_at_all() -> None:
    """When the SWA pool is the short one, neither the table nor the full pool is touched."""
    allocator = make(swa_pages=1)
    allocator.alloc_extend([0], [4], [-1])
    before = state(allocator)
    assert allocator.alloc_extend([0], [4], [-1]) is None
    assert allocator.alloc_decode([5], [7]) is None
    assert allocator.alloc_extend_swa_tail(0, 8, -1, 4) is None
    assert state(allocator) == before


def test_only_the_tail_is_mapped() -> None:
    """A tail allocation maps its last tokens, and clears entries that a former owner left on its head."""
    allocator = make()
    allocator.full_to_swa_index_mapping[4:8] = 12
    assert allocator.alloc_extend_swa_tail(0, 6, -1, 2) == [4, 5, 6, 7, 8, 9]
    assert table(allocator, [4, 5, 6, 7, 8, 9]) == [0, 0, 0, 0, 4, 5]


def test_a_tail_of_zero_maps_nothing() -> None:
    """With no tail, no SWA page is taken and no entry is left."""
    allocator = make(swa_pages=1)
    assert allocator.alloc_extend_swa_tail(0, 8, -1, 0) == list(range(4, 12))
    assert table(allocator, list(range(4, 12))) == [0] * 8
    assert allocator.swa.free_pages() == [1]


def test_evicting_a_part_of_a_page_evicts_the_page() -> None:
    """The page's SWA slots go together, all its entries are cleared, and a second eviction does nothing."""
    allocator = make()
    allocator.alloc_extend([0], [4], [-1])
    allocator.free_swa([4])
    assert table(allocator, [4, 5, 6, 7]) == [0, 0, 0, 0]
    allocator.free_swa([5, 6, 7])
    assert sorted(allocator.swa.free_pages()) == [1, 2, 3, 4]
    assert allocator.full.free_pages() == [2, 3, 4]


def test_freeing_tokens_without_swa_slots_releases_no_padding() -> None:
    """A request whose window moved on gives back its full pages and the SWA pages it still has."""
    allocator = make()
    locs = allocator.alloc_extend([0], [8], [-1])
    assert locs is not None
    allocator.free_swa(locs[:4])
    allocator.free(locs)
    assert sorted(allocator.full.free_pages()) == sorted(allocator.swa.free_pages()) == [1, 2, 3, 4]


def test_a_group_unmaps_at_once_and_releases_at_its_end() -> None:
    """A token re-mapped inside the group keeps its new slots, and a second end releases nothing."""
    allocator = make(page_size=1, full_pages=2, swa_pages=2)
    allocator.alloc(1)
    allocator.free_group_begin()
    allocator.free_swa([1])
    assert table(allocator, [1]) == [0]
    assert allocator.swa.free_pages() == [2]
    allocator.set_mapping([1], allocator.take_swa([1]))
    allocator.free_group_end()
    allocator.free_group_end()
    assert table(allocator, [1]) == [2]
    assert allocator.swa.free_pages() == [1]


def test_an_open_group_survives_a_second_begin() -> None:
    """What the group held back before a nested begin is released at the end."""
    allocator = make(page_size=1)
    locs = allocator.alloc(2)
    assert locs is not None
    allocator.free_group_begin()
    allocator.free([1])
    allocator.free_group_begin()
    allocator.free([2])
    allocator.free_group_end()
    assert sorted(allocator.full.free_pages()) == [1, 2, 3, 4]


def test_fresh_swa_slots_keep_the_place_in_the_page() -> None:
    """SWA slots taken for mapped pages lie at the same offset as the full locs, also in a partial page."""
    allocator = make()
    locs = allocator.alloc_extend([0], [6], [-1])
    assert locs is not None
    assert allocator.take_swa(locs) == [12, 13, 14, 15, 16, 17]


def test_taking_more_swa_slots_than_there_are_is_an_error() -> None:
    """A mapping cannot be made out of nothing."""
    allocator = make(swa_pages=1)
    with pytest.raises(MemoryError, match="fewer than 2 free pages"):
        allocator.take_swa([4, 8])


def test_a_registered_mapping_is_used_by_allocator_and_pool() -> None:
    """After a replacement, both read and write the new table."""
    allocator = make(page_size=1)
    replaced = allocator.full_to_swa_index_mapping.clone()
    allocator.register_mapping(replaced)
    allocator.alloc(1)
    assert table(allocator, [1]) == [1]
    assert allocator.pool.full_to_swa_index_mapping is replaced


def test_a_restore_brings_back_free_lists_and_mapping() -> None:
    """A rolled-back draft leaves nothing behind."""
    allocator = make()
    allocator.alloc_extend([0], [6], [-1])
    before = state(allocator)
    saved = allocator.backup()
    allocator.alloc_extend([6], [12], [9])
    allocator.restore(saved)
    assert state(allocator) == before


def test_a_flush_keeps_the_entry_of_none() -> None:
    """After a clear everything is free and unmapped, and -1 still translates to -1."""
    allocator = make()
    fresh = state(allocator)
    allocator.alloc_extend([0], [9], [-1])
    allocator.clear()
    assert state(allocator) == fresh
    assert fresh[0][-1] == -1


def test_a_request_cannot_grow_in_a_page_without_swa_slots() -> None:
    """The next SWA slot follows the last one; where there is none, growing is refused aloud."""
    allocator = make()
    allocator.alloc_extend([0], [2], [-1])
    allocator.free_swa([4, 5])
    with pytest.raises(ValueError, match="no SWA slots in its last page"):
        allocator.alloc_decode([3], [5])


def test_single_slots_are_for_page_size_one() -> None:
    """`alloc` refuses to cut pages into slots."""
    with pytest.raises(ValueError, match="page size 1"):
        make().alloc(1)
