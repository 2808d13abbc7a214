"""Run in a process of its own: load one release, play on it, print one line of JSON."""

from __future__ import annotations

import importlib
import json
import random
import sys
import traceback
from collections import Counter
from typing import Any

import torch
from engine_play import Play

from staleloc.models.config import Config
from staleloc.sim.targets.base import Scope, TargetError
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


def life(release: Release) -> dict[str, Any]:
    """One request after the other, with every event, on each tree core and host tier."""
    target = load(release)
    profiles = Scope("engine").of(target.profiles)
    lives = {}
    for profile in profiles:
        for policy in profile.policies:
            for host in ("", "write_through", "write_back") if profile.host else ("",):
                if host == "write_back" and release.version in ("0.5.12", "0.5.12.post1"):
                    continue
                for page in profile.page_sizes:
                    lives[f"{policy} {host}"] = _life(Play(target, _roomy(page, host, policy)))
    profile = profiles[0]
    facts = {"policies": profile.policies, "host": profile.host, "events": sorted(profile.events)}
    return {"profile": facts, "lives": lives}


def _roomy(page: int, host: str, policy: str) -> Config:
    size = 24 * page
    return Config(
        level="engine",
        policy=policy,
        page_size=page,
        full_size=size,
        swa_size=size,
        window=page + 1,
        layers=("full", "swa", "swa"),
        host_full_size=2 * size if host else 0,
        host_swa_size=2 * size if host else 0,
        write_policy=host or "write_through",
    )


def _life(play: Play) -> dict[str, int]:
    page = play.config.page_size
    prompt = [1 + i % 2 for i in range(6 * page + 1)]
    assert play.arrive(1, prompt)
    for count in (2 * page, 3 * page, page + 1):
        assert play.prefill(1, count)
        play.checkpoint(1)
    assert play.arrive(2, prompt[: 4 * page])
    assert play.prefill(2, len(prompt[: 4 * page]) - play.computed[2])
    play.checkpoint(2)
    for token in range(3 * page):
        assert play.decode([1, 2], [3 + token % 2, 5])
        play.step("evict_window", 1)
        play.step("evict_window", 2)
    play.step("finish", 1)
    play.step("abort", 2)
    play.step("transfer_done", play.target.pending())
    play.step("evict", 0, page)
    play.step("evict", play.config.full_size, 0)
    assert play.arrive(3, [*prompt, 1])
    loaded = play.seen["loaded"]
    assert play.prefill(3, len(play.texts[3]) - play.computed[3])
    play.checkpoint(3)
    play.step("finish", 3)
    play.step("flush")
    assert play.arrive(4, prompt)
    assert play.computed[4] == 0
    play.step("abort", 4)
    return {"finished": sum(event.startswith(("finish", "flush")) for event in play.events), "from the host": loaded}


def results(release: Release) -> dict[str, Any]:
    """Two prompts, two decode steps, and the end of both requests, each as the results of one batch.

    For each tree the free pages of the full pool: before the last group, in it after the first request and after the
    second, and after it.
    """
    target = load(release)
    free: dict[str, list[int]] = {}
    for profile in Scope("engine").of(target.profiles):
        for policy in profile.policies:
            play = Play(target, _roomy(4, "", policy))
            for request in (1, 2):
                assert play.arrive(request, [request, *range(3, 13)])
                assert play.prefill(request, 11)
            grouped = target.begin_results("prefill")
            target.checkpoint(1)
            target.checkpoint(2)
            if grouped:
                target.end_results()
            play.unsaved.clear()
            for _ in range(2):
                assert play.decode([1, 2], [1, 1])
            free[policy] = [len(target.raw_free().full)]
            assert target.begin_results("decode")
            for leave, request in ((target.finish, 1), (target.abort_result, 2)):
                leave(request)
                del play.texts[request], play.computed[request]
                free[policy].append(len(target.raw_free().full))
            target.end_results()
            play.step("evict", 0, 0)
            free[policy].append(len(target.raw_free().full))
    rules = target._release.results
    return {"grouped": sorted(rules.grouped), "drops_aborted": rules.drops_aborted, "free": free}


def drift(release: Release) -> dict[str, Any]:
    """Take a method away from requests and build an engine."""
    target = load(release)
    module = importlib.import_module("sglang.srt.managers.schedule_batch")
    del module.Req.init_next_round_input
    try:
        target.build(Config(level="engine"))
    except TargetError as error:
        return {"message": str(error)}
    return {"message": None}


def fallback(release: Release) -> dict[str, Any]:
    """Ask for the tree core in Rust where the release believes that it cannot run."""
    target = load(release)
    importlib.import_module("sglang.srt.rust_extensions.torch_build")._MAX_SUPPORTED_TORCH = (2, 0)
    try:
        target.build(Config(level="engine", policy="rust-core"))
    except TargetError as error:
        return {"message": str(error)}
    return {"message": None}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]), *sys.argv[3:])))
