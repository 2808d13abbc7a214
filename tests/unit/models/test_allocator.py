"""Who owns which page: a pool of three pages, by hand."""

from __future__ import annotations

import pytest

from staleloc.models.allocator import SlotPool


@pytest.fixture
def pool() -> SlotPool:
    """Request 7 owns page 2 of three."""
    pool = SlotPool(3)
    pool.adopt(2, 7)
    return pool


def test_a_new_pool_is_all_free_but_the_dummy_page() -> None:
    """Pages are numbered from 1; page 0 is nobody's and never free."""
    pool = SlotPool(3)
    assert pool.free == {1, 2, 3}
    assert not pool.owner


def test_an_adopted_page_has_an_owner_and_is_not_free(pool: SlotPool) -> None:
    """Adoption moves a page from the free ones to its owner."""
    assert pool.owner == {2: 7}
    assert pool.free == {1, 3}


def test_a_released_page_is_free_at_once_outside_a_group(pool: SlotPool) -> None:
    """Nothing stays behind."""
    pool.release([2], deferred=False)
    assert pool.free == {1, 2, 3}
    assert not pool.owner


def test_a_page_released_in_a_group_is_pending_until_the_group_ends(pool: SlotPool) -> None:
    """In between it is neither owned nor free."""
    pool.release([2], deferred=True)
    assert (pool.owner, pool.pending, pool.free) == ({}, {2}, {1, 3})
    pool.close_group()
    assert (pool.pending, pool.free) == (set(), {1, 2, 3})


def test_a_pending_page_that_the_target_offers_already_is_free(pool: SlotPool) -> None:
    """Either time of release is allowed; pages that were never pending are not touched by it."""
    pool.adopt(3, 8)
    pool.release([2], deferred=True)
    pool.settle([2, 3])
    assert (pool.owner, pool.pending, pool.free) == ({3: 8}, set(), {1, 2})


def test_a_pending_page_can_be_adopted(pool: SlotPool) -> None:
    """A target that releases early may hand the page out again before the group ends."""
    pool.release([2], deferred=True)
    pool.adopt(2, 9)
    pool.close_group()
    assert (pool.owner, pool.free) == ({2: 9}, {1, 3})


def test_releasing_what_nobody_owns_is_an_error(pool: SlotPool) -> None:
    """The model never frees twice; if it did, that would be its own bug."""
    with pytest.raises(KeyError):
        pool.release([1], deferred=False)


def test_a_cleared_pool_is_as_new(pool: SlotPool) -> None:
    """Owners and pending pages are forgotten."""
    pool.adopt(3, 8)
    pool.release([3], deferred=True)
    pool.clear()
    assert (pool.owner, pool.pending, pool.free) == ({}, set(), {1, 2, 3})


def test_a_rewind_brings_the_owners_of_the_snapshot_back(pool: SlotPool) -> None:
    """Pages adopted since are free again, and the snapshot does not follow the pool."""
    saved = pool.snapshot()
    pool.adopt(3, 8)
    pool.rewind(saved)
    assert (pool.owner, pool.free) == ({2: 7}, {1, 3})
    pool.adopt(1, 9)
    assert saved == {2: 7}
