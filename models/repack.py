"""Live tokens that moved to other SWA slots, with their rows: what a pool that is packed anew looks like."""

from __future__ import annotations

from .world import Grant, World

__all__ = ["repack"]


def repack(world: World, grants: list[Grant], old: list[int], held: dict[int, list[int]], actual: list[int]) -> None:
    """These tokens have other SWA slots from now on, which hold what their old ones held.

    What lies in slots that no token has is the target's business, and so are entries that nobody may ask for.

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
