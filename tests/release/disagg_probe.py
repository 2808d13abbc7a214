"""Run in a process of its own: load one release, say how its decode node counts, print one line of JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from staleloc.models.config import Config
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.target import load


def rules(release: Release) -> dict[str, Any]:
    """The rules of a decode node of this release, with a prefix tree and without, and the type of what keeps KV."""
    target = load(release)
    (profile,) = Scope("engine", ("disagg",)).of(target.profiles)
    said = {"events": sorted(profile.events), "missing": sorted(profile.missing)}
    for tree in (False, True)[: 1 + profile.decode_tree]:
        target.build(
            Config(
                level="engine", features=("disagg",), policy=profile.policies[0], page_size=4, full_size=32,
                swa_size=16, decode_tree=tree,
            )
        )  # fmt: skip
        said["tree" if tree else "plain"] = {
            **asdict(target.rules()),
            "keeps": type(target.tree).__name__,
            "tail": [target.raw_tail(length) for length in (1, 8, 11, 17)],
        }
    return said


def after_an_engine(release: Release) -> dict[str, Any]:
    """A decode node and an engine that computes its prompts, one after the other in one process."""
    target = load(release)
    policy = Scope("engine").of(target.profiles)[0].policies[0]
    target.build(Config(level="engine", policy=policy, features=("disagg",)))
    queued = target.enqueue(0, [1, 1], 1)
    target.build(Config(level="engine", policy=policy))
    target.admit(0, [1, 1])
    prefilled = target.prefill(0, 2)
    return {"queued": queued, "prefilled": len(prefilled or [])}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]))))
