"""A part: one value of one axis along which a serving engine is driven.

A config takes one value on each axis. The events, checks, situations and simpler configs of a tape are those of its
parts. To add a value: a folder with a `Part`, the target's adapter, and a line in `registry.PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...models.config import Config
from ..core.divergence import Divergence
from ..targets.base import Profile
from .check import Check
from .engine.events import EngineEvent

__all__ = ["Axis", "Observer", "Part"]


class Axis(Enum):
    """What a serving engine's cache is driven along."""

    REQUESTS = "requests"
    ADMISSION = "admission"
    DECODING = "decoding"
    EXECUTION = "execution"
    PREFIX = "prefix"
    TIERS = "tiers"
    COMPONENTS = "components"


class Observer:
    """Looks at the raw state around each event, and counts situations in the world."""

    def before(self, step: Any) -> None:
        """An event is about to be played."""

    def look(self, step: Any) -> None:
        """An event was played."""


def _no_configs(config: Config) -> Iterator[Config]:
    return iter(())


@dataclass(frozen=True)
class Part:
    """One value of one axis: its events, what is checked, and what is worth reaching.

    Attributes:
        axis: the axis.
        name: the value.
        holds: from the features of a config, and whether it has a host tier, to whether it has this value.
        events: its events.
        checks: its checks.
        situations: situation -> what happened, in one line.
        reachable: whether a target with a profile that has this value can come to a situation.
        observers: from a world to what counts situations in the raw state.
        world: from a config and a target to the world; None if the part needs no world of its own.
        step: the type of a step; None if the part needs none of its own.
        failure: what an exception out of the target is; None for a crash.
        simpler_configs: simpler configs as far as this value goes.
    """

    axis: Axis
    name: str
    holds: Callable[[frozenset[str], bool], bool]
    events: tuple[type[EngineEvent], ...] = ()
    checks: tuple[Check, ...] = ()
    situations: Mapping[str, str] = field(default_factory=dict)
    reachable: Callable[[str, Profile], bool] = lambda situation, profile: True
    observers: tuple[Callable[[Any], Observer], ...] = ()
    world: Callable[[Config, Any], Any] | None = None
    step: Callable[[int, Any, Any, Any], Any] | None = None
    failure: Callable[[Any, BaseException], Divergence | None] | None = None
    simpler_configs: Callable[[Config], Iterator[Config]] = _no_configs
