"""An engine whose steps are called by hand, one method an event: what a stand-alone script drives.

After each step one check looks, the one that saw the divergence. From the first difference on, steps do nothing.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable

from ...models.config import Config
from ..core.divergence import Divergence
from ..core.event import Event
from ..core.timeouts import PASSED_ON
from ..targets.base import MISFITS, TargetError
from ..targets.engine import EngineTarget
from .adapt import fitted, lacking, profile_of
from .check import Check
from .engine.state import inside, rule
from .engine.step import EngineStep
from .registry import parts_of
from .session import Session

__all__ = ["Engine"]

_INDEX = re.compile(r"\{(\d+)\}")


class Engine:
    """A target with an empty cache, and a method for each engine-level event, which takes the event's fields.

    Args:
        target: what is driven.
        config: the cache to build.
        check: what looks after each step; None if only an exception is waited for.
    """

    def __init__(self, target: EngineTarget, config: Config, check: Check | None) -> None:
        profile = profile_of(config, target.profiles)
        if profile is None:
            nothing = f"{target.name} has no {config.pool} pool that is driven at the level of requests"
            raise TargetError(lacking(config, target.profiles, target.name) or nothing)
        config, notes = fitted(config, profile)
        for note in notes:
            print(note)
        self._check, self._profile = check, profile
        self._steps = 0
        self._last: EngineStep | None = None
        self._found: Divergence | None = None
        self._session = Session(target, config, parts_of(config))

    def __getattr__(self, kind: str) -> Callable[..., None]:
        session: Session | None = vars(self).get("_session")
        event = session.events.get(kind) if session is not None else None
        if event is None:
            raise AttributeError(kind)
        return lambda **fields: self._play(event(**fields))

    def _play(self, event: Event) -> None:
        if self._found is not None:
            return
        missing = event.lacks(self._profile)
        if missing is not None:
            raise TargetError(f"{event.kind} cannot be played: {missing}")
        index, self._steps = self._steps, self._steps + 1
        self._session.world.now = index
        self._last = step = self._session.step(index, event)
        try:
            if self._session.act(step) and self._check is not None:
                self._found = self._check.run(step)
        except PASSED_ON:
            raise
        except BaseException as error:
            if _misfit(error, step.target.adapter):
                raise TargetError(f"{event.kind} cannot be called ({type(error).__name__}: {error})") from error
            self._found = self._session.failure(step, error)

    def verdict(self, kind: str, step: int, raised: str | None = None) -> int:
        """Print what was found.

        Args:
            kind: the divergence's class.
            step: the step at which it showed when it was found, from 1.
            raised: for a crash, the name of the exception.

        Returns:
            1 if it shows, 0 if nothing does, 2 if something else came first.
        """
        found = self._found
        if found is None:
            print("the bug does not show")
            return 0
        is_it = found.kind == kind and (raised is None or f" raised {raised}" in found.what)
        self._print(found)
        if not is_it:
            print(f"something else shows ({found.kind}) and not the bug ({kind}); nothing can be said about it")
            return 2
        elsewhere = "" if found.event + 1 == step else f"; it was found at step {step}"
        print(f"the bug shows: {kind}{elsewhere}")
        return 1

    def _print(self, found: Divergence) -> None:
        assert self._last is not None
        fields = ", ".join(f"{name}={value}" for name, value in self._last.event.arguments().items())
        print(f"after step {found.event + 1}, {self._last.event.kind}({fields}):")
        print(f"  expected  {rule(self._check, found)}")
        print(f"  actual    {found.what if found.kind == 'crash' else _numbered(found.what)}")
        for row in found.rows:
            print(f"  full loc {row.loc}: expected {row.expected}, actual {row.actual}")
        if found.sentence:
            print(f"  {_numbered(found.sentence)}")
        if found.kind != "crash":
            print("\n".join(f"  {line}" for line in inside(self._last)))


def _numbered(text: str) -> str:
    """A text with its events numbered from 1."""
    return _INDEX.sub(lambda match: str(int(match[1]) + 1), text)


def _misfit(error: BaseException, adapter: tuple[str, ...]) -> bool:
    """Whether our adapter's own code failed on a release that it does not fit."""
    frames = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, MISFITS) and str(frames[-1]).startswith(adapter)
