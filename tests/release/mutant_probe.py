"""Run in a process of its own: play a release with a mutant, or as it is, until it diverges; print one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

from staleloc.sim.choices import seeded
from staleloc.sim.levels import generate_tape, play_tape
from staleloc.sim.targets.registry import open_target, parse, select_profiles

SEED = 0

DRAWN_FOR = "sglang-split-swaps-swa"
"""The release as it is plays what mutants of the tree's Python core play."""


def hunt(spec: str, tapes: int, name: str | None = None) -> dict[str, Any]:
    """The first tape that diverges, and how."""
    target = open_target(parse(spec), name)
    profiles = select_profiles(target.profiles, parse(spec), name or DRAWN_FOR)
    for index in range(tapes):
        tape = generate_tape(seeded(SEED, index), profiles)
        profile = next(profile for profile in profiles if tape.config.policy in profile.policies)
        found = play_tape(tape, target, profile).divergence
        if found is not None:
            return {"tape": index, "kind": found.kind, "check": found.check}
    return {"tape": None}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(hunt(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])))
