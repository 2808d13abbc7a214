"""Run in a process of its own: play a tape on the trees of one release, the legacy one whole or broken; print JSON."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from typing import Any

import torch

from staleloc.models.config import Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Admit, Arrive, Checkpoint, Decode, Evict, Prefill
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.engine_release import hold
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.target import SglangTarget, load

CONFIG = Config(
    level="engine", policy="swa-radix", page_size=4, full_size=32, swa_size=32, layers=("full", "swa"), window=4
)
TAPE = Tape(
    CONFIG,
    (
        Arrive(0, (1, 1, 1, 1, 2, 2, 2, 2, 1)), Admit(0), Prefill(0, 4), Checkpoint(0), Prefill(0, 5), Checkpoint(0),
        Evict(0, 4), Decode((0,), 1),
    ),
)  # fmt: skip
"""A request over two nodes; the first is out of its window and becomes a tombstone."""


def _node_stays_live(tree: Any) -> None:
    def tombstone(self: Any, node: Any) -> None:
        self.swa_evictable_size_ -= len(node.value)

    tree._tombstone_internal_node = tombstone


def _lock_ends_early(tree: Any) -> None:
    take = tree.inc_lock_ref

    def inc_lock_ref(self: Any, node: Any) -> Any:
        taken = take(self, node)
        if node is not self.root_node:
            node.full_lock_ref -= 1
        return taken

    tree.inc_lock_ref = inc_lock_ref


BROKEN = {"": lambda _tree: None, "node stays live": _node_stays_live, "lock ends early": _lock_ends_early}


def play(release: Release, defect: str = "") -> dict[str, Any]:
    """What comes of the tape, and the nodes at its end."""
    target: SglangTarget = load(release)
    target.build(CONFIG)  # tried before it is broken
    BROKEN[defect](importlib.import_module("sglang.srt.mem_cache.swa_radix_cache").SWARadixCache)
    return _told(target, TAPE)


def evict_first(release: Release) -> dict[str, Any]:
    """What comes of a chunk whose first two pages leave the window before it is inserted."""
    target = load(release)
    target.build(CONFIG)
    insert = target.checkpoint

    def checkpoint(request: int) -> None:
        entry = target.requests[request]
        row = target.raw_requests()[request].row
        target.allocator.free_swa(torch.tensor(row[:8]))
        hold(entry, "swa_evicted_seqlen", 8)
        insert(request)

    target.checkpoint = checkpoint  # type: ignore[method-assign]
    return _told(target, Tape(CONFIG, (Arrive(0, (1,) * 17), Admit(0), Prefill(0, 17), Checkpoint(0))))


def names(release: Release) -> dict[str, Any]:
    """On each tree of the release, the nodes' names after the tape, twice."""
    target: SglangTarget = load(release)
    policies = [it for profile in Scope("engine").of(target.profiles) for it in profile.policies]
    told: dict[str, list[list[int]]] = {policy: [] for policy in policies}
    for policy in policies * 2:
        drive_engine(Tape(replace(CONFIG, policy=policy), TAPE.events), target)
        told[policy].append([node.node for node in target.raw_tree()])
    return told


def _told(target: SglangTarget, tape: Tape) -> dict[str, Any]:
    """What comes of it twice, and the nodes at its end."""
    found = [drive_engine(tape, target).divergence for _ in range(2)]
    nodes = [
        [list(node.tokens), list(node.full or ()), None if node.swa is None else list(node.swa), node.full_locks]
        for node in target.raw_tree()
    ]
    mapping = target.raw_mapping()
    return {
        "divergences": [it and [it.kind, it.check, it.event, it.what] for it in found],
        "nodes": nodes,
        "mapped": [[mapping[loc] for loc in full] for _, full, _, _ in nodes],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]), *sys.argv[3:])))
