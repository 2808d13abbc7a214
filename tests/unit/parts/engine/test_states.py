"""States made by hand: what each check that looks at a state says of it, branch by branch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from staleloc.models.config import Config
from staleloc.models.engine import EngineWorld
from staleloc.sim.parts.check import Check
from staleloc.sim.parts.engine.checks import (
    check_admission,
    check_eviction,
    check_locks,
    check_races,
    check_refusal,
    check_rows,
    check_values,
)
from staleloc.sim.parts.engine.events import Admit, Evict
from staleloc.sim.parts.engine.owners import check_owners
from staleloc.sim.parts.engine.step import EngineStep, Written
from staleloc.sim.targets.base import FreeSlots, Rows
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import Admission, Copying, NodeView, RequestView

CONFIG = Config(level="engine", policy="uncached", page_size=2, full_size=8, swa_size=8, window=2)
HOSTED = replace(CONFIG, host_full_size=4, host_swa_size=4)
WRITE_BACK = replace(HOSTED, write_policy="write_back")

NOTHING = FreeSlots([], [])
IDENTITY = list(range(10))

LEAF = NodeView(1, None, (1, 1), (2, 3), (2, 3), None, None, 0, 0)
BELOW = NodeView(2, 1, (2, 2), (4, 5), (4, 5), None, None, 0, 0)
ON_HOST = replace(BELOW, full=None, swa=None, host_full=(0, 1), host_swa=(0, 1))
BACKED_UP = replace(LEAF, host_full=(0, 1), host_swa=(0, 1))


@dataclass
class Still(BuiltinEngine):
    """A target that shows the state it was given, and has no other."""

    tree: list[NodeView] = field(default_factory=list)
    running: dict[int, RequestView] = field(default_factory=dict)
    mapping: list[int] = field(default_factory=lambda: IDENTITY)
    free: FreeSlots = NOTHING
    host_free: FreeSlots = NOTHING
    copies: list[Copying] = field(default_factory=list)
    contents: list[list[int]] = field(default_factory=list)
    host_contents: list[list[int]] = field(default_factory=list)

    def raw_tree(self) -> list[NodeView]:
        """The nodes."""
        return self.tree

    def raw_requests(self) -> dict[int, RequestView]:
        """The requests."""
        return self.running

    def raw_mapping(self) -> list[int]:
        """The table."""
        return self.mapping

    def raw_free(self) -> FreeSlots:
        """The device's free pages."""
        return self.free

    def raw_host_free(self) -> FreeSlots:
        """The host's free slots."""
        return self.host_free

    def raw_contents(self, layer: int) -> Rows:
        """The keys of a layer's rows."""
        return Rows(self.contents[layer], None)

    def raw_host_contents(self, layer: int) -> Rows:
        """The same on the host."""
        return Rows(self.host_contents[layer], None)

    def in_flight(self) -> list[Copying]:
        """The copies."""
        return self.copies

    def pending(self) -> int:
        """As many as there are."""
        return len(self.copies)


def state(config: Config, still: Still) -> EngineStep:
    """A step after which the target looks like this, and request 0 of five tokens runs if one does."""
    world = EngineWorld(config)
    if still.running:
        world.arrive(0, [1, 1, 2, 2, 1])
        world.admit(0, 0)
        world.computed(0, 4)
    return EngineStep(0, Evict(0, 1), world, still)


def says(check: Check, step: EngineStep) -> str | None:
    """Class and fact, or None."""
    found = check.run(step)
    return None if found is None else f"{found.kind}: {found.what}"


# Admission


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (Admission(4, 4), None),
        (Admission(0, 0), None),
        (Admission(3, 0), "misaligned: request 0 of 5 tokens was given 3 from the cache"),
        (Admission(2, 4), "out-of-bounds: request 0 of 5 tokens was given 2 from the cache and 4 from the host alone"),
        (Admission(5, 0), "out-of-bounds: request 0 of 5 tokens was given 5 from the cache"),
        (Admission(6, 0), "out-of-bounds: request 0 of 5 tokens was given 6 from the cache"),
    ],
)
def test_what_the_cache_may_give(given: Admission, wrong: str | None) -> None:
    """Whole pages that leave a token to compute, and from the host no more than that."""
    step = state(CONFIG, Still(running={0: RequestView((), 0, 0)}))
    step.event, step.admission = Admit(0), given
    assert says(check_admission, step) == wrong


