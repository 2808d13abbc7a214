"""Run in a process of its own: load one release, play tapes of two batches in flight on it, print one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.engine.events import Abort
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.parts.overlap.events import Launch, Process
from staleloc.sim.parts.scheduler.events import Submit
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.target import load

OVERLAP = Scope("engine", ("scheduler", "overlap"), together=True)

TURN = (Launch(1), Process())

LIVES = (
    Submit(0, (1,) * 10, 5),
    Launch(1),
    *TURN * 2,
    Submit(1, (2,) * 4, 9),
    *TURN * 5,
    Abort(1),
    *TURN * 2,
    Submit(2, (1,) * 10, 9),
    Launch(1),
    Process(),
    Launch(1, (2,)),
    *(Process(), *TURN * 3),
)
"""A prompt in chunks, a request that joins it, a length that is reached, an abort, and a token that ends a request."""


def lives(release: Release) -> dict[str, Any]:
    """What differs between releases, and the situations of some requests' whole lives, which must show nothing."""
    target = load(release)
    profile = OVERLAP.of(target.profiles)[0]
    config = Config(
        level="engine", features=profile.features, policy=profile.policies[0], page_size=4, full_size=64, swa_size=40,
        window=9, chunk=8, max_prefill=64,
    )  # fmt: skip
    verdict = play_tape(Tape(config, LIVES), target, profile)
    found = None if verdict.divergence is None else verdict.divergence.what
    return {
        "found": found,
        "seen": sorted(verdict.seen),
        "skips_finishing": target.overlap.skips_finishing,
        "filters_always": target.overlap.filters_always,
        "free": [len(target.raw_requests()), len(target.raw_flights())],
    }


def campaign(release: Release, seed: str, tapes: str) -> dict[str, Any]:
    """The classes and checks of all divergences of the first tapes of a seed."""
    target = load(release)
    profiles = OVERLAP.of(target.profiles)
    found: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for index in range(int(tapes)):
        tape = generate_tape(seeded(int(seed), index), profiles)
        profile = profile_of(tape.config, profiles)
        assert profile is not None
        verdict = play_tape(tape, target, profile)
        seen |= verdict.seen.keys()
        if verdict.divergence is not None:
            found.add(verdict.divergence.key)
    return {"found": sorted(found), "seen": sorted(seen)}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]), *sys.argv[3:])))
