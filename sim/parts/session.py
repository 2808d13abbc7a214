"""A tape of whole requests under way: a world beside a target, made of the parts of its config."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...models.config import Config
from ...models.engine import EngineWorld
from ..core.divergence import Divergence
from ..core.event import Event
from ..core.timeouts import PASSED_ON
from .check import Check, built, crash
from .engine.scene import scene
from .engine.step import EngineStep, Raw
from .hooks import declared
from .part import Part

__all__ = ["EngineSession"]


class EngineSession:
    """A target with an empty cache of this config, and the world that is compared with it.

    Args:
        target: what is driven; it implements the protocol of each part.
        config: the cache to build.
        parts: the parts of the config.
    """

    def __init__(self, target: Any, config: Config, parts: Sequence[Part]) -> None:
        self._target = target
        self.adapter: tuple[str, ...] = target.adapter
        self._parts = parts
        built(target, config)
        self.world: EngineWorld = _own(parts, "world", _plain_world)(config, target)
        made = {it for part in parts for it in part.checks if not it.optional or it.name in config.checks}
        self.checks = tuple(sorted(made, key=lambda it: it.order))
        self.events: dict[str, Any] = {event.kind: event for part in parts for event in part.events}
        self.events |= declared("engine")
        self._step = _own(parts, "step", EngineStep)
        self._before = self._at_rest()
        self._observers = [make(self.world) for part in parts for make in part.observers]

    def play(self, index: int, event: Event) -> tuple[Event | None, Divergence | None]:
        """See `drive.Session.play`. An event that does not apply is skipped."""
        step = self.step(index, event)
        divergence = self._compare(step)
        if divergence is None and step.effect is not None:
            self._before = step.seen_by_checks
            self.world.mapping.follow(index, step.mapping)
        return step.effect, divergence

    def finish(self) -> Divergence | None:
        """See `drive.Session.finish`. Each event was followed by a look at everything."""
        return None

    def _compare(self, step: EngineStep) -> Divergence | None:
        """Play a step's event, if it applies, and ask each check in turn."""
        for observer in self._observers:
            observer.before(step)
        try:
            if not self.act(step):
                step.effect = None
                return None
            for observer in self._observers:
                observer.look(step)
            for check in self.checks:
                divergence = check.run(step)
                if divergence is not None:
                    return self.explained(step, check, divergence)
        except PASSED_ON:
            raise
        except BaseException as error:
            return self.failure(step, error)
        return None

    def _at_rest(self) -> Raw | None:
        """The raw state of the empty cache; None if it cannot be read, which the checks say after the first event."""
        step: EngineStep = self._step(0, None, self.world, self._target)
        try:
            return Raw(step.tree, step.requests, step.mapping, step.free)
        except PASSED_ON:
            raise
        except Exception:
            return None

    def step(self, index: int, event: Event) -> EngineStep:
        """The step of an event that is about to be played."""
        step: EngineStep = self._step(index, event, self.world, self._target)
        step.effect = event
        step.previous = self._before
        return step

    def act(self, step: EngineStep) -> bool:
        """Play a step's event; False if it does not apply, as no event of a part does that the config lacks."""
        known = self.events.get(step.event.kind)
        return known is not None and known.play(step.event, step)

    def explained(self, step: EngineStep, check: Check, found: Divergence) -> Divergence:
        """What a check has found, with what helps people to understand it."""
        return _with_scene(step, check, found)

    def failure(self, step: EngineStep, error: BaseException) -> Divergence:
        """What an exception out of the target is."""
        for part in self._parts:
            found = part.failure(step, error) if part.failure is not None else None
            if found is not None:
                return found
        return crash(error, step.index, step.event, step.target.adapter)


def _own(parts: Sequence[Part], name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """What makes a world or a step: that of the last part that has its own, which knows those before it."""
    makers = [getattr(part, name) for part in parts]
    return next((make for make in reversed(makers) if make is not None), plain)


def _plain_world(config: Config, target: Any) -> EngineWorld:
    return EngineWorld(config)


def _with_scene(step: EngineStep, check: Check, found: Divergence) -> Divergence:
    """A divergence with the state for people; without if that is so broken that it cannot be looked at, which is no
    other bug."""
    try:
        return replace(found, state=scene(step, check, found))
    except Exception:
        return found