# Eviction


FULL, SWA, BOTH = (2, 0), (0, 2), (2, 2)


@pytest.mark.parametrize(
    ("config", "nodes", "owed", "could"),
    [
        (CONFIG, [LEAF], FULL, "full"),
        (CONFIG, [LEAF], SWA, "SWA"),
        (CONFIG, [LEAF], (0, 0), None),
        (CONFIG, [LEAF], (-2, -2), None),
        (CONFIG, [replace(LEAF, swa=None)], SWA, None),
        (CONFIG, [replace(LEAF, full_locks=1, swa_locks=1)], BOTH, None),
        (CONFIG, [LEAF, replace(BELOW, full_locks=1)], FULL, None),
        (CONFIG, [LEAF, replace(BELOW, full_locks=1)], SWA, "SWA"),
        (CONFIG, [replace(LEAF, swa_locks=-1), replace(BELOW, full_locks=1)], SWA, "SWA"),
        (CONFIG, [replace(LEAF, swa_locks=1), replace(BELOW, full_locks=1, swa_locks=1)], SWA, None),
        (CONFIG, [replace(LEAF, swa_locks=1)], SWA, "SWA"),
        (CONFIG, [replace(LEAF, full_locks=1)], BOTH, "SWA"),
        (CONFIG, [replace(LEAF, full_locks=1, swa_locks=-1)], BOTH, None),
        (HOSTED, [BACKED_UP, ON_HOST], FULL, "full"),
        (HOSTED, [LEAF], FULL, "full"),
        (WRITE_BACK, [BACKED_UP], FULL, "full"),
        (replace(WRITE_BACK, host_full_size=0, host_swa_size=0), [LEAF], FULL, "full"),
    ],
    ids=[
        "leaf", "leaf's window", "nothing owed", "more than asked", "tombstone", "locked", "has a child",
        "has a child, and a window of its own", "SWA locks unseen", "window locked", "leaf goes as a whole",
        "its window is not locked", "nor known to be",
        "child is on the host", "backup may be missing", "written back", "nowhere to write back to",
    ],
)  # fmt: skip
def test_what_a_tree_could_have_given_up(
    config: Config, nodes: list[NodeView], owed: tuple[int, int], could: str | None
) -> None:
    """A leaf on the device that nothing locks; for SWA slots an inner node too."""
    step = state(config, Still(tree=nodes))
    step.owed = owed
    said = says(check_eviction, step)
    wanted = f"leak: the tree evicted 2 {could} tokens too few and kept node 1, which nothing locks"
    assert said == (wanted if could else None)


def test_a_tree_may_keep_what_a_queued_copy_uses() -> None:
    """Whatever it owes: which node a copy pins is not asked."""
    step = state(HOSTED, Still(tree=[LEAF], copies=[Copying(True, FreeSlots([2], []), FreeSlots([0], []))]))
    step.owed = BOTH
    assert says(check_eviction, step) is None


# Locks


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        (replace(LEAF, full_locks=1, swa_locks=1), None),
        (replace(LEAF, full_locks=1, swa_locks=0), "use-after-free: node 1 has 0 SWA locks and 1 running requests"),
        (replace(LEAF, full_locks=1, swa_locks=0, swa=None), None),
        (replace(LEAF, full_locks=-1, swa_locks=-1), None),
        (replace(LEAF, full_locks=-1, swa_locks=9), None),
        (replace(LEAF, full_locks=0, swa_locks=0), "use-after-free: node 1 is locked 0 times and 1 running requests"),
        (replace(LEAF, full_locks=2, swa_locks=1), "leak: node 1 is locked 2 times and only 1 running requests"),
        (replace(LEAF, full_locks=1, swa_locks=2), "leak: node 1 has 2 SWA locks and 1 full locks"),
    ],
)
def test_what_a_request_that_runs_on_a_node_locks(node: NodeView, wrong: str | None) -> None:
    """Once each; a tombstone has no SWA slots to lock, and locks that cannot be seen are not judged."""
    running = {0: RequestView((2, 3), 2, 0)}
    step = state(CONFIG, Still(tree=[node], running=running))
    step.world.requests[0].computed = 2
    said = says(check_locks, step)
    assert said is None if wrong is None else said is not None and said.startswith(wrong)


