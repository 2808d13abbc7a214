"""A check: one oracle, which compares the world with the target's raw state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.divergence import Divergence

__all__ = ["Check", "rule"]


class Check(NamedTuple):
    """One oracle. It reads raw state only, and what the step's forwards read.

    Attributes:
        name: its name in divergences.
        run: from the step to the first divergence, or None.
        order: checks of whole requests are asked by ascending order; the first to fire names the divergence.
        early: at the allocator level, whether it looks at an allocation before the world takes it over.
    """

    name: str
    run: Callable[[Any], Divergence | None]
    order: int = 0
    early: bool = False


def rule(check: Check | None, found: Divergence) -> str:
    """What a check asks for, as its module says it."""
    if found.kind == "hang":
        return "an end of the step"
    if check is None or found.kind == "crash":
        return "no exception"
    text: Any = sys.modules[check.run.__module__].__doc__
    return " ".join(text.partition("\n\n")[0].split())
