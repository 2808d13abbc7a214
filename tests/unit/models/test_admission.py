"""Rounds of admission, replayed in numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from staleloc.models.admission import Preallocating, Resuming
from staleloc.models.disaggregation import Accounts, Load, Room, Tokens
from staleloc.sim.targets.disagg import Rules


@dataclass(frozen=True)
class Job:
    prompt: int
    outputs: int = 0
    most: int = 1


NOBODY = Load(running=(), active=0, prebuilt=0, retracted=())
NODE = Accounts(page_size=4, window=4, reserved=2, uses_tail=True, tree=False, rules=Rules())
ROOM = Room(full_free=32, full_evictable=0, swa_free=16, swa_evictable=0, swa_size=16)


def test_each_admission_leaves_less_for_the_next() -> None:
    """Its slots are gone, and tokens are reserved for its decode."""
    replay = Preallocating(NODE, ROOM, NOBODY)
    assert replay.offers(Job(9), 0) == (Tokens(14, 8), Tokens(32, 16))
    replay.admit(Job(9), 0)
    # 12 full slots and 8 SWA slots are taken; a window of 4 is full, so its decode takes no more of that pool.
    assert replay.offers(Job(9), 0) == (Tokens(14, 8), Tokens(32 - 12 - 2, 8))


def test_an_older_engine_takes_the_charge_off_the_swa_budget() -> None:
    """It counts that budget once a round."""
    node = replace(NODE, rules=Rules(swa_refreshed=False, reserves_swa=True))
    replay = Preallocating(node, ROOM, NOBODY)
    replay.admit(Job(9), 0)
    assert replay.offers(Job(9), 0)[1] == Tokens(18, 16 - 10)


def test_a_prefix_pins_what_the_tree_could_give_up() -> None:
    """It counts before the request found it, and not after."""
    room = replace(ROOM, full_free=24, full_evictable=8, swa_free=8, swa_evictable=8)
    replay = Preallocating(NODE, room, NOBODY)
    assert replay.offers(Job(12), 8, Tokens(8, 4)) == (Tokens(6, 5), Tokens(24, 12))
    replay.admit(Job(12), 8, Tokens(8, 4))
    # 4 more slots of each pool; 8 of 16 SWA slots are pinned or taken, more than a window.
    assert replay.offers(Job(2), 0)[1] == Tokens(32 - 8 - 4 - 2, 16 - 4 - 4)


def test_resuming_takes_what_is_charged_off_budgets_counted_once() -> None:
    """Also the reserved tokens of the ones before."""
    retracted = [Job(9, 2), Job(5, 1)]
    replay = Resuming(NODE, ROOM, replace(NOBODY, retracted=retracted))
    assert replay.offers(retracted[0]) == (Tokens(14, 8), Tokens(32, 16))
    replay.admit(retracted[0])
    assert replay.offers(retracted[1]) == (Tokens(10, 8), Tokens(18, 8))


def test_a_newer_engine_counts_anew_after_each_that_resumes() -> None:
    """What the one before reserved in the SWA pool counts only as far as its window is not full."""
    retracted = [Job(9, 2), Job(5, 1)]
    node = replace(NODE, rules=Rules(resumes_swa_anew=True, resumes_full_anew=True))
    replay = Resuming(node, ROOM, replace(NOBODY, retracted=retracted))
    replay.admit(retracted[0])
    # 12 full slots and 8 SWA slots are taken, and 2 full tokens are reserved.
    assert replay.offers(retracted[1])[1] == Tokens(32 - 12 - 2, 16 - 8)
