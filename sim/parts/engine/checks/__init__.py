"""The oracles of the engine level, one file each. Order matters: the first to fire names the divergence."""

from ..step import EngineCheck
from . import (
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

__all__ = ["ENGINE_CHECKS"]

ENGINE_CHECKS: tuple[EngineCheck, ...] = (
    structure.CHECK,
    admission.CHECK,
    owners.CHECK,
    races.CHECK,
    values.CHECK,
    graphs.CHECK,
    rows.CHECK,
    locks.CHECK,
    refusal.CHECK,
    eviction.CHECK,
)
"""All of them, in the order in which they are asked."""
