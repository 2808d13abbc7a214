"""What a campaign draws from: the level, and the features in play."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...models.config import LEVELS
from .base import Profile

__all__ = ["Scope"]


@dataclass(frozen=True)
class Scope:
    """Which of a target's profiles a campaign draws from.

    Attributes:
        level: see `Config.level`.
        features: see `Config.features`. Each tape has at least one of them, if there are any, and no other.
    """

    level: str = LEVELS[0]
    features: tuple[str, ...] = ()

    def of(self, profiles: Iterable[Profile]) -> list[Profile]:
        """Those of a target's profiles that are drawn from."""
        return [
            profile
            for profile in profiles
            if profile.level == self.level
            and bool(profile.features) == bool(self.features)
            and set(profile.features) <= set(self.features)
        ]

    def lacking(self, profiles: Iterable[Profile]) -> Scope | None:
        """What of this nobody of the profiles has; None if there is one for each feature."""
        drawn = self.of(profiles)
        missing = tuple(name for name in self.features if not any(name in profile.features for profile in drawn))
        return Scope(self.level, missing) if missing or not drawn else None

    @property
    def options(self) -> list[str]:
        """The command line's words for it."""
        words = [] if self == Scope() else ["--level", self.level]
        return [*words, "--features", ",".join(self.features)] if self.features else words

    def __str__(self) -> str:
        return f"the {self.level} level" + (f" with {' or '.join(self.features)}" if self.features else "")
