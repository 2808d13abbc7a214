"""Live tokens that moved to other SWA slots with their rows: the state after a pool is re-packed."""

from __future__ import annotations

from .world import Grant, World

__all__ = ["repack"]


def repack(world: World, grants: list[Grant], old: list[int], held: dict[int, list[int]], actual: list[int]) -> None:
    """Give these tokens other SWA slots, which hold the content of the old ones.

    Slots without a token, and entries that no caller may read, are adopted from the target.

    Args:
        grants: the tokens; their old slots have been released.
        old: the slot that each of them had.
        held: tags in each slot of each SWA layer of the target now.
        actual: the target's raw mapping now.
    """
    world.remap(grants)
    mapping = world.mapping
    for loc in mapping.lenient:
        mapping.lenient[loc] = actual[loc] if loc < len(actual) else 0
    owned = {mapping.table[loc] for locs in world.requests.values() for loc in locs}
    for layer, tags in held.items():
        memory = world.contents.layers[layer]
        world.contents.write(layer, [grant.swa for grant in grants], [memory[slot] for slot in old])
        for slot in range(world.config.page_size, len(memory)):
            if slot not in owned:
                memory[slot] = tags[slot]