@pytest.mark.parametrize(
    ("count", "wrong"),
    [
        (None, None),
        (0, None),
        (1, "leak: node 2 is locked 1 times on the host, and nothing is being loaded back"),
        (-1, "use-after-free: node 2 is locked -1 times on the host"),
    ],
)
def test_the_host_is_locked_for_load_backs_only(count: int | None, wrong: str | None) -> None:
    """Neither longer, nor less than not at all; a load-back that is queued may lock it."""
    node = replace(ON_HOST, parent=None, host_locks=count)
    assert says(check_locks, state(HOSTED, Still(tree=[node]))) == wrong
    loading = Still(tree=[node], copies=[copying("full", "host", 0, to_host=False)])
    assert (says(check_locks, state(HOSTED, loading)) is None) == (count != -1)


def test_a_node_that_is_on_the_host_alone_needs_no_lock() -> None:
    """It has no slots on the device."""
    assert says(check_locks, state(HOSTED, Still(tree=[replace(ON_HOST, parent=None)]))) is None


# Owners


FREE = FreeSlots([2, 3, 4], [2, 3, 4])
HOST_FREE = FreeSlots([0, 1, 2, 3], [0, 1, 2, 3])


def copying(pool: str, side: str, *slots: int, to_host: bool = True) -> Copying:
    """A copy that uses these slots of one pool and no others."""
    used = FreeSlots(list(slots), []) if pool == "full" else FreeSlots([], list(slots))
    return Copying(to_host, used, NOTHING) if side == "device" else Copying(to_host, NOTHING, used)


def without(slots: FreeSlots, pool: str, slot: int) -> FreeSlots:
    """A free list that lacks one."""
    return replace(slots, **{pool: [it for it in getattr(slots, pool) if it != slot]})


@pytest.mark.parametrize(("pool", "name"), [("full", "full"), ("swa", "SWA")])
def test_a_page_of_the_device_has_one_owner(pool: str, name: str) -> None:
    """A node, a request, a free list or a copy in flight."""
    right = Still(tree=[LEAF], free=FREE, host_free=HOST_FREE)
    assert says(check_owners, state(HOSTED, right)) is None
    lost = replace(right, free=without(FREE, pool, 4))
    assert says(check_owners, state(HOSTED, lost)) == f"leak: {name} page 4 has no owner and is in no free list"
    flying = replace(lost, copies=[copying(pool, "device", 8, 9)])
    assert says(check_owners, state(HOSTED, flying)) is None
    early = replace(right, copies=[copying(pool, "device", 8, 9)])
    racing = f"race: {name} page 4 is in the free list while a transfer still uses it"
    assert says(check_owners, state(HOSTED, early)) == racing
    taken = f"use-after-free: {name} page 1 is in the free list while node 1 has it"
    listed = replace(right, free=replace(FREE, **{pool: [1, 2, 3, 4]}))
    assert says(check_owners, state(HOSTED, listed)) == taken


@pytest.mark.parametrize(("pool", "name"), [("full", "host full"), ("swa", "host SWA")])
def test_a_slot_of_the_host_has_one_owner(pool: str, name: str) -> None:
    """Slots of the host are counted from 0, and from 1 in what is said of them."""
    right = Still(tree=[LEAF], free=FREE, host_free=HOST_FREE)
    lost = replace(right, host_free=without(HOST_FREE, pool, 3))
    leak = f"leak: {name} page 4 has no owner and is in no free list"
    assert says(check_owners, state(HOSTED, lost)) == leak
    assert says(check_owners, state(CONFIG, lost)) is None
    flying = replace(lost, copies=[copying(pool, "host", 3)])
    assert says(check_owners, state(HOSTED, flying)) is None
    early = replace(right, copies=[copying(pool, "host", 3)])
    racing = f"race: {name} page 4 is in the free list while a transfer still uses it"
    assert says(check_owners, state(HOSTED, early)) == racing
    kept = replace(right, tree=[BACKED_UP])
    taken = "use-after-free: host full page 1 is in the free list while node 1 has it"
    assert says(check_owners, state(HOSTED, kept)) == taken


