"""The base of what writes tapes of whole requests: a config is drawn, then one event after the other.

An author does not know how the target fares. An event that does not apply is skipped, so an author may be wrong.

A part that is written differently says so in a module ``generate`` of its folder, with a mapping ``AUTHORS``: name of
the part -> from what writes the tapes of the parts before it to what writes its own. The parts come in the order of
their axes. A part without an entry is written as the others are: its events are drawn by their `EngineEvent.weight`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ...models.config import Config
from ..core.choices import Choices
from ..core.event import Event
from ..core.tape import Tape
from ..targets.base import Profile
from .engine.events import EngineEvent
from .pins import draw_pinned

__all__ = ["Authors", "Events", "TapeAuthor"]

Events = tuple[type[EngineEvent], ...]
"""The events that a tape may have: those of its parts that its target can execute."""


class TapeAuthor:
    """Writes tapes of some parts. A part that is written differently has a subclass.

    Attributes:
        alone: one of several profiles is picked with equal chances, before the author is asked to `choose`.
    """

    alone: ClassVar[bool] = True

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        self.choices = choices
        self.size = config.page_size
        self.pages = config.full_pages

    @classmethod
    def choose(cls, choices: Choices, profiles: Sequence[Profile]) -> Profile:
        """The profile that a tape is for. It may draw even if there is one only, as long as seeds count on that."""
        return profiles[0]

    @classmethod
    def tape(cls, choices: Choices, profile: Profile, events: Events) -> Tape:
        """A tape for a target driven this way. It depends on nothing but the choices."""
        config = draw_pinned(profile, lambda: cls.draw_config(choices, profile))
        length = choices.pick(cls.lengths(config))
        author = cls(choices, config, events)
        opening = author.opening(config)
        return Tape(config, (*opening, *(author.event() for _ in range(length - len(opening)))))

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """A cache for a target driven this way."""
        raise NotImplementedError

    @classmethod
    def lengths(cls, config: Config) -> tuple[int, ...]:
        """How many events a tape has."""
        return (48, 96, 160, 240)

    def opening(self, config: Config) -> list[Event]:
        """Events that come first."""
        return []

    def event(self) -> Event:
        """The next event."""
        raise NotImplementedError


Authors = Mapping[str, Callable[[type[TapeAuthor]], type[TapeAuthor]]]
"""See the module."""
