"""The embedded target: a correct implementation of hybrid KV allocation with cached translation.

Nothing in this package is wrong on purpose. A defect is a mutant: see `staleloc.sim.targets.mutants`. The
modules import each other relatively, so that a mutated copy can live beside the original.
"""

from .disagg import DisaggEngine
from .overlap import OVERLAP, OverlapEngine
from .scheduler import SCHEDULER
from .spec_graphs import SPEC_GRAPHS
from .spec_node import NODES, SpecNodeEngine
from .speculative import SPEC
from .target import BuiltinTarget

__all__ = ["BuiltinEngine", "BuiltinTarget"]


class BuiltinEngine(OverlapEngine, SpecNodeEngine):
    """The embedded implementation at both levels and with every feature; `build` says which."""

    profiles = (*DisaggEngine.profiles, SPEC, SPEC_GRAPHS, *NODES, SCHEDULER, OVERLAP)
