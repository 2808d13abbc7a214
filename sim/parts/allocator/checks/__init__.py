"""The checks of the allocator level. Order matters: the first to fire names the divergence."""

from ...check import Check
from .rows import check_contents, check_mapping, check_mask, check_translation
from .slots import check_alias, check_availability, check_bounds, check_conservation, check_ownership

__all__ = ["CHECKS", "EARLY", "check_contents"]

CHECKS: tuple[Check, ...] = (
    check_bounds,
    check_alias,
    check_ownership,
    check_translation,
    check_mapping,
    check_conservation,
    check_availability,
    check_mask,
    check_contents,
)
"""All of them, in the order in which they are asked."""

EARLY = tuple(check for check in CHECKS if check.early)
"""Asked before the world takes over what an allocation handed out."""
