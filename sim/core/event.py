"""The base of every event, and what a field of one may mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

__all__ = ["Event", "Span"]

Span = tuple[int, int, int]
"""``(request, start, stop)``."""


@dataclass(frozen=True)
class Event:
    """One step of a tape.

    Attributes:
        kind: its name in tapes and in capabilities.
        words: string field -> what it may say; one that is not listed holds any lower-case name.
    """

    kind: ClassVar[str]
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def arguments(self) -> dict[str, Any]:
        """The event's fields by name, in declaration order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def changed(self, **values: Any) -> Event:
        """The event with some fields changed."""
        return replace(self, **values)
