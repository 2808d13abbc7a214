"""The oracles of speculative decode: its own, and those of the engine level. The first to fire names it."""

from __future__ import annotations

from staleloc.sim.engine.checks import (
    admission,
    eviction,
    graphs,
    locks,
    owners,
    races,
    refusal,
    rows,
    structure,
    values,
)
from staleloc.sim.engine.step import EngineCheck
from staleloc.sim.speculative.checks import drafts, keys, leftovers, lengths, reads, window
from staleloc.sim.speculative.step import SpecCheck

__all__ = ["SPEC_CHECKS"]

SPEC_CHECKS: tuple[SpecCheck | EngineCheck, ...] = (
    structure.CHECK,
    keys.CHECK,
    admission.CHECK,
    lengths.CHECK,
    owners.CHECK,
    leftovers.CHECK,
    races.CHECK,
    values.CHECK,
    window.CHECK,
    graphs.CHECK,
    rows.CHECK,
    reads.CHECK,
    drafts.CHECK,
    locks.CHECK,
    refusal.CHECK,
    eviction.CHECK,
)
"""All of them, in the order in which they are asked."""
