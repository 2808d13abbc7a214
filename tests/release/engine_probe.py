"""Run in a process of its own: load one release, play on it, print one line of JSON."""

from __future__ import annotations

import json
import random
import sys
import traceback
from collections import Counter
from typing import Any

import torch
from engine_play import Play

from staleloc.models.config import Config
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.target import load


def shape(draw: random.Random, host: str | None, policy: str) -> Config:
    """A tiny cache under pressure."""
    page = draw.choice([1, 1, 4, 4, 16])
    swa = draw.randint(6, 12)
    full = swa + draw.randint(2, 16)
    return Config(
        level="engine",
        policy=policy,
        page_size=page,
        full_size=full * page,
        swa_size=swa * page,
        window=draw.choice([2, 3, page, 2 * page, 3 * page + 1]) if page > 1 else draw.choice([2, 3, 4, 6]),
        layers=draw.choice([("full", "swa"), ("full", "swa", "swa"), ("swa", "full")]),
        host_full_size=(full + draw.choice([1, 2, full])) * page if host else 0,
        host_swa_size=(swa + draw.choice([1, 2, swa])) * page if host else 0,
        write_policy=host or "write_through",
    )


def plays(
    release: Release, policy: str = "native", host: str = "", first: str = "0", count: str = "20", events: str = "200"
) -> dict[str, Any]:
    """Seeded random plays; every failure with its events."""
    target = load(release)
    seen: Counter[str] = Counter()
    failures = []
    for seed in range(int(first), int(first) + int(count)):
        draw = random.Random(seed)
        play = Play(target, shape(draw, host or None, policy))
        try:
            play.random(draw, int(events))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(
                {"seed": seed, "error": type(error).__name__, "what": str(error)[:400], "events": len(play.events),
                 "last": play.events[-1], "where": f"{where.filename.rpartition('/')[2]}:{where.name}:{where.lineno}"}
            )  # fmt: skip
        seen.update(play.seen)
    return {"failures": failures, "seen": dict(seen)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]), *sys.argv[3:])))
