"""The oracles, one file each. Order matters: the first to fire names the divergence."""

from . import (
    alias,
    availability,
    bounds,
    conservation,
    contents,
    mapping,
    mask,
    ownership,
    translation,
)
from .base import Check, Step

__all__ = ["CHECKS", "EARLY", "LATE", "Check", "Step"]

CHECKS: tuple[Check, ...] = (
    bounds.CHECK,
    alias.CHECK,
    ownership.CHECK,
    translation.CHECK,
    mapping.CHECK,
    conservation.CHECK,
    availability.CHECK,
    mask.CHECK,
    contents.CHECK,
)
"""All of them, in the order in which they are asked."""

EARLY = tuple(check for check in CHECKS if check.early)
"""Asked before the world takes over what an allocation handed out."""

LATE = tuple(check for check in CHECKS if not check.early)
"""Asked after the event."""
