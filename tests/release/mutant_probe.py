"""Run in a process of its own: hunt engine-level mutants of one release, print one line of JSON.

Each mutant is loaded in a fork, since a process holds one release, and so does the release as it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from staleloc.sim.choices import seeded
from staleloc.sim.divergence import Divergence
from staleloc.sim.levels import generate_tape, play_tape
from staleloc.sim.mutants import MUTANTS
from staleloc.sim.targets.base import Profile, Target
from staleloc.sim.targets.registry import open_target, parse, select_profiles

SEED = 0


def play(target: Target, profiles: list[Profile], index: int) -> Divergence | None:
    """What tape `index` of the seed comes to, drawn from a mutant's profiles."""
    tape = generate_tape(seeded(SEED, index), profiles)
    profile = next(profile for profile in profiles if tape.config.policy in profile.policies)
    return play_tape(tape, target, profile).divergence


def hunt(spec: str, name: str, tapes: int) -> dict[str, Any] | None:
    """The first tape that shows the mutant, and how."""
    target = open_target(parse(spec), name)
    profiles = select_profiles(target.profiles, parse(spec), name)
    for index in range(tapes):
        found = play(target, profiles, index)
        if found is not None:
            return {"tape": index, "kind": found.kind, "check": found.check}
    return None


def clean(spec: str, hunts: dict[str, dict[str, Any] | None]) -> dict[str, str]:
    """What the release as it is comes to on the tapes that showed mutants."""
    target = open_target(parse(spec))
    drawn = {name: select_profiles(target.profiles, parse(spec), name) for name in hunts}
    played = {name: play(target, drawn[name], found["tape"]) for name, found in hunts.items() if found}
    return {name: found.what for name, found in played.items() if found is not None}


def forked(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do it in a fork of this process, and hand the answer over."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        code = 1
        try:
            os.write(writer, json.dumps(work(*arguments)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.wait()
    return json.loads(text)


if __name__ == "__main__":
    torch.set_num_threads(1)
    release, limit = sys.argv[1], int(sys.argv[2])
    names = [name for name, mutant in MUTANTS.items() if (mutant.target, mutant.level) == ("sglang", "engine")]
    hunts = {name: forked(hunt, release, name, limit) for name in names}
    print(json.dumps({"hunts": hunts, "clean": forked(clean, release, hunts)}))
