"""The embedded target: a correct implementation of hybrid KV allocation with cached translation.

Nothing in this package is wrong on purpose. A defect is a mutant: see `staleloc.sim.mutants`. The
modules import each other relatively, so that a mutated copy can live beside the original.
"""

from .disagg import DisaggEngine
from .graph_engine import GraphEngine
from .target import BuiltinTarget

__all__ = ["BuiltinEngine", "BuiltinTarget"]


class BuiltinEngine(DisaggEngine, GraphEngine):
    """The embedded implementation at both levels and with every feature; `build` says which."""
