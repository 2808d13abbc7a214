"""Checked events a second beside the same calls on the bare target, as a ratio.

    python benchmarks/throughput.py [--level engine] [--targets builtin sglang==0.5.23] [--tapes 300] [--rounds 5]

Tapes that run to their end are generated once and played once with all checks, while the target's calls are
recorded. Then both are timed in turn in one process: the checked play (model, target, every check)
and the bare calls with the same arguments. At the engine level the calls are those of whole requests. Generating
tapes is timed apart. Times are of the processor, so that other processes count little. Absolute numbers are of this
machine and moment; the ratio is what to quote.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace
from typing import Any

from staleloc.models.config import LEVELS
from staleloc.sim.core.choices import seeded
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.targets.base import Scope, Target
from staleloc.sim.targets.registry import open_target, parse

PAGE_SIZES = (1, 4)

LOOKS = ("raw_", "cache_hits", "in_flight", "pending", "rules", "adapter")
"""How names of methods begin that change nothing."""


class Recorder:
    """A target that notes every call that acts; raw looks pass through unseen."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.calls: list[tuple[str, tuple[object, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.target, name)
        if not callable(method) or name.startswith(LOOKS):
            return method

        def call(*args: object) -> object:
            self.calls.append((name, deepcopy(args)))  # lists of the world grow
            return method(*args)

        return call


def measure(target: Target, name: str, level: str, page_size: int, tapes: int, rounds: int) -> str:
    """One line of the table."""
    profile = next(p for p in Scope(level).of(target.profiles) if p.pool == "hybrid")
    profile = replace(profile, page_sizes=(page_size,))
    started = time.process_time()
    generated = [generate_tape(seeded(0, index), [profile]) for index in range(tapes)]
    generation = sum(len(tape.events) for tape in generated) / (time.process_time() - started)
    recorder = Recorder(target)
    played = []
    for tape in generated:
        before = len(recorder.calls)
        if play_tape(tape, recorder, profile).divergence is None:
            played.append(tape)
        else:
            del recorder.calls[before:]  # a diverging tape ends early and may leave the target broken
    events = sum(len(tape.events) for tape in played)
    checked, bare = [], []
    for _ in range(rounds):
        started = time.process_time()
        for tape in played:
            play_tape(tape, target, profile)
        checked.append(events / (time.process_time() - started))
        started = time.process_time()
        for called, args in recorder.calls:
            getattr(target, called)(*args)
        bare.append(events / (time.process_time() - started))
    ratio = statistics.median(c / b for c, b in zip(checked, bare, strict=True))
    rates = f"{statistics.median(bare):>10,.0f} {statistics.median(checked):>10,.0f}"
    return f"{name:<24} {page_size:>4} {events:>8,} {rates} {ratio:>7.2f} {generation:>12,.0f}"


def main() -> None:
    """Measure each target in a process of its own; only one release fits in one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=LEVELS, default=LEVELS[0])
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
            print(measure(target, options.one, options.level, page_size, options.tapes, options.rounds), flush=True)
        return
    columns = f"{'bare ev/s':>10} {'checked':>10} {'ratio':>7} {'generated/s':>12}"
    print(f"{'target':<24} {'page':>4} {'events':>8} {columns}")
    for target in options.targets:
        same = ["--level", options.level, "--tapes", str(options.tapes), "--rounds", str(options.rounds)]
        subprocess.run([sys.executable, __file__, "--one", target, *same], check=True)


if __name__ == "__main__":
    main()
