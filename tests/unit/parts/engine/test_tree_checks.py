"""What a tree says of itself is compared with its nodes, and its own check is listened to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from staleloc.models.config import Config
from staleloc.models.engine import EngineWorld
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.check import Check
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Admit, Arrive, Checkpoint, Evict, Finish, Prefill
from staleloc.sim.parts.engine.step import EngineStep
from staleloc.sim.parts.engine.tree_checks import check_ledgers, check_sanity
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import Ledgers, NodeView

CONFIG = Config(level="engine", policy="uncached", page_size=2, full_size=16, swa_size=16, window=2)
EVENTS = (Arrive(0, (1, 1, 1, 1, 2)), Admit(0), Prefill(0, 5), Checkpoint(0), Finish(0), Evict(2, 2))

LOCKED = NodeView(1, None, (1, 1), (2, 3), (2, 3), None, None, 1, 1)
TOMBSTONE = NodeView(2, 1, (2, 2), (4, 5), None, None, None, 0, 0)
LEAF = NodeView(3, 2, (3, 3, 3, 3), (6, 7, 8, 9), (6, 7, 8, 9), (0, 1, 2, 3), None, 0, 0)
ON_HOST = NodeView(4, 3, (4, 4), None, None, (4, 5), (4, 5), 1, 1)
NODES = [LOCKED, TOMBSTONE, LEAF, ON_HOST]
RIGHT = Ledgers(full_evictable=6, full_protected=2, swa_evictable=4, swa_protected=2)


@dataclass
class Counting(BuiltinEngine):
    """A target that shows these nodes, counts and objections."""

    tree: list[NodeView] = field(default_factory=lambda: NODES)
    ledgers: Ledgers | None = RIGHT
    objection: str | None = None
    asked: list[bool] = field(default_factory=list)

    def raw_tree(self) -> list[NodeView]:
        """The nodes."""
        return self.tree

    def raw_ledgers(self) -> Ledgers | None:
        """The counts."""
        return self.ledgers

    def raw_requests(self) -> dict[int, object]:  # type: ignore[override]
        """None runs."""
        return {}

    def raw_sanity(self, idle: bool) -> str | None:
        """What it objects to."""
        self.asked.append(idle)
        return self.objection

    def pending(self) -> int:
        """No transfer is queued."""
        return 0


def says(check: Check, target: Counting) -> str | None:
    """Class and fact, or None."""
    found = check.run(EngineStep(0, Evict(0, 1), EngineWorld(CONFIG), target))
    return None if found is None else f"{found.kind}: {found.what}"


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, None),
        ({"full_evictable": 8}, "over-admission: the tree counts 8 full tokens as evictable, and nothing locks 6"),
        ({"full_evictable": 4}, "leak: the tree counts 4 full tokens as evictable, and nothing locks 6"),
        ({"full_protected": 0}, "leak: the tree counts 0 full tokens as protected, and 2 are locked"),
        ({"swa_evictable": 6}, "over-admission: the tree counts 6 SWA tokens as evictable, and nothing locks 4"),
        ({"swa_evictable": 2}, "leak: the tree counts 2 SWA tokens as evictable, and nothing locks 4"),
        ({"swa_protected": 4}, "leak: the tree counts 4 SWA tokens as protected, and 2 are locked"),
    ],
)
def test_counts_are_those_of_the_nodes_on_the_device(change: dict[str, int], wrong: str | None) -> None:
    """A tombstone counts in the full pool alone, and a node on the host in neither, locked or not."""
    assert says(check_ledgers, Counting(ledgers=replace(RIGHT, **change))) == wrong


@pytest.mark.parametrize(
    ("evictable", "protected", "wrong"),
    [
        (4, 2, None),
        (6, 0, None),
        (2, 4, "leak: the tree counts 2 SWA tokens as evictable, and nothing locks 4"),
        (8, -2, "over-admission: the tree counts 8 SWA tokens as evictable, and nothing locks 6"),
        (4, 4, "leak: the tree counts 4 SWA tokens as protected, and 2 are locked"),
    ],
)
def test_where_swa_locks_are_unseen_both_counts_together_are_known(
    evictable: int, protected: int, wrong: str | None
) -> None:
    """The SWA slots of a node under a full lock may be locked or not."""
    unseen = [replace(node, swa_locks=-1) for node in NODES]
    ledgers = replace(RIGHT, swa_evictable=evictable, swa_protected=protected)
    assert says(check_ledgers, Counting(tree=unseen, ledgers=ledgers)) == wrong


def test_a_tree_that_does_not_count_is_not_judged() -> None:
    """Nor is one whose full locks cannot be seen, in the full pool."""
    assert says(check_ledgers, Counting(ledgers=None)) is None
    hidden = [replace(node, full_locks=-1) for node in NODES]
    assert says(check_ledgers, Counting(tree=hidden, ledgers=replace(RIGHT, full_evictable=0))) is None


def test_an_objection_of_the_engine_is_a_divergence() -> None:
    """Its words are the fact; whether anything runs is told."""
    target = Counting(objection="node 3 has no key")
    assert says(check_sanity, target) == "leak: the tree's own check fails: node 3 has no key"
    assert says(check_sanity, Counting()) is None
    assert target.asked == [True]


def test_an_engine_is_idle_when_nothing_runs_and_nothing_is_copied() -> None:
    """A check that asks for a tree without locks must know."""

    class Asked(BuiltinEngine):
        """Remembers what it was told."""

        told: tuple[bool, ...] = ()

        def raw_sanity(self, idle: bool) -> str | None:
            self.told += (idle,)
            return None

    engine = Asked()
    assert drive_engine(Tape(CONFIG, EVENTS), engine).divergence is None
    assert engine.told == (True, False, False, False, True, True)
