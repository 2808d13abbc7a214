"""A finding: a divergence for the user, with its origin and its shrink."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.allocator.events import AllocExtendSwaTail
from ..parts.events_file import events_origin
from ..parts.hooks import loaded
from ..tapes.shrink import Shrunk
from ..targets.base import Scope, shown_pins
from ..targets.registry import counterpart
from .explain import fact, sentence

__all__ = ["Finding", "Origin", "our_version"]


def our_version() -> str:
    """The version of staleloc that is installed."""
    try:
        return version("staleloc")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Origin:
    """The run in which a divergence was found.

    Attributes:
        target: the target's name as the user gave it.
        release: the engine's release, or None.
        mutant: the mutant's name, or None.
        seed: seed of the campaign; None for a replay, like
        index: the tape's number in the campaign.
        tape: what `staleloc replay` was given, or None.
        scope: the scope of the campaign.
        checks: what `staleloc replay` was told to check besides what the tape asks for.
    """

    target: str
    release: str | None = None
    mutant: str | None = None
    seed: int | None = None
    index: int | None = None
    tape: str | None = None
    scope: Scope = Scope()  # noqa: RUF009 - frozen
    checks: tuple[str, ...] = ()

    @property
    def recorded(self) -> str:
        """The target whose public record holds here: of a checkout, the release that it is judged as."""
        return counterpart(self.target, self.release)

    @property
    def again(self) -> str:
        """The command line that shows the divergence again."""
        words = ["staleloc"]
        if self.tape is not None:
            words += ["replay", self.tape, "--target", self.target]
            words += ["--checks", ",".join(self.checks)] if self.checks else []
        else:
            assert self.index is not None
            words += ["fuzz", "--target", self.target, "--seed", str(self.seed), "--tapes", str(self.index + 1)]
            words += self.scope.options
        if self.mutant is not None:
            words += ["--mutant", self.mutant]
        events = loaded()
        if events is not None:
            words += ["--events", events.path]
        return shlex.join(words)


@dataclass(frozen=True)
class Finding:
    """A divergence and the tape that shows it.

    Attributes:
        tape: the minimal tape, or the replayed one.
        shrunk: the shrink; None if there was none.
        unsteady: the tape had another outcome in another process.
        cause: its cause in a few words, see `Cause.label`; empty if it was not sought.
    """

    origin: Origin
    tape: Tape
    divergence: Divergence
    shrunk: Shrunk | None = None
    unsteady: bool = False
    cause: str = ""

    @property
    def signature(self) -> tuple[object, ...]:
        """A signature. Two findings with the same one are the same bug, as far as this can be decided without the
        source.

        The allocating method does not matter; the pool matters only if its own code ran.
        """
        kinds = tuple("alloc" if event.kind.startswith("alloc") else event.kind for event in self.tape.events)
        pool = self.tape.config.pool if "write_kv" in kinds or "translate" in kinds else ""
        tail = any(isinstance(event, AllocExtendSwaTail) and event.tail < event.count for event in self.tape.events)
        return (*self.divergence.key, *self.divergence.during, pool, tail, kinds)

    def documented(self) -> Tape:
        """The tape with its provenance, for a file."""
        origin = self.origin
        known: dict[str, object] = {
            "target": origin.target,
            "release": origin.release,
            "mutant": origin.mutant,
            "seed": origin.seed,
            "tape": origin.index,
            "config": shown_pins(origin.scope.pins) or None,
            "class": self.divergence.kind,
            "check": self.divergence.check,
            "what": fact(self.divergence),
            "sentence": sentence(self.divergence, self.tape),
            "cause": self.cause or None,
            "calls": list(self.divergence.calls) or None,
            "staleloc": our_version(),
            "events": events_origin(self.tape.events),
        }
        provenance = {**(self.tape.provenance or {}), **{name: it for name, it in known.items() if it is not None}}
        return replace(self.tape, provenance=provenance)
