"""What is known of a target before it is tested: what its base shows, what was accepted, and what is on record.

A divergence is *known* if one of these sources knows it. Everything else is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..matrix.measurements import Replayed
from ..matrix.record import is_shown
from ..run.player import Player, Unplayable, WorkerLost, adapt
from ..tapes.scenarios import Scenario, lookalike, plain
from ..targets.base import Profile, TargetError
from ..targets.registry import family_of

__all__ = ["BaseTarget", "Candidate", "Known", "Record", "same_divergence"]


@dataclass(frozen=True)
class Candidate:
    """A divergence that may be known.

    Attributes:
        tape: the tape as it was played.
        scenario: the scenario that it is the tape of, or None.
    """

    tape: Tape
    divergence: Divergence
    scenario: Scenario | None = None


class Known(Protocol):
    """A source of known divergences.

    Attributes:
        name: its name, for people.
    """

    name: str

    def knows(self, candidate: Candidate) -> str | None:
        """Return why a divergence is known, or None."""


def same_divergence(one: Divergence, other: Divergence) -> bool:
    """Return whether two divergences of one tape are the same bug: class, check and event are equal. A crash is told
    by its message, too, because every crash has the same class and check."""
    same = one.key == other.key and one.event == other.event and one.during == other.during
    return same and (one.kind != "crash" or plain(one.what) == plain(other.what))


class BaseTarget:
    """The target before the change: each tape is replayed on it. It is loaded when it is first needed.

    Attributes:
        target: the target's name; `name` may be a ref.
        unplayable: why tapes could not be played on it, each reason once.
    """

    def __init__(self, name: str, target: str, open_player: Callable[[str], Player]) -> None:
        self.name = name
        self.target = target
        self.unplayable: dict[str, None] = {}
        self._open = open_player
        self._player: Player | None = None

    @property
    def profiles(self) -> Sequence[Profile]:
        """How the base can be driven."""
        return self._opened().profiles

    def knows(self, candidate: Candidate) -> str | None:
        """See `Known`."""
        player = self._opened()
        tape, _ = adapt(candidate.tape, player.profiles)
        try:
            divergence = player.play(tape)
        except WorkerLost:
            raise
        except (Unplayable, TargetError) as error:
            self.unplayable[str(error)] = None
            return None
        if divergence is None or not same_divergence(divergence, candidate.divergence):
            return None
        return f"{self.name} diverges in the same way"

    def _opened(self) -> Player:
        if self._player is None:
            try:
                self._player = self._open(self.target)
            except TargetError as error:
                raise TargetError(f"the base {self.name} cannot be played: {error}") from None
        return self._player

    def close(self) -> None:
        """End the base's worker."""
        if self._player is not None:
            self._player.close()


@dataclass
class Record:
    """The public record of a release, where no base is given.

    Attributes:
        name: the release that the target is judged as.
        shown: scenario -> the result of its tape on the target.
        scenarios: every scenario.
    """

    name: str
    shown: Mapping[str, Replayed]
    scenarios: Sequence[Scenario] = field(repr=False)

    def knows(self, candidate: Candidate) -> str | None:
        """See `Known`."""
        if candidate.scenario is not None:
            return self._told(candidate.scenario)
        alike = lookalike(candidate.tape, candidate.divergence, self.name)
        if alike is None or self.shown.get(alike.name, Replayed("silent")).verdict != "diverges":
            return None
        told = self._told(alike)
        return None if told is None else f"looks like {alike.name}; {told}"

    def _told(self, scenario: Scenario) -> str | None:
        family = family_of(self.name)
        releases = family.releases if family is not None else ()
        until = releases[: releases.index(self.name) + 1] if self.name in releases else (self.name,)
        shown = is_shown(scenario, until)
        if shown:
            return f"on record for {self.name}"
        if shown is None and releases:
            return f"no record says that {self.name} is without it"
        return None
