"""Tiers and transfers: who has which page, and which copies may be queued at once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from staleloc.models.hicache import Copied, overlap_fault, partition_fault


@pytest.mark.parametrize(
    ("free", "owners", "flying", "kind"),
    [
        ([3], {"a": [1, 1], "b": [2]}, [], None),
        ([3], {"a": [1]}, [2], None),
        ([2, 3], {"a": [4]}, [], "out-of-bounds"),
        ([2, 3, 0], {"a": [1]}, [], "out-of-bounds"),
        ([3], {"a": [1, 2], "b": [2]}, [], "alias"),
        ([2, 3, 3], {"a": [1]}, [], "double-free"),
        ([1, 2, 3], {"a": [1]}, [], "use-after-free"),
        ([2, 3], {"a": [1]}, [2], "race"),
        ([2], {"a": [1]}, [], "leak"),
    ],
)
def test_each_page_has_one_owner(
    free: list[int], owners: dict[str, Iterable[int]], flying: list[int], kind: str | None
) -> None:
    """Of three pages each is free, somebody's, or a transfer's; anything else has a class of its own."""
    fault = partition_fault("full", 3, free, owners, flying)
    assert (fault and fault.kind) == kind


@pytest.mark.parametrize(
    ("copies", "what"),
    [
        ([], None),
        ([Copied([1, 2], False), Copied([2, 1], False)], None),
        ([Copied([1, 2], True), Copied([3], False), Copied([4], True)], None),
        ([Copied([1, 2], True), Copied([2], False)], "queued copy 2 reads full slot 2, which copy 1 uses"),
        ([Copied([1, 2], False), Copied([2], True)], "queued copy 2 writes full slot 2, which copy 1 uses"),
        ([Copied([1], True), Copied([1], True)], "queued copy 2 writes full slot 1, which copy 1 uses"),
        ([Copied([1, 1], True)], "queued copy 1 writes full slot 1, which copy 1 uses"),
    ],
)
def test_two_copies_share_a_slot_only_if_both_read_it(copies: list[Copied], what: str | None) -> None:
    """In whichever order they are queued, and one copy does not write a slot twice."""
    fault = overlap_fault("full", copies)
    assert (None if fault is None else fault[:2]) == (None if what is None else ("race", what))
