"""Checked events a second beside the same calls on the bare target, as a ratio.

    python benchmarks/throughput.py [--targets builtin sglang==0.5.12 sglang==0.5.23] [--tapes 300] [--rounds 5]

Tapes that run to their end are generated once and played once with all checks, while the target's calls are
recorded. Then both are timed in turn in one process: the checked play (model, target, every check)
and the bare calls with the same arguments. Generating tapes is timed apart. Absolute numbers are of
this machine and moment; the ratio is what to quote.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.allocator.generate import generate
from staleloc.sim.parts.drive import drive
from staleloc.sim.targets.base import Target
from staleloc.sim.targets.registry import open_target, parse

PAGE_SIZES = (1, 4)


class Recorder:
    """A target that notes every call that acts; raw looks pass through unseen."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.calls: list[tuple[Callable[..., object], tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.target, name)
        if not callable(method) or name.startswith("raw_") or name == "cache_hits":
            return method

        def call(*args: object) -> object:
            self.calls.append((method, args))
            return method(*args)

        return call


def measure(target: Target, name: str, page_size: int, tapes: int, rounds: int) -> str:
    """One line of the table."""
    profile = next(p for p in target.profiles if p.pool == "hybrid")
    profile = replace(profile, page_sizes=(page_size,))
    started = time.perf_counter()
    generated = [generate(seeded(0, index), [profile]) for index in range(tapes)]
    generation = sum(len(tape.events) for tape in generated) / (time.perf_counter() - started)
    recorder = Recorder(target)
    played = []
    for tape in generated:
        before = len(recorder.calls)
        if drive(tape, recorder, profile).divergence is None:
            played.append(tape)
        else:
            del recorder.calls[before:]  # a diverging tape ends early and may leave the target broken
    events = sum(len(tape.events) for tape in played)
    checked, bare = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        for tape in played:
            drive(tape, target, profile)
        checked.append(events / (time.perf_counter() - started))
        started = time.perf_counter()
        for method, args in recorder.calls:
            method(*args)
        bare.append(events / (time.perf_counter() - started))
    ratio = statistics.median(c / b for c, b in zip(checked, bare, strict=True))
    rates = f"{statistics.median(bare):>10,.0f} {statistics.median(checked):>10,.0f}"
    return f"{name:<24} {page_size:>4} {events:>8,} {rates} {ratio:>7.2f} {generation:>12,.0f}"


def main() -> None:
    """Measure each target in a process of its own; only one release fits in one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["builtin", "sglang==0.5.12", "sglang==0.5.23"])
    parser.add_argument("--tapes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", metavar="TARGET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        import torch

        torch.set_num_threads(1)
        target = open_target(parse(options.one))
        for page_size in PAGE_SIZES:
            print(measure(target, options.one, page_size, options.tapes, options.rounds), flush=True)
        return
    columns = f"{'bare ev/s':>10} {'checked':>10} {'ratio':>7} {'generated/s':>12}"
    print(f"{'target':<24} {'page':>4} {'events':>8} {columns}")
    for target in options.targets:
        same = ["--tapes", str(options.tapes), "--rounds", str(options.rounds)]
        subprocess.run([sys.executable, __file__, "--one", target, *same], check=True)


if __name__ == "__main__":
    main()
