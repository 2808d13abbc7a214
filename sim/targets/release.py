"""Which release a target name stands for."""

from __future__ import annotations

__all__ = ["release_of"]


def release_of(target: str) -> str | None:
    """The engine's release, or None if it has none; fetched now if it is not in the cache, so that workers need not.

    Raises:
        TargetError: it cannot be had.
    """
    if not target.startswith("sglang"):
        return None
    from .sglang.fetch import resolve

    return resolve(target).version
