"""The tree core in Rust as it is. Its nodes are numbers, and the wheel has no way to list them but to print the tree.

A printed line has a node's number, the length of its key, its place, and its full lock. Its slots can be
asked for by number: those on the device directly, those on the host as what a backup from there to storage
would read. Such a backup names pages by hashes, which a tree without storage lacks until it is asked to fill
them in; nothing else uses them. A key cannot be seen; but the path to the end of a node never changes while
the node lives, and a node is made by inserting a key or by splitting one that a key ends in. So paths are kept by
number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..engine import NodeView

__all__ = ["RustTreeView", "printed"]

_LINE = re.compile(r"^( *)\[(\d+)\] (\d+) full_lock=(\d+)", re.MULTILINE)
_UNSEEN = -1


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
    """Looks at one tree. `walked` must be called after every event that inserts or matches.

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
        """A key with these tokens, or with the first pages of them, was inserted or matched just now: what is new is
        part of it."""
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
        value = self._core.get_component_device_value(node, kind)
        return None if value is None else tuple(value.tolist())

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
