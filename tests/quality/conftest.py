"""A hunt: what a campaign does, in this process and within a budget of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.targets.base import Profile, Target


@dataclass(frozen=True)
class Hunt:
    """What a hunt came to.

    Attributes:
        events: events played, those of the last tape included.
        tape: the last tape played.
        profile: what it was played under.
        divergence: its divergence, or None if the budget was spent without one.
    """

    events: int
    tape: Tape
    profile: Profile
    divergence: Divergence | None


@pytest.fixture(scope="session")
def hunt() -> Callable[..., Hunt]:
    """Play the tapes of a seed until one diverges or the budget is spent."""

    def run(target: Target, profiles: Sequence[Profile], seed: int, budget: int, checks: tuple[str, ...] = ()) -> Hunt:
        events = index = 0
        while True:
            tape = generate_tape(seeded(seed, index), profiles, checks)
            profile = profile_of(tape.config, profiles)
            assert profile is not None
            verdict = play_tape(tape, target, profile)
            events += verdict.events
            index += 1
            if verdict.divergence is not None or events >= budget:
                return Hunt(events, tape, profile, verdict.divergence)

    return run
