"""What a campaign draws from: the level, and the features in play."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...models.config import LEVELS
from .base import Profile

__all__ = ["Scope"]


@dataclass(frozen=True)
class Scope:
    """Which of a target's profiles a campaign draws from.

    Attributes:
        level: see `Config.level`.
        features: what is asked for, see `Profile.asks`. Each tape has at least one of them, if there are any, and no
            other.
        together: each tape has all of them.
    """

    level: str = LEVELS[0]
    features: tuple[str, ...] = ()
    together: bool = False

    def of(self, profiles: Iterable[Profile]) -> list[Profile]:
        """Those of a target's profiles that are drawn from."""
        return [
            profile
            for profile in profiles
            if profile.level == self.level
            and bool(profile.asks) == bool(self.features)
            and set(profile.asks) <= set(self.features)
            and (not self.together or set(profile.asks) == set(self.features))
        ]

    def lacking(self, profiles: Iterable[Profile]) -> Scope | None:
        """What of this nobody of the profiles has; None if there is one for each feature."""
        drawn = self.of(profiles)
        missing = tuple(name for name in self.features if not any(name in profile.asks for profile in drawn))
        if self.together:
            return None if drawn else self
        return Scope(self.level, missing) if missing or not drawn else None

    def to_json(self) -> dict[str, Any]:
        """It as JSON values."""
        return {"level": self.level, "features": list(self.features), "together": self.together}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Scope:
        """It out of JSON values that may hold more."""
        return cls(values["level"], tuple(values["features"]), bool(values["together"]))

    @property
    def options(self) -> list[str]:
        """The command line's words for it."""
        words = [] if self == Scope() else ["--level", self.level]
        return [*words, "--features", ("+" if self.together else ",").join(self.features)] if self.features else words

    def __str__(self) -> str:
        joined = (" and " if self.together else " or ").join(self.features)
        return f"the {self.level} level" + (f" with {joined}" if joined else "")
