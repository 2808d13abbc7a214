"""The content of every slot of every layer, as tags: each written KV row has a unique number."""

from __future__ import annotations

from typing import NamedTuple

from .config import SWA, Config

__all__ = ["Contents", "CopiedRows", "Tag"]


class Tag(NamedTuple):
    """The origin of a tag: the KV of a request's token at a layer, written at an event."""

    request: int
    position: int
    layer: int
    event: int


class CopiedRows(NamedTuple):
    """Rows on the CPU: for each layer one tag a position, None where the copy holds no SWA row."""

    layers: list[list[int | None]]
    mask: list[bool]


class Contents:
    """The memory of all layers.

    It models the physical memory, freed slots included, because a real slot also keeps its bytes.
    Slot 0 is the dummy slot: anything may be in it.

    Attributes:
        layers: layer -> slot -> tag; 0 in a slot never written.
        tags: the origin of each tag; ``tags[0]`` is the row never written.
    """

    def __init__(self, config: Config) -> None:
        self.swa = [kind == SWA for kind in config.layers]
        self.layers = [[0] * ((config.swa_size if swa else config.full_size) + config.page_size) for swa in self.swa]
        self.tags = [Tag(-1, -1, -1, -1)]

    def new_tags(self, tokens: list[tuple[int, int]], layer: int, event: int) -> list[int]:
        """One fresh tag for each ``(request, position)``."""
        first = len(self.tags)
        self.tags.extend(Tag(request, position, layer, event) for request, position in tokens)
        return list(range(first, len(self.tags)))

    def slots(self, layer: int, locs: list[int], table: list[int]) -> list[int]:
        """The slots of these full locs at a layer."""
        return [table[loc] for loc in locs] if self.swa[layer] else locs

    def write(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """Store tags; a row for slot 0 is lost."""
        memory = self.layers[layer]
        for slot, tag in zip(slots, tags, strict=True):
            if slot > 0:
                memory[slot] = tag

    def copy_out(self, locs: list[int], table: list[int]) -> CopiedRows:
        """A CPU copy of these locs: all full rows, and the SWA rows that exist."""
        mask = [table[loc] > 0 for loc in locs]
        layers: list[list[int | None]] = []
        for layer, memory in enumerate(self.layers):
            slots = self.slots(layer, locs, table)
            held = mask if self.swa[layer] else [True] * len(locs)
            layers.append([memory[slot] if keep else None for slot, keep in zip(slots, held, strict=True)])
        return CopiedRows(layers, mask)

    def copy_in(self, rows: CopiedRows, locs: list[int], table: list[int]) -> None:
        """Load a copy: a row is restored if both the copy and the mapping have it; other slots do not change."""
        for layer, tags in enumerate(rows.layers):
            memory = self.layers[layer]
            for slot, tag in zip(self.slots(layer, locs, table), tags, strict=True):
                if slot > 0 and tag is not None:
                    memory[slot] = tag

    def move(self, targets: list[int], sources: list[int], table: list[int]) -> None:
        """Copy rows from sources to targets (both full locs) in every layer."""
        for layer, memory in enumerate(self.layers):
            moved = [memory[slot] for slot in self.slots(layer, sources, table)]
            self.write(layer, self.slots(layer, targets, table), moved)
