"""The counts of a release's tree, its own check, and the host locks that its load-backs will release."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from staleloc.sim.targets.engine import Ledgers
from staleloc.sim.targets.sglang.tree_accounts import host_due, ledgers, objection

KINDS = SimpleNamespace(FULL="full", SWA="swa")


def test_counts_are_asked_by_name() -> None:
    """Every release has these four methods."""
    names = ("full_evictable", "full_protected", "swa_evictable", "swa_protected")
    tree = SimpleNamespace(**{f"{name}_size": lambda it=number: it for number, name in enumerate(names)})
    assert ledgers(tree) == Ledgers(0, 1, 2, 3)


LOGGER = logging.getLogger("sglang.srt.mem_cache.unified_radix_cache")
"""That of a release's tree."""


class Checked:
    """A tree whose own check finds these faults."""

    def __init__(self, *faults: str, loads: Any = (), policy: str = "write_through") -> None:
        self.faults, self.asked = faults, 0
        self.ongoing_load_back = dict.fromkeys(loads)
        self.cache_controller = SimpleNamespace(write_policy=policy)

    def sanity_check(self) -> None:
        self.asked += 1
        if self.faults:
            LOGGER.error("found something")
            print("the tree")
            raise AssertionError("\n".join(self.faults))


HEAD = "Sanity check FAILED (2 violations in 7 nodes):"


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ((), None),
        (("one line",), "one line"),
        (("",), "no reason given"),
        ((HEAD, "  node 3 dead", "  node 4 dead"), "node 3 dead"),
        ((HEAD, "  D-leaf extra: [12, 3]"), "D-leaf extra: [3, 12]"),
        ((HEAD, "  D-leaf extra: [NodeIdx_(12), NodeIdx_(3)]"), "D-leaf extra: [3, 12]"),
        ((HEAD, "  swa host LRU: +S3={5, 4}, +lru=set()"), "swa host LRU: +S3=[4, 5], +lru=set()"),
    ],
)
def test_an_objection_is_one_line(faults: tuple[str, ...], said: str | None) -> None:
    """The first fault, without braces, which stand for events in our texts, and with nodes in order."""
    assert objection(Checked(*faults), idle=False) == said


def test_an_objection_is_not_printed(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """Neither is the tree, and what others log afterwards is."""
    assert objection(Checked("fault"), idle=True) == "fault"
    assert capsys.readouterr().out == ""
    assert caplog.messages == []
    LOGGER.error("ours")
    assert caplog.messages == ["ours"]


def test_an_older_check_is_asked_of_an_idle_tree_only() -> None:
    """It objects to locks."""
    tree = Checked("locked")
    del tree.ongoing_load_back
    assert objection(tree, idle=False) is None
    assert tree.asked == 0
    assert objection(tree, idle=True) == "locked"


@pytest.mark.parametrize(
    ("loads", "policy", "said"),
    [
        ((), "write_through", "Duplicate missing: [3]"),
        ((3,), "write_back", "Duplicate missing: [3]"),
        ((3,), "write_through", "node 3 dead"),
    ],
)
def test_what_is_being_loaded_through_is_no_missing_duplicate(loads: tuple[int, ...], policy: str, said: str) -> None:
    """The end of the load-back enters it. What else is wrong counts."""
    faults = (HEAD, "  Duplicate missing: [3]", "  node 3 dead")
    assert objection(Checked(*faults, loads=loads, policy=policy), idle=False) == said
    alone = objection(Checked(*faults[:2], loads=loads, policy=policy), idle=False)
    assert alone == (None if said == "node 3 dead" else said)


def path(*marks: str | None, locks: int = 1) -> list[Any]:
    """Nodes from the root down; each has a mark for the boundary of both components, or none."""
    nodes = [SimpleNamespace(id=0, parent=None)]
    for number, mark in enumerate(marks, 1):
        data = {
            kind: SimpleNamespace(host_value=[1], host_lock_ref=locks, metadata={"host_uuid": mark} if mark else {})
            for kind in ("full", "swa")
        }
        nodes.append(SimpleNamespace(id=number, parent=nodes[-1], component_data=data))
    return nodes


def due(nodes: list[Any], receipt: Any, numbered: bool = False) -> dict[tuple[int, str], int]:
    """What one load-back of the last node will release."""
    node = nodes[-1].id if numbered else nodes[-1]
    tree = SimpleNamespace(
        ongoing_load_back={nodes[-1].id: (node, None, receipt)},
        tree_core=SimpleNamespace(node_by_id=lambda number: nodes[number], is_write_back=False),
    )
    return dict(host_due(tree, KINDS))


def test_a_receipt_with_boundaries_reaches_to_the_marked_nodes() -> None:
    """Of each component its own, as from 0.5.22."""
    nodes = path("b", None, "a", None)
    receipt = SimpleNamespace(component_host_lock_uuids={"full": "a", "swa": "b"})
    assert due(nodes, receipt, numbered=True) == {
        **{(number, "full"): 1 for number in (4, 3)},
        **{(number, "swa"): 1 for number in (4, 3, 2, 1)},
    }


def test_a_receipt_without_a_full_boundary_names_one_node() -> None:
    """And one without an SWA boundary reaches to the root."""
    receipt = SimpleNamespace(component_host_lock_uuids={"swa": None})
    assert due(path(None, None), receipt) == {(2, "full"): 1, (2, "swa"): 1, (1, "swa"): 1}


def test_nodes_that_a_receipt_skips_are_skipped() -> None:
    """Up to 0.5.19 it lists them, and passes by a node that nothing locks."""
    nodes = path("a", None, None)
    receipt = SimpleNamespace(skip_lock_node_ids={"swa": {2}}, swa_uuid_for_host_lock="a")
    assert due(nodes, receipt) == {(3, "full"): 1, (3, "swa"): 1, (1, "swa"): 1}
    nodes[3].component_data["swa"].host_lock_ref = 0
    assert due(nodes, receipt) == {(3, "full"): 1, (1, "swa"): 1}


def test_a_node_that_left_the_host_is_released_by_its_count_with_write_back_only() -> None:
    """With write_through there is nothing to keep."""
    nodes = path(None)
    nodes[1].component_data["full"].host_value = None
    assert due(nodes, SimpleNamespace(swa_uuid_for_host_lock=None)) == {(1, "swa"): 1}


def test_a_release_that_locks_no_host_has_no_receipts() -> None:
    """Up to 0.5.13, and the legacy tree."""
    nodes = path(None)
    assert host_due(SimpleNamespace(ongoing_load_back={1: (nodes[1], None)}), KINDS) == {}
    assert host_due(SimpleNamespace(), KINDS) == {}
