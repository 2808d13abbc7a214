"""The release's prefix tree as it is, looked at without its accessors: Python nodes, the Rust core, the legacy tree."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..engine import NodeView
from .tree_accounts import host_due

__all__ = ["PythonTreeView", "RustTreeView", "SwaTreeView", "TreeView", "after", "in_rust", "printed", "view"]

_LINE = re.compile(r"^( *)\[(\d+)\] (\d+) full_lock=(\d+)", re.MULTILINE)
_UNSEEN = -1


class TreeView(Protocol):
    """Looks at one tree and changes nothing."""

    def walked(self, tokens: Sequence[int]) -> None:
        """A key with these tokens, or with the first pages of them, was inserted or matched just now: what is new is
        part of it."""

    def nodes(self) -> list[NodeView]:
        """Every node, parents before children."""


def _slots(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(value.tolist())


def after(key: Any) -> int | None:
    """Where a key is of pairs of tokens, the second token of its last pair."""
    return int(key.token_ids[len(key)]) if key.is_bigram else None


@dataclass(frozen=True)
class _Line:
    node: int
    parent: int
    start: int
    stop: int
    full_locks: int


def printed(write: Callable[[], object]) -> str:
    """The output of `write`, even if it bypasses ``sys.stdout``."""
    keep = os.dup(1)
    sink = os.memfd_create("printed")
    try:
        os.dup2(sink, 1)
        write()
        size = os.lseek(sink, 0, os.SEEK_CUR)
        return os.pread(sink, size, 0).decode()
    finally:
        os.dup2(keep, 1)
        os.close(keep)
        os.close(sink)


class RustTreeView:
    """The tree core in Rust. Its nodes are numbers, and the wheel has no way to list them but to print the tree.

    A printed line has a node's number, the length of its key, its place, and its full lock. Its slots can be asked for
    by number: those on the device directly, those on the host as what a backup from there to storage would read. Such a
    backup names pages by hashes, which a tree without storage lacks until it is asked to fill them in; nothing else
    uses them. A key cannot be seen; but the path to the end of a node never changes while the node lives, and a node is
    made by inserting a key or by splitting one that a key ends in. So paths are kept by number, and `walked` must be
    called after every event that inserts or matches.

    Args:
        core: the release's ``RustUnifiedTreeCore``.
        kinds: its ``ComponentType``.
        storage: its phase of a backup from the host to storage; None without a host tier.
        bigram: its keys are of pairs of tokens, so a path has one token more than keys.
    """

    def __init__(self, core: Any, kinds: Any, storage: Any, bigram: bool = False) -> None:
        self._core = core
        self._full, self._swa = kinds.FULL, kinds.SWA
        self._storage = storage
        self._more = int(bigram)
        self._paths: dict[int, tuple[int, ...]] = {}

    def walked(self, tokens: Sequence[int]) -> None:
        self._resolve(self._lines(), tuple(tokens))

    def nodes(self) -> list[NodeView]:
        """Every node, parents before children; SWA locks and host locks cannot be seen."""
        lines = self._lines()
        self._resolve(lines, None)
        root = lines[0].parent if lines else None
        if self._storage is not None:
            self._core.backfill_missing_hash_values()
        return [
            NodeView(
                node=line.node,
                parent=None if line.parent == root else line.parent,
                tokens=self._paths[line.node][line.start : line.stop],
                full=self._slots(line.node, self._full),
                swa=self._slots(line.node, self._swa),
                host_full=self._host_full(line.node),
                host_swa=self._host_swa(line.node),
                full_locks=line.full_locks,
                swa_locks=_UNSEEN,
                after=self._paths[line.node][line.stop] if self._more else None,
            )
            for line in lines
        ]

    def _slots(self, node: int, kind: Any) -> tuple[int, ...] | None:
        return _slots(self._core.get_component_device_value(node, kind))

    def _host_full(self, node: int) -> tuple[int, ...] | None:
        spec = self._core.build_storage_backup_spec(node, False) if self._storage is not None else None
        return None if spec is None else tuple(spec.host_value.tolist())

    def _host_swa(self, node: int) -> tuple[int, ...] | None:
        if self._storage is None:
            return None
        transfers = self._core.build_hicache_transfers(self._swa, node, self._storage)
        return tuple(transfers[0].host_indices.tolist()) if transfers else None

    def _lines(self) -> list[_Line]:
        """The printed nodes but the root, in the order of printing: a node before its descendants."""
        lines: list[_Line] = []
        above: list[tuple[int, int, int]] = []  # indentation, number and end of the nodes that lead to the next line
        for indent, node, length, locks in _LINE.findall(printed(self._core.pretty_print)):
            while above and above[-1][0] >= len(indent):
                above.pop()
            stop = 0
            if above:
                _, parent, start = above[-1]
                stop = start + int(length)
                lines.append(_Line(int(node), parent, start, stop, int(locks)))
            above.append((len(indent), int(node), stop))
        return lines

    def _resolve(self, lines: list[_Line], inserted: tuple[int, ...] | None) -> None:
        """Find the paths of new nodes: part of a descendant's, or else of the key just inserted."""
        paths: dict[int, tuple[int, ...]] = {}
        below: dict[int, tuple[int, ...]] = {}
        for line in reversed(lines):
            path = self._paths.get(line.node, below.get(line.node, inserted))
            if path is None or len(path) < line.stop + self._more:
                raise LookupError(f"node {line.node} of the Rust tree core has a key that was never inserted")
            paths[line.node] = path[: line.stop + self._more]
            below.setdefault(line.parent, path)
        self._paths = paths


