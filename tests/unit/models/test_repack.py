"""A pool that is packed anew, in the model: rows go along, and what nobody has is the target's business."""

from __future__ import annotations

from staleloc.models.config import SWA, Config
from staleloc.models.repack import repack
from staleloc.models.world import Grant, World

CONFIG = Config(full_size=4, swa_size=4, layers=(SWA,))


def test_rows_go_along_even_to_each_others_slots() -> None:
    """Two tokens change places; the rows of slots that nobody has are read from the target."""
    world = World(CONFIG)
    world.extend([Grant(0, 0, 1, 1), Grant(1, 0, 2, 2)])
    world.contents.layers[0] = [0, 11, 12, 13, 14]
    world.release_swa([1, 2])
    repack(world, [Grant(0, 0, 1, 2), Grant(1, 0, 2, 1)], [1, 2], {0: [0, 5, 6, 7, 8]}, [0, 2, 1, 0, 0])
    assert world.contents.layers[0] == [0, 12, 11, 7, 8]
    assert world.mapping.table[1:3] == [2, 1]
    assert world.swa.owner == {2: 0, 1: 1}


def test_an_entry_that_a_draft_left_behind_may_go_along() -> None:
    """Nobody may ask for it until its full slot is handed out again."""
    world = World(CONFIG, restores_mapping=False)
    world.backup()
    world.extend([Grant(0, 0, 1, 1)])
    world.restore()
    assert world.mapping.lenient == {1: 1}
    repack(world, [], [], {}, [0, 3, 0, 0, 0])
    assert world.mapping.lenient == {1: 3}
    assert world.mapping.table[1] == 0
