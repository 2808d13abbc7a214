"""Run in a process of its own: what a release takes of speculative decode, and how it counts, as a line of JSON."""

from __future__ import annotations

import json
import sys

import torch

from staleloc.models.config import Config
from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.sglang.fetch import resolve
from staleloc.sim.targets.sglang.target import load


def rules(spec: str) -> dict[str, object]:
    """Of the profile, of an engine, and whether V1 is refused in one line."""
    target = load(resolve(spec))
    profile = next(it for it in target.profiles if it.features == ("spec",))
    shape = {"level": "engine", "features": ("spec",), "policy": profile.policies[0]}
    target.build(Config(**shape))
    said = target.spec_rules()
    try:
        target.build(Config(spec_version="v1", **shape))
        refused = False
    except TargetError as error:
        refused = "V1" in str(error)
    return {
        "versions": list(profile.spec_versions),
        "chains": list(profile.spec_chains),
        "claims_bonus": said.claims_bonus,
        "whole_pages": said.whole_pages,
        "refused": refused,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(rules(sys.argv[1])))
