"""What a release's prefix tree says of itself: its counts, its own check, and the host locks that it will release."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from typing import Any

from ..engine import Ledgers

__all__ = ["host_due", "ledgers", "objection"]

_LIST = re.compile(r"\[\d+(?:, \d+)+\]")
_INDEX = re.compile(r"NodeIdx_\((\d+)\)")
_ENTERED_LATER = ("Duplicate missing", "Full host coexistence missing")
"""The complaint that a node in both tiers is not in its list, by the core in Python and the one in Rust."""


def ledgers(tree: Any) -> Ledgers:
    """The counts that its scheduler admits requests by; every release and every tree core has them by these names."""
    return Ledgers(
        full_evictable=tree.full_evictable_size(),
        full_protected=tree.full_protected_size(),
        swa_evictable=tree.swa_evictable_size(),
        swa_protected=tree.swa_protected_size(),
    )


def objection(tree: Any, idle: bool) -> str | None:
    """The first thing that the release's ``sanity_check`` objects to, in one line; None if nothing. It only reads.

    Up to 0.5.11, and in ``SWARadixCache`` always, it asks for a tree that nothing locks, as an idle scheduler has it.
    From 0.5.18 it wants each node that is on the device and on the host in a list, and ``finish_load_back`` is what
    enters a node that was loaded back. With write_back its ``load_back_pending_id`` says that it is being loaded. With
    write_through it has none, so there the complaint counts only once nothing is loaded. Only write_back uses the list.

    Args:
        tree: the release's tree.
        idle: no request runs and no transfer is queued.
    """
    if not idle and not hasattr(tree, "ongoing_load_back"):
        return None
    try:
        with _silence():
            tree.sanity_check()
    except AssertionError as error:
        return _first(str(error), _loads_unpinned(tree))
    return None


def _loads_unpinned(tree: Any) -> bool:
    """Whether something is being loaded back with no mark on its nodes."""
    loads = getattr(tree, "ongoing_load_back", None)
    return bool(loads) and tree.cache_controller.write_policy != "write_back"


def _first(text: str, unpinned: bool) -> str | None:
    """The first line that names a fault. Nodes that come out of a set are put in order; braces mean events to us."""
    head, *faults = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    counted = [fault for fault in faults if not (unpinned and fault.startswith(_ENTERED_LATER))]
    if faults and not counted:
        return None
    fault = _INDEX.sub(r"\1", (counted or [head])[0]).replace("{", "[").replace("}", "]")
    return _LIST.sub(lambda found: str(sorted(map(int, found[0][1:-1].split(", ")))), fault)


@contextmanager
def _silence() -> Iterator[None]:
    """It logs what it objects to, and prints the tree. `logging.disable` would forget the levels of all loggers."""
    loggers = [it for it in _loggers() if not it.disabled]
    try:
        for logger in loggers:
            logger.disabled = True
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        for logger in loggers:
            logger.disabled = False


@cache
def _loggers() -> list[logging.Logger]:
    """Those of the modules of trees, which are loaded before the first tree is."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("sglang.srt.mem_cache.")]
    return [logging.getLogger(name) for name in sorted(names)]


def host_due(tree: Any, kinds: Any) -> Counter[tuple[int, Any]]:
    """By node and component, the host locks that the load-backs in flight will release.

    A release of locks is followed node by node, as the release's components do it:

    * SWA: from the load's node up to the one marked with the receipt's boundary. Where the receipt lists nodes that had
      no host rows, these are skipped, and a node without a lock is passed by.
    * Full: its node alone. From 0.5.22, where the receipt has a boundary, up to the node that is marked with it.

    Args:
        tree: the release's ``UnifiedRadixCache``. Up to 0.5.13 no load-back locks the host.
        kinds: its ``ComponentType``.
    """
    due: Counter[tuple[int, Any]] = Counter()
    for load in getattr(tree, "ongoing_load_back", {}).values():
        if len(load) < 3:
            continue
        node, _, receipt = load
        node = tree.tree_core.node_by_id(node) if isinstance(node, int) else node
        due.update((one.id, kinds.FULL) for one in _full(tree, node, receipt, kinds.FULL))
        due.update((one.id, kinds.SWA) for one in _swa(node, receipt, kinds.SWA))
    return due


def _full(tree: Any, node: Any, receipt: Any, kind: Any) -> Iterator[Any]:
    boundary = getattr(receipt, "component_host_lock_uuids", {}).get(kind)
    while node.parent is not None:
        data = node.component_data[kind]
        if data.host_value is None and not getattr(getattr(tree, "tree_core", tree), "is_write_back", False):
            return
        yield node
        if boundary is None or data.metadata.get("host_uuid") == boundary:
            return
        node = node.parent


def _swa(node: Any, receipt: Any, kind: Any) -> Iterator[Any]:
    passes = hasattr(receipt, "skip_lock_node_ids")
    skipped = receipt.skip_lock_node_ids.get(kind, ()) if passes else ()
    if hasattr(receipt, "component_host_lock_uuids"):
        boundary = receipt.component_host_lock_uuids.get(kind)
    else:
        boundary = receipt.swa_uuid_for_host_lock
    while node.parent is not None:
        data = node.component_data[kind]
        if node.id not in skipped and not (passes and data.host_lock_ref == 0):
            yield node
            if boundary and data.metadata.get("host_uuid") == boundary:
                return
        node = node.parent