def test_a_request_owns_what_it_computed_itself() -> None:
    """Both its full slots and what they are mapped to; a token without a mapping has no SWA slot to own."""
    running = {0: RequestView((2, 3, 4, 5), 2, 0)}
    own = Still(tree=[LEAF], running=running, free=FreeSlots([3, 4], [3, 4]))
    assert says(check_owners, state(CONFIG, own)) is None
    twice = replace(own, tree=[LEAF, replace(BELOW, full=(6, 7))], free=FreeSlots([4], [3, 4]))
    assert says(check_owners, state(CONFIG, twice)) == "alias: SWA page 2 belongs to node 2 and to request 0"
    evicted = replace(own, mapping=[0, 1, 2, 3, 0, 0, 6, 7, 8, 9], free=FreeSlots([3, 4], [2, 3, 4]))
    assert says(check_owners, state(CONFIG, evicted)) is None


# Races


@pytest.mark.parametrize(
    ("pool", "side", "name"),
    [("full", "device", "full"), ("swa", "device", "SWA"), ("full", "host", "host full"), ("swa", "host", "host SWA")],
)
def test_two_copies_share_a_slot_only_to_read_it(pool: str, side: str, name: str) -> None:
    """A copy to the host reads the device and writes the host."""
    reading = side == "device"
    both = [copying(pool, side, 2, 3, to_host=reading), copying(pool, side, 3, to_host=reading)]
    assert says(check_races, state(HOSTED, Still(copies=both))) is None
    written = [copying(pool, side, 2, 3, to_host=reading), copying(pool, side, 3, to_host=not reading)]
    wrong = f"race: queued copy 2 writes {name} slot 3, which copy 1 uses"
    assert says(check_races, state(HOSTED, Still(copies=written))) == wrong
    apart = [copying(pool, side, 2, to_host=not reading), copying(pool, side, 3, to_host=not reading)]
    assert says(check_races, state(HOSTED, Still(copies=apart))) is None


@pytest.mark.parametrize(("pool", "name"), [("full", "full"), ("swa", "SWA")])
def test_a_request_does_not_write_where_a_copy_is_at_work(pool: str, name: str) -> None:
    """What it shares with the tree it does not write."""
    running = {0: RequestView((2, 3, 4, 5), 2, 0)}
    own = Still(running=running, copies=[copying(pool, "device", 4)])
    wrong = f"race: request 0 was given {name} page 2, which a queued copy still uses"
    assert says(check_races, state(HOSTED, own)) == wrong
    shared = Still(running=running, copies=[copying(pool, "device", 2)])
    assert says(check_races, state(HOSTED, shared)) is None


# Values


@pytest.mark.parametrize(
    ("node", "wrong"),
    [
        (LEAF, None),
        (replace(LEAF, swa=(3, 2)), "stale-translation: node 1 keeps SWA loc 3 for full loc 2, which maps to 2"),
        (replace(LEAF, swa=None), "wrong-mapping: node 1 keeps SWA loc 0 for full loc 2, which maps to 2"),
        (replace(LEAF, full=None, swa=None, host_full=(0, 1)), None),
    ],
    ids=["as mapped", "as once mapped", "tombstone that is mapped", "on the host"],
)
def test_what_a_node_keeps_is_what_its_locs_map_to(node: NodeView, wrong: str | None) -> None:
    """A tombstone's locs map to nothing."""
    assert says(check_values, state(CONFIG, Still(tree=[node]))) == wrong


