"""Tiers and transfers: each slot has one owner, and none is free while a copy still reads or writes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

__all__ = ["Copied", "Fault", "overlap_fault", "partition_fault"]


class Fault(NamedTuple):
    """A fault in a pool: a class of divergence, and a message; the pool and the page that are wrong, and its owners."""

    kind: str
    what: str
    pool: str = ""
    page: int = 0
    owners: tuple[str, ...] = ()


class Copied(NamedTuple):
    """Slots of one pool that one transfer reads or writes."""

    slots: Collection[int]
    written: bool


def overlap_fault(pool: str, copies: Iterable[Copied]) -> Fault | None:
    """The fault in the transfers that use a pool, or None. Two may share a slot if both only read it."""
    writer: dict[int, int] = {}
    reader: dict[int, int] = {}
    for number, copy in enumerate(copies, 1):
        for slot in copy.slots:
            other = writer.get(slot) or (reader.get(slot) if copy.written else None)
            if other is not None:
                verb = "writes" if copy.written else "reads"
                return Fault("race", f"queued copy {number} {verb} {pool} slot {slot}, which copy {other} uses")
            (writer if copy.written else reader)[slot] = number
    return None


def partition_fault(
    pool: str, pages: int, free: list[int], owners: Mapping[str, Iterable[int]], in_flight: Iterable[int]
) -> Fault | None:
    """The fault in the ownership of pages, or None.

    Args:
        pool: the pool's name, for the message.
        pages: its pages, 1 to `pages`; page 0 is the dummy page.
        free: its free list, in pages.
        owners: owner -> its pages. A page may be listed more than once for one owner.
        in_flight: pages that queued transfers read or write; a page without an owner belongs to them.
    """
    flying, listed = set(in_flight), set(free)
    held = [set(owned) for owned in owners.values()]
    known = listed.union(*held)
    if len(known) == len(free) + sum(map(len, held)) and listed.isdisjoint(flying):
        every = set(range(1, pages + 1))
        if known <= every <= known | flying:
            return None  # the common case; what follows names the fault
    owner_of: dict[int, str] = {}
    for owner, owned in owners.items():
        for page in set(owned):
            if not 1 <= page <= pages:
                what = f"{owner} has {pool} page {page}; its pages are 1 to {pages}"
                return Fault("out-of-bounds", what, pool, page, (owner,))
            if page in owner_of:
                what = f"{pool} page {page} belongs to {owner_of[page]} and to {owner}"
                return Fault("alias", what, pool, page, (owner_of[page], owner))
            owner_of[page] = owner
    beyond = {page for page in listed if not 1 <= page <= pages}
    if beyond:
        return Fault("out-of-bounds", f"{pool} page {min(beyond)} is in the free list; its pages are 1 to {pages}")
    if len(listed) != len(free):
        twice = min(page for page in listed if free.count(page) > 1)
        return Fault("double-free", f"{pool} page {twice} is in the free list more than once", pool, twice)
    taken = listed & owner_of.keys()
    if taken:
        page = min(taken)
        what = f"{pool} page {page} is in the free list while {owner_of[page]} has it"
        return Fault("use-after-free", what, pool, page, (owner_of[page],))
    racing = listed & flying
    if racing:
        page = min(racing)
        return Fault("race", f"{pool} page {page} is in the free list while a transfer still uses it", pool, page)
    missing = set(range(1, pages + 1)) - listed - owner_of.keys() - flying
    if missing:
        page = min(missing)
        return Fault("leak", f"{pool} page {page} has no owner and is in no free list", pool, page)
    return None
