"""What every slot holds, by hand: a full layer of six slots, an SWA layer of four."""

from __future__ import annotations

import pytest

from staleloc.models.config import Config
from staleloc.models.contents import Contents, CopiedRows, Tag

TABLE = [0, 3, 0, 2, 0, 0]
"""Full loc 1 has SWA slot 3, full loc 3 has SWA slot 2, the others have none."""


@pytest.fixture
def contents() -> Contents:
    """Locs 1, 2 and 3 hold tags 11 to 13 in the full layer; their SWA slots hold 21 and 23."""
    contents = Contents(Config(page_size=1, full_size=5, swa_size=3, layers=("full", "swa")))
    contents.write(0, [1, 2, 3], [11, 12, 13])
    contents.write(1, [3, 0, 2], [21, 22, 23])
    return contents


def test_each_layer_is_as_large_as_its_pool_and_the_dummy_page() -> None:
    """Full layers have the full pool's slots, SWA layers the SWA pool's; all start empty."""
    contents = Contents(Config(page_size=4, full_size=16, swa_size=8, layers=("swa", "full")))
    assert [len(layer) for layer in contents.layers] == [12, 20]
    assert not any(map(any, contents.layers))


def test_tags_are_numbered_through_and_say_what_they_stand_for() -> None:
    """No two rows ever written share a tag; tag 0 is the row never written."""
    contents = Contents(Config())
    assert contents.new_tags([(0, 4), (1, 0)], layer=1, event=6) == [1, 2]
    assert contents.new_tags([(0, 4)], layer=1, event=7) == [3]
    assert contents.tags[1:] == [Tag(0, 4, 1, 6), Tag(1, 0, 1, 6), Tag(0, 4, 1, 7)]


def test_a_full_layer_is_indexed_by_full_locs_and_an_swa_layer_by_the_table(contents: Contents) -> None:
    """An unmapped loc is slot 0 of an SWA layer."""
    assert contents.slots(0, [1, 2, 3], TABLE) == [1, 2, 3]
    assert contents.slots(1, [1, 2, 3], TABLE) == [3, 0, 2]


def test_rows_for_the_dummy_slot_are_lost(contents: Contents) -> None:
    """Slot 0 stays empty in the model, for anything may be in it."""
    assert contents.layers == [[0, 11, 12, 13, 0, 0], [0, 0, 23, 21]]


def test_a_copy_holds_all_full_rows_and_the_swa_rows_that_exist(contents: Contents) -> None:
    """The mask says which SWA rows the copy holds."""
    assert contents.copy_out([3, 2, 1], TABLE) == CopiedRows([[13, 12, 11], [23, None, 21]], [True, False, True])


def test_a_load_fills_what_the_copy_holds_and_the_mapping_has(contents: Contents) -> None:
    """A hole of the copy keeps its slot's row; a row whose token is unmapped now goes nowhere."""
    rows = contents.copy_out([1, 2, 3], TABLE)
    contents.write(1, [1, 2, 3], [91, 92, 93])
    contents.copy_in(rows, [1, 2, 3], [0, 2, 1, 0, 0, 0])
    assert contents.layers[1] == [0, 91, 21, 93]


def test_a_load_goes_to_the_slots_of_now(contents: Contents) -> None:
    """Other locs, other SWA slots: each row keeps its position in the copy."""
    rows = contents.copy_out([1, 3], TABLE)
    contents.copy_in(rows, [4, 5], [0, 0, 0, 0, 1, 3])
    assert contents.layers == [[0, 11, 12, 13, 11, 13], [0, 21, 23, 23]]


def test_a_copy_does_not_follow_the_memory(contents: Contents) -> None:
    """What is written after the copy was made is not in it."""
    rows = contents.copy_out([1], TABLE)
    contents.write(0, [1], [99])
    assert rows.layers[0] == [11]


def test_a_move_reads_every_source_before_it_writes(contents: Contents) -> None:
    """Two tokens can change places, in both kinds of layers."""
    contents.move([1, 3], [3, 1], TABLE)
    assert contents.layers == [[0, 13, 12, 11, 0, 0], [0, 0, 21, 23]]


def test_a_move_leaves_the_sources_as_they_are(contents: Contents) -> None:
    """Moving is copying: a freed slot keeps its bytes."""
    contents.move([1], [3], TABLE)
    assert contents.layers == [[0, 13, 12, 13, 0, 0], [0, 0, 23, 23]]
