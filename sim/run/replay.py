"""Playing one tape that somebody has: found by path or name, fitted to a target, played as often as asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.adapt import fitted, profile_of
from ..parts.events_file import another_file
from ..tapes.codec import TapeError, load
from ..tapes.scenarios import find_scenario, scenarios
from ..targets.base import Profile
from .player import Player

__all__ = ["Replayed", "adapt", "find_tape", "is_scenario", "origin_of", "replay"]


def is_scenario(name: str) -> bool:
    """Whether a name is that of a packaged scenario, if of anything, and not of a file."""
    return not Path(name).exists() and "/" not in name


def find_tape(name: str) -> Tape:
    """The tape of a file, or else the packaged scenario of that name.

    Raises:
        TapeError: there is no such tape, or it is none.
    """
    if not is_scenario(name):
        return load(name)
    scenario = find_scenario(name)
    if scenario is None:
        close = get_close_matches(name, [it.name for it in scenarios()], n=1)
        hint = f"did you mean {close[0]}?" if close else "see: staleloc scenarios list"
        raise TapeError(f"{name}: no such file, and no scenario of that name; {hint}")
    return scenario.tape


def origin_of(tape: Tape) -> tuple[str, str | None]:
    """The target and the mutant that the tape was found on; the builtin and none if it does not say."""
    known = tape.provenance or {}
    target, mutant = known.get("target"), known.get("mutant")
    return (target if isinstance(target, str) else "builtin"), (mutant if isinstance(mutant, str) else None)


def adapt(tape: Tape, profiles: Sequence[Profile]) -> tuple[Tape, list[str]]:
    """The tape with policy and dtype that the target has, and a line for each that was changed; see `fitted`."""
    profile = profile_of(tape.config, profiles)
    if profile is None:
        return tape, []
    config, notes = fitted(tape.config, profile)
    return replace(tape, config=config), notes


@dataclass(frozen=True)
class Replayed:
    """What replays of a tape showed.

    Attributes:
        tape: the tape as it was played.
        divergence: that of the first replay in which there was one, or None.
        verdicts: how often each divergence (None for none) was the outcome.
        events: events played, all replays together.
        skipped: how many of them did not apply.
        notes: what was changed to play the tape.
        profiles: how the target can be driven.
    """

    tape: Tape
    divergence: Divergence | None
    verdicts: Counter[Divergence | None]
    events: int
    skipped: int
    seen: Counter[str]
    seconds: float
    notes: list[str]
    profiles: list[Profile]


def replay(tape: Tape, target: str, mutant: str | None = None, times: int = 1) -> Replayed:
    """Play a tape.

    Raises:
        TargetError: the target cannot be loaded or driven.
        Unplayable: the tape is outside the target's contract or capability.
    """
    verdicts: Counter[Divergence | None] = Counter()
    seen: Counter[str] = Counter()
    events = skipped = 0
    with Player(target, mutant) as player:
        fitted, notes = adapt(tape, player.profiles)
        if (other := another_file(tape.events, tape.provenance)) is not None:
            notes = [*notes, other]
        started = time.monotonic()
        for _ in range(times):
            verdicts[player.play(fitted)] += 1
            events += player.events
            skipped += player.skipped
            seen.update(player.seen)
        seconds = time.monotonic() - started
        profiles = player.profiles
    divergence = next((outcome for outcome in verdicts if outcome is not None), None)
    return Replayed(fitted, divergence, verdicts, events, skipped, seen, seconds, notes, profiles)
