"""The embedded target: a correct implementation of hybrid KV allocation with cached translation.

Nothing in this package is wrong on purpose. A defect is a mutant: see `staleloc.sim.targets.mutants`. The
modules import each other relatively, so that a mutated copy can live beside the original.
"""

from .overlap import OverlapEngine
from .spec_node import SpecNodeEngine
from .target import BuiltinTarget

__all__ = ["BuiltinEngine", "BuiltinTarget"]


class BuiltinEngine(OverlapEngine, SpecNodeEngine):
    """The embedded implementation at both levels and with every feature; `build` says which."""

    profiles = tuple(dict.fromkeys((*SpecNodeEngine.profiles, *OverlapEngine.profiles)))
