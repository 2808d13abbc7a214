"""The slot allocator: which slots a request gets, and what a free list holds afterwards."""

from __future__ import annotations

import pytest

from staleloc.sim.targets.builtin.slots import SlotAllocator


def test_page_zero_is_never_handed_out() -> None:
    """All pages but the padding page can be taken, and no more than these."""
    slots = SlotAllocator(size=12, page_size=4, need_sort=False)
    assert slots.take(3) == [1, 2, 3]
    assert slots.take(1) is None


def test_an_extension_fills_the_last_page_then_whole_pages_then_a_part() -> None:
    """A request of 3 tokens that grows to 10 goes on in its page, takes a whole page and two slots of another."""
    slots = SlotAllocator(size=32, page_size=4, need_sort=False)
    first = slots.alloc_extend([0], [3], [-1])
    assert first == [4, 5, 6]
    assert slots.alloc_extend([3], [10], [6]) == [7, 8, 9, 10, 11, 12, 13]
    assert slots.free_pages() == [4, 5, 6, 7, 8]


def test_requests_of_one_extension_share_no_page() -> None:
    """Two requests in one call get pages of their own, one request after the other."""
    slots = SlotAllocator(size=16, page_size=4, need_sort=False)
    assert slots.alloc_extend([0, 0], [5, 2], [-1, -1]) == [4, 5, 6, 7, 8, 12, 13]


def test_a_decode_step_takes_a_page_only_at_a_page_boundary() -> None:
    """Of two requests, the one whose page is full gets a new page, the other the next slot of its page."""
    slots = SlotAllocator(size=16, page_size=4, need_sort=False)
    slots.alloc_extend([0, 0], [4, 2], [-1, -1])
    assert slots.alloc_decode([5, 3], [7, 9]) == [12, 10]


@pytest.mark.parametrize("need_sort", [False, True])
def test_a_refusal_changes_nothing(need_sort: bool) -> None:
    """An extension that does not fit leaves every page where it was."""
    slots = SlotAllocator(size=8, page_size=4, need_sort=need_sort)
    assert slots.alloc_extend([0], [9], [-1]) is None
    assert slots.alloc_extend([0], [8], [-1]) == [4, 5, 6, 7, 8, 9, 10, 11]


def test_released_pages_come_back_in_the_order_of_release() -> None:
    """Without sorting, a released page goes to the end of the free list."""
    slots = SlotAllocator(size=3, page_size=1, need_sort=False)
    slots.take(3)
    slots.release([3])
    slots.release([1])
    assert slots.take(2) == [3, 1]


def test_released_pages_are_sorted_in_when_the_list_runs_short() -> None:
    """With `need_sort`, released pages stay apart until they are needed, and then all pages come in order."""
    slots = SlotAllocator(size=4, page_size=1, need_sort=True)
    slots.take(3)
    slots.release([3, 1])
    assert slots.take(1) == [4]
    slots.release([4])
    assert slots.take(3) == [1, 3, 4]
    assert slots.available_pages() == 0


def test_a_backup_can_be_restored_twice() -> None:
    """Taking pages after a restore does not wear the backup out."""
    slots = SlotAllocator(size=3, page_size=1, need_sort=True)
    state = slots.backup()
    for _ in range(2):
        assert slots.take(2) == [1, 2]
        slots.restore(state)
        assert slots.free_pages() == [1, 2, 3]
