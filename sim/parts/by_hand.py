"""A target that is driven by hand, one method an event: what a stand-alone script does.

After each step the check looks that saw the divergence. From the first difference on, steps do nothing.
"""

from __future__ import annotations

import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol

from ...models.config import Config
from ..core.divergence import Divergence
from ..core.event import Event
from ..core.timeouts import PASSED_ON, Stuck, hang, patience
from ..declared import Declared
from ..targets.base import MISFITS, TargetError
from .check import Check, rule
from .hooks import FromFile, joined
from .legality import fitted, lacking, profile_of

__all__ = ["ByHand", "outcome"]

_INDEX = re.compile(r"\{(\d+)\}")
_KIND = re.compile(r"\[(\d+)\]")


class _World(Protocol):
    now: int


class ByHand(ABC):
    """A target with an empty cache, and a method for each event of its level, which takes the event's fields.

    Args:
        target: what is driven.
        config: the cache to build.
        check: what looks after each step; None if only an exception is waited for, or a step that never ends.
    """

    level: ClassVar[str]
    """What the target is driven at, for people."""

    harness: ClassVar[type[FromFile]]
    """What is done with the events of a file for this level."""

    @staticmethod  # noqa: B027 - nothing, unless a script says so
    def before_step() -> None:
        """Called before each step; a script puts something else in its place."""

    def __init__(self, target: Any, config: Config, check: Check | None) -> None:
        profile = profile_of(config, target.profiles)
        if profile is None:
            nothing = f"{target.name} has no {config.pool} pool that is driven at the level of {self.level}"
            raise TargetError(lacking(config, target.profiles, target.name) or nothing)
        self._config, notes = fitted(config, profile)
        for note in notes:
            print(note)
        self._target, self._profile, self._check = target, profile, check
        self._played: list[Event] = []
        self._found: Divergence | None = None
        self._events, self._world = self._begin()

    @abstractmethod
    def _begin(self) -> tuple[dict[str, Any], _World]:
        """Build the cache; the events by name, and the world that is compared with it."""

    @abstractmethod
    def _refusal(self, event: Event) -> str | None:
        """Why an event cannot be played now, or None."""

    @abstractmethod
    def _run(self, index: int, event: Event) -> Divergence | None:
        """Play an event, and let the check look."""

    @abstractmethod
    def _failure(self, error: BaseException) -> Divergence:
        """What an exception out of the target is."""

    @abstractmethod
    def _inside(self) -> Iterable[str]:
        """What the target holds after the last step, as lines for people."""

    def _last_look(self) -> Divergence | None:
        """What the check sees once no step is left."""
        return None

    def __getattr__(self, kind: str) -> Callable[..., None]:
        event = self.__dict__.get("_events", {}).get(kind)
        if event is None:
            raise AttributeError(kind)
        return lambda **fields: self.play(event(**fields))

    def play(self, event: Event) -> None:
        """Play an event, unless there was a difference before.

        Raises:
            TargetError: the target cannot be asked for it.
        """
        if self._found is not None:
            return
        if isinstance(event, Declared) and not isinstance(event, FromFile):
            event = joined(type(event), self.harness)(**event.arguments())
            self._events[event.kind] = type(event)
        reason = self._refusal(event)
        if reason is not None:
            raise TargetError(f"{event.kind} cannot be played: {reason}")
        self.before_step()
        index = self._world.now = len(self._played)
        self._played.append(event)
        try:
            with patience(self._world, self._config):
                self._found = self._attempt(index, event)
        except Stuck:
            self._found = hang(index, event)

    def _attempt(self, index: int, event: Event) -> Divergence | None:
        try:
            return self._run(index, event)
        except PASSED_ON:
            raise
        except BaseException as error:
            if _misfit(error, self._target.adapter):
                raise TargetError(f"{event.kind} cannot be called ({type(error).__name__}: {error})") from error
            return self._failure(error)

    def verdict(self, kind: str, step: int, raised: str | None = None) -> int:
        """Print what was found.

        Args:
            kind: the divergence's class.
            step: the step at which it showed when it was found, from 1.
            raised: for a crash, the name of the exception.

        Returns:
            1 if it shows, 0 if nothing does, 2 if something else came first.
        """
        found = self._found or self._last_look()
        if found is None:
            print("the bug does not show")
            return 0
        self._print(found)
        if found.kind == kind and raised is not None and f" raised {raised}" not in found.what:
            return outcome(f"another {kind}", kind)
        return outcome(found.kind, kind, "" if found.event + 1 == step else f"; it was found at step {step}")

    def _print(self, found: Divergence) -> None:
        event = self._played[found.event]
        fields = ", ".join(f"{name}={value}" for name, value in event.arguments().items())
        print(f"after step {found.event + 1}, {event.kind}({fields}):")
        print(f"  expected  {rule(self._check, found)}")
        print(f"  actual    {found.what if found.kind == 'crash' else _numbered(found.what)}")
        for row in found.rows:
            if row.actual is not None:
                print(f"  full loc {row.loc}: expected {row.expected}, actual {row.actual}")
        if found.sentence:
            print(f"  {_numbered(_KIND.sub(lambda match: self._played[int(match[1])].kind, found.sentence))}")
        if found.kind not in ("crash", "hang"):
            print("\n".join(f"  {line}" for line in self._inside()))


def outcome(found: str, bug: str, more: str = "") -> int:
    """Say whether what was found is the bug, both given by their class; the exit code that says the same."""
    if found == bug:
        print(f"the bug shows: {bug}{more}")
        return 1
    print(f"another divergence shows ({found}), not the bug ({bug}); the result is undecided")
    return 2


def _numbered(text: str) -> str:
    """A text with its events numbered from 1."""
    return _INDEX.sub(lambda match: str(int(match[1]) + 1), text)


def _misfit(error: BaseException, adapter: tuple[str, ...]) -> bool:
    """Whether our adapter's own code failed on a release that it does not fit."""
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, MISFITS) and str(frames[-1]).startswith(adapter)
