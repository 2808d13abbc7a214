"""Run in a process of its own: play a release with a mutant, or as it is, until it diverges; print one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from typing import Any

import torch

from staleloc.sim.choices import seeded
from staleloc.sim.levels import generate_tape, play_tape
from staleloc.sim.targets.registry import open_target, parse, select_profiles

SEED = 0

DRAWN_FOR = "sglang-split-swaps-swa"
"""The release as it is plays what mutants of the tree's Python core play."""


def diverging(
    spec: str, tapes: int, name: str | None, drawn_for: str, known: Collection[int]
) -> Iterator[dict[str, Any]]:
    """Every tape that diverges and is not known to do so on the release as it is, and how."""
    target = open_target(parse(spec), name)
    profiles = select_profiles(target.profiles, parse(spec), drawn_for)
    for index in range(tapes):
        if index not in known:
            tape = generate_tape(seeded(SEED, index), profiles)
            profile = next(profile for profile in profiles if tape.config.policy in profile.policies)
            found = play_tape(tape, target, profile).divergence
            if found is not None:
                yield {"tape": index, "kind": found.kind, "check": found.check}


def hunt(spec: str, tapes: str, name: str | None = None, known: str = "[]") -> dict[str, Any]:
    """The first of them."""
    return next(diverging(spec, int(tapes), name, name or DRAWN_FOR, json.loads(known)), {"tape": None})


def census(spec: str, tapes: str, drawn_for: str) -> dict[str, Any]:
    """All of the release as it is, on the tapes that a mutant is looked for with."""
    return {"known": list(diverging(spec, int(tapes), None, drawn_for, ()))}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])))
