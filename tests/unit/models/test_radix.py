"""The shape that a prefix tree must have, whatever was dropped from it for want of room."""

from __future__ import annotations

from dataclasses import replace

from staleloc.models.radix import structure_fault
from staleloc.sim.targets.engine import NodeView

BOTH = NodeView(1, None, (1, 1), (2, 3), (2, 3), (0, 1), (0, 1), 0, 0)
BELOW = NodeView(2, 1, (2, 2), (4, 5), None, None, None, 0, 0)


def test_a_node_is_on_the_device_only_below_a_node_that_is_there() -> None:
    """A match walks from the root, and cannot pass over rows that are not there."""
    assert structure_fault([BOTH, BELOW], 2) is None
    on_host = replace(BOTH, full=None, swa=None)
    assert structure_fault([on_host, BELOW], 2) == "node 2 is on the device, and its parent, node 1, is not"
    assert structure_fault([on_host, replace(BELOW, full=None, host_full=(2, 3))], 2) is None


def test_a_node_is_on_the_device_or_on_the_host() -> None:
    """What a write-back finds no room for is dropped as a whole."""
    gone = replace(BELOW, full=None)
    assert structure_fault([BOTH, gone], 2) == "node 2 is neither on the device nor on the host"
