"""Run in a process of its own: load one release, say how it schedules or what tapes show, print one line of JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.legality import profile_of
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.target import load

SCHEDULER = Scope("engine", ("scheduler",))

CACHE = Config(level="engine", features=("scheduler",), page_size=4, full_size=64, swa_size=32, max_prefill=64)


def rules(release: Release) -> dict[str, Any]:
    """What differs from release to release, and the type of what keeps KV without a prefix cache and with one."""
    target = load(release)
    profile = SCHEDULER.of(target.profiles)[0]
    said: dict[str, Any] = {"caches": [], "policies": [list(it.policies) for it in SCHEDULER.of(target.profiles)]}
    for prefix_cache in (False, True):
        target.build(replace(CACHE, policy=profile.policies[0], prefix_cache=prefix_cache))
        said["caches"].append(type(target.tree).__name__)
    return said | {"aborts": target.aborts_chunked(), "stores_again": target.schedule.stores_again}


def after_one_another(release: Release) -> dict[str, Any]:
    """A scheduler, an engine that is driven step by step and a scheduler again, in one process."""
    target = load(release)
    policy = SCHEDULER.of(target.profiles)[0].policies[0]
    counts = []
    for _ in range(2):
        target.build(replace(CACHE, policy=policy, chunk=8))
        target.submit(0, [1] * 12, 2)
        grants = target.prefill_round().grants
        target.prefilled()
        counts.append([grant.count for grant in grants])
        target.build(Config(level="engine", policy=policy))
        target.admit(0, [1, 1])
        counts.append([len(target.prefill(0, 2) or [])])
    return {"counts": counts}


def campaign(release: Release, seed: str, tapes: str) -> dict[str, Any]:
    """The classes and checks of all divergences of the first tapes of a seed, and situations that were reached."""
    target = load(release)
    profiles = SCHEDULER.of(target.profiles)
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
