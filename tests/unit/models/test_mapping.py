"""The table full loc -> SWA loc and its history, by hand."""

from __future__ import annotations

import pytest

from staleloc.models.mapping import Change, Mapping


@pytest.fixture
def mapping() -> Mapping:
    """Loc 3 was mapped to 5 at event 1, to 6 at event 4 and unmapped at event 8."""
    mapping = Mapping(8)
    mapping.set(1, 3, 5)
    mapping.set(4, 3, 6)
    mapping.set(8, 3, 0)
    return mapping


def test_a_new_mapping_maps_nothing() -> None:
    """Every entry is 0 and has no history."""
    mapping = Mapping(3)
    assert mapping.table == [0, 0, 0]
    assert not mapping.history


def test_an_entry_remembers_every_change(mapping: Mapping) -> None:
    """Changes are kept in event order, with the event that made them."""
    assert mapping.history == {3: [Change(1, 5), Change(4, 6), Change(8, 0)]}
    assert mapping.table[3] == 0


def test_setting_what_is_there_is_no_change() -> None:
    """An event that confirms an entry is not the one that made it."""
    mapping = Mapping(8)
    mapping.set(1, 3, 5)
    mapping.set(2, 3, 5)
    mapping.set(2, 4, 0)
    assert mapping.history == {3: [Change(1, 5)]}


@pytest.mark.parametrize(("event", "swa"), [(0, 0), (1, 5), (3, 5), (4, 6), (7, 6), (8, 0), (99, 0)])
def test_the_value_of_an_entry_is_known_for_every_event(mapping: Mapping, event: int, swa: int) -> None:
    """A change counts from its own event on."""
    assert mapping.value_at(3, event) == swa
    assert mapping.value_at(2, event) == 0


def test_an_swa_loc_that_was_ever_an_answer_is_known(mapping: Mapping) -> None:
    """Old answers are told from numbers that no entry ever had; 0 is always an answer."""
    assert [mapping.ever(swa) for swa in (0, 5, 6, 7)] == [True, True, True, False]


def test_the_event_that_changed_an_entry_is_known_by_its_value_before(mapping: Mapping) -> None:
    """The last of them; an entry begins as "no SWA slot", and what it has nothing has changed yet."""
    mapping.set(9, 3, 5)
    mapping.set(11, 3, 6)
    assert [mapping.changed_from(3, swa) for swa in (5, 6, 0, 7)] == [11, 8, 9, None]


def test_a_table_that_is_read_is_followed() -> None:
    """Where slots are not predicted: only what differs is a change, of the event after which it was read."""
    mapping = Mapping(0)
    for event, table in ((2, [0, 4, 0]), (3, [0, 4, 0]), (5, [0, 0, 4])):
        mapping.follow(event, table)
    assert mapping.history == {1: [Change(2, 4), Change(5, 0)], 2: [Change(5, 4)]}


def test_a_forgotten_entry_may_show_its_old_value(mapping: Mapping) -> None:
    """The entry is 0 from now on, and its last value is tolerated."""
    mapping.set(9, 3, 7)
    mapping.forget(10, 3)
    assert (mapping.table[3], mapping.lenient) == (0, {3: 7})


def test_an_entry_forgotten_twice_keeps_the_value_it_had(mapping: Mapping) -> None:
    """The second time the entry is 0 already, and the real one may still show the first value."""
    mapping.set(9, 3, 7)
    mapping.forget(10, 3)
    mapping.forget(11, 3)
    assert mapping.lenient == {3: 7}


def test_forgetting_an_unmapped_entry_tolerates_nothing() -> None:
    """There is no old value to show."""
    mapping = Mapping(8)
    mapping.forget(1, 3)
    assert not mapping.lenient


def test_a_tolerated_entry_that_shows_0_must_stay_0(mapping: Mapping) -> None:
    """Once the real entry is cleared, its old value coming back is a difference."""
    mapping.lenient = {3: 6, 4: 7}
    mapping.settle([0, 0, 0, 0, 7, 0, 0, 0])
    assert mapping.lenient == {4: 7}


def test_an_entry_that_is_set_again_tolerates_nothing(mapping: Mapping) -> None:
    """A loc handed out again has one right answer."""
    mapping.lenient = {3: 6}
    mapping.set(9, 3, 0)
    assert not mapping.lenient


def test_strict_locs_tolerate_nothing(mapping: Mapping) -> None:
    """The end of a free group resolves what was freed in it, and nothing else."""
    mapping.lenient = {3: 6, 4: 7}
    mapping.strict([3, 5])
    assert mapping.lenient == {4: 7}


def test_a_cleared_mapping_keeps_its_history(mapping: Mapping) -> None:
    """Clearing is one more change of every mapped entry, and of no other."""
    mapping.set(9, 2, 4)
    mapping.lenient = {6: 1}
    mapping.clear(10)
    assert mapping.table == [0] * 8
    assert mapping.history[2] == [Change(9, 4), Change(10, 0)]
    assert mapping.history[3][-1] == Change(8, 0)
    assert not mapping.lenient
