"""compact() for staleloc: how to call it, and what it means. Give it with --events."""

from staleloc.sim.declared import Cache, Declared, Model


class Compact(Declared):
    """re-packs the SWA pool: live pages move to its end"""

    kind = "compact"

    def call(self, cache: Cache) -> None:
        cache.allocator.compact()

    def apply(self, model: Model) -> None:
        model.repack()