@pytest.mark.parametrize(("position", "wrong"), [(2, False), (3, True)])
def test_a_window_has_swa_slots(position: int, wrong: bool) -> None:
    """What is out of it need not."""
    mapping = [0 if loc == 2 + position else loc for loc in IDENTITY]
    said = says(check_values, state(CONFIG, Still(running={0: RequestView((2, 3, 4, 5), 0, 0)}, mapping=mapping)))
    fact = f"token {position} of request 0 (full loc {2 + position}) is in the window and has no SWA slot"
    assert said == (f"wrong-mapping: {fact}" if wrong else None)


# Rows

TWO_LAYERS = replace(HOSTED, layers=("full", "swa"))
ROW = RequestView((2, 3, 4, 5), 0, 0)


def written(still: Still) -> EngineStep:
    """A step after which all slots hold what they should, as far as request 0 and node 1, before it changes."""
    step = state(TWO_LAYERS, still)
    still.contents, still.host_contents = [[0] * 10, [0] * 10], [[0] * 4, [0] * 4]
    for layer in (0, 1):
        if still.running:
            still.contents[layer][2:6] = step.world.row_tags(0, 0, 4, layer)
        if still.tree:
            tags = [step.world.tags.tag(prefix, layer) for prefix in step.world.tags.prefixes((1, 1))]
            still.contents[layer][2:4] = still.host_contents[layer][0:2] = tags
    return step


@pytest.mark.parametrize(
    ("layer", "slot", "wrong"),
    [(0, 2, True), (0, 5, True), (0, 6, False), (1, 4, False), (1, 5, True)],
)
def test_a_request_has_its_rows(layer: int, slot: int, wrong: bool) -> None:
    """All of them in full layers, those of its window in SWA layers."""
    still = Still(running={0: ROW})
    step = written(still)
    assert says(check_rows, step) is None
    step = written(still)
    still.contents[layer][slot] = 0
    said = says(check_rows, step)
    assert (said is not None) == wrong
    if wrong:
        assert said is not None
        assert said.startswith(
            f"wrong-content: slot {slot} of layer {layer}, token {slot - 2} of request 0, holds nothing"
        )


@pytest.mark.parametrize(("by_event", "kind"), [(True, "stale-translation"), (False, "wrong-content")])
def test_a_row_that_landed_elsewhere_was_translated_wrongly_if_it_was_written_now(by_event: bool, kind: str) -> None:
    """What an earlier event wrote may have been copied there."""
    still = Still(running={0: ROW})
    step = written(still)
    still.contents[1][7], still.contents[1][5] = still.contents[1][5], 0
    if by_event:
        step.written = [Written(0, 3, 4)]
    found = check_rows.run(step)
    assert found is not None
    assert (found.kind, found.rows[0].actual) == (kind, 7 if by_event else None)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize(("tier", "slot"), [("slot", 3), ("host slot", 1)])
def test_a_node_has_its_rows(layer: int, tier: str, slot: int) -> None:
    """On the device and on the host, though no request uses them; where a copy is at work it need not have them yet."""
    still = Still(tree=[BACKED_UP])
    assert says(check_rows, written(still)) is None
    step = written(still)
    (still.contents if tier == "slot" else still.host_contents)[layer][slot] = 0
    said = says(check_rows, step)
    assert said is not None
    assert said.startswith(f"wrong-content: {tier} {slot} of layer {layer}, token 1 of node 1, holds nothing")
    pool, side = "swa" if layer else "full", "device" if tier == "slot" else "host"
    still.copies = [copying(pool, side, slot, to_host=side == "host")]
    step.__dict__.pop("copying", None)
    step.__dict__.pop("in_flight", None)
    assert says(check_rows, step) is None


# Refusal


@pytest.mark.parametrize(("need", "full", "swa", "wrong"), [(2, 2, 2, True), (2, 3, 1, False), (2, 1, 3, False)])
def test_a_refusal_is_right_if_one_of_the_pools_is_short(need: int, full: int, swa: int, wrong: bool) -> None:
    """Either will do."""
    step = state(CONFIG, Still(free=FreeSlots(list(range(1, full + 1)), list(range(1, swa + 1)))))
    step.refused = need
    said = f"leak: a step that needs 2 pages was refused; {full} full and {swa} SWA are free"
    assert says(check_refusal, step) == (said if wrong else None)