class PythonTreeView:
    """A tree whose nodes are Python objects.

    Args:
        tree: the object that has ``root_node``.
        kinds: the release's ``ComponentType``.
        first: the number of its first node, if that is not 0.
        cache: the object that knows what is loaded back, if that is not `tree`.
    """

    def __init__(self, tree: Any, kinds: Any, first: int = 0, cache: Any = None) -> None:
        self._tree = tree
        self._kinds = kinds
        self._first = first
        self._cache = cache if cache is not None else tree

    def walked(self, tokens: Sequence[int]) -> None:
        """See `TreeView.walked`. Keys can be read off the nodes."""

    def nodes(self) -> list[NodeView]:
        views = []
        due = host_due(self._cache, self._kinds)
        stack = [(child, None) for child in self._tree.root_node.children.values()]
        while stack:
            node, parent = stack.pop()
            number, tokens = node.id - self._first, tuple(node.key.token_ids[: len(node.key)])
            views.append(
                NodeView(node=number, parent=parent, tokens=tokens, after=after(node.key), **self._contents(node, due))
            )
            stack.extend((child, number) for child in node.children.values())
        return views

    def _contents(self, node: Any, due: Mapping[tuple[int, Any], int]) -> dict[str, Any]:
        """The slots of a node and its locks, by the names of `NodeView`."""
        full, swa = node.component_data[self._kinds.FULL], node.component_data[self._kinds.SWA]
        return {
            "full": _slots(full.value),
            "swa": _slots(swa.value),
            "host_full": _slots(full.host_value),
            "host_swa": _slots(swa.host_value),
            "full_locks": full.lock_ref,
            "swa_locks": swa.lock_ref,
            "host_locks": full.host_lock_ref,
            "host_swa_locks": swa.host_lock_ref,
            "host_due": due[node.id, self._kinds.FULL],
            "host_swa_due": due[node.id, self._kinds.SWA],
        }


class SwaTreeView(PythonTreeView):
    """The legacy tree ``SWARadixCache``. It has no host tier. Each node has full locs; its SWA locs are the mapping's,
    unless it is a tombstone.

    So a node's SWA locs cannot differ from the mapping here. Other checks see the faults: a node that is no tombstone
    and has no SWA slots shows slot 0, and one whose SWA slots were given away shows the new owner's slots.

    Args:
        tree: the release's ``SWARadixCache``.
    """

    def __init__(self, tree: Any) -> None:
        # The release numbers nodes through all trees of a process; names must not tell what was played before.
        super().__init__(tree, None, tree.root_node.id)

    def _contents(self, node: Any, due: Mapping[tuple[int, Any], int]) -> dict[str, Any]:
        mapping = self._tree.token_to_kv_pool_allocator.full_to_swa_index_mapping
        return {
            "full": _slots(node.value),
            "swa": None if node.swa_tombstone else _slots(mapping[node.value]),
            "host_full": None,
            "host_swa": None,
            "full_locks": node.full_lock_ref,
            "swa_locks": node.swa_lock_ref,
        }


def in_rust(tree: Any) -> bool:
    """Whether the core in use is the one in Rust, whatever was asked for."""
    return hasattr(getattr(tree, "tree_core", tree), "_binding")


def view(tree: Any, kinds: Any) -> TreeView:
    """The view that fits a release's tree.

    Args:
        tree: the release's ``UnifiedRadixCache``, with its host tier if it has one, or its ``SWARadixCache``.
        kinds: its ``ComponentType``.
    """
    if hasattr(tree, "swa_lru_list"):
        return SwaTreeView(tree)
    core = getattr(tree, "tree_core", tree)
    if not in_rust(tree):
        return PythonTreeView(core, kinds, cache=tree)
    components: Any = importlib.import_module("sglang.srt.mem_cache.unified_cache.components")
    storage = components.CacheTransferPhase.BACKUP_STORAGE if tree.cache_controller is not None else None
    return RustTreeView(core, kinds, storage, bigram=bool(core.is_eagle))
