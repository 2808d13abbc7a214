"""Run in a process of its own: play a release with a mutant, or as it is, until it diverges; print one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.targets.registry import open_target, parse, select_profiles

SEED = 0


def hunt(spec: str, tapes: str, drawn_for: str, mutant: str | None, known: str) -> dict[str, Any]:
    """The first tape that diverges in another way than is known, and how. Tapes are those for one mutant."""
    target = open_target(parse(spec), mutant)
    profiles = select_profiles(target.profiles, parse(spec), drawn_for)
    for index in range(int(tapes)):
        tape = generate_tape(seeded(SEED, index), profiles)
        profile = next(profile for profile in profiles if tape.config.policy in profile.policies)
        found = play_tape(tape, target, profile).divergence
        if found is not None and found.kind != known:
            return {"tape": index, "kind": found.kind, "check": found.check}
    return {"tape": None}


def mutated(spec: str, tapes: str, name: str, known: str = "") -> dict[str, Any]:
    """With the mutant."""
    return hunt(spec, tapes, name, name, known)


def clean(spec: str, tapes: str, drawn_for: str, known: str = "") -> dict[str, Any]:
    """The release as it is, on the same tapes."""
    return hunt(spec, tapes, drawn_for, None, known)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])))
