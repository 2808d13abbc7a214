"""One tape played twice, on the virtual graph on the CPU and on real graphs on the GPU, and what differs.

A worker plays every n-th tape and writes a line of JSON before and after each, so that one that dies can be
told by the tape it died at.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from cuda_timing import stale_replays

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import play_tape
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.targets.base import Profile
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

CLEAN = "clean"

NAMES = [CLEAN, *(name for name, it in MUTANTS.items() if it.target == "builtin" and "graphs" in it.features)]
"""What is played: the target as it is, and with each mutant of captured graphs, speculative decode's included."""

_NOTED = ("capture", "replay", "draft", "replay_draft")
"""Calls after which the target is asked where it wrote."""


class Recording:
    """A target that keeps every loc that its forwards wrote, layer by layer, and what it raised."""

    def __init__(self, target: Any, layers: int) -> None:
        self._target = target
        self._last = layers - 1
        self.locs: list[tuple[tuple[int, ...], ...]] = []
        self.trace = ""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if not callable(method) or name.startswith("raw_"):
            return method

        def call(*args: Any) -> Any:
            try:
                answer = method(*args)
            except Exception:
                self.trace = traceback.format_exc()
                raise
            if name in _NOTED or (name == "write" and args[1] == self._last):
                self.locs.append(self._target.raw_run().locs)
            return answer

        return call


@dataclass
class Played:
    """What playing a tape came to.

    Attributes:
        verdict: the divergence's fields, or None.
        events: events played.
        locs: for every forward and layer the locs that were written.
        hits: answers that came out of a cache.
        contents: all rows of all layers but the dummy slot's, if nothing diverged.
        trace: the last exception out of the target.
    """

    verdict: dict[str, Any] | None
    events: int
    locs: list[tuple[tuple[int, ...], ...]]
    hits: int
    contents: list[Any] = field(default_factory=list)
    trace: str = ""


@cache
def target_of(name: str) -> tuple[Any, tuple[Profile, ...]]:
    """A target and the profiles its tapes are drawn from."""
    if name == CLEAN:
        target = BuiltinEngine()
        return target, tuple(it for it in target.profiles if "graphs" in it.features)
    mutated: Any = load_builtin(MUTANTS[name])
    return mutated, MUTANTS[name].profiles(mutated.profiles)


def assigned(index: int) -> str:
    """What tape number `index` is played on: every second one on the clean target."""
    return CLEAN if index % 2 == 0 else NAMES[1 + index // 2 % (len(NAMES) - 1)]


def tape_of(index: int, seed: int) -> Tape:
    """Tape number `index`."""
    return generate_tape(seeded(seed, index), target_of(assigned(index))[1])


def play(tape: Tape, name: str, device: str) -> Played:
    """Play a tape on a device."""
    target, profiles = target_of(name)
    profile = next(it for it in profiles if it.features == tape.config.features)
    recording = Recording(target, len(tape.config.layers))
    with torch.device(device):
        verdict = play_tape(tape, recording, profile)
        contents = (
            [] if verdict.divergence else [rows_of(target, tape, layer) for layer in range(len(tape.config.layers))]
        )
    found = None if verdict.divergence is None else asdict(replace(verdict.divergence, state=()))
    return Played(found, verdict.events, recording.locs, target.cache_hits(), contents, recording.trace)


def rows_of(target: Any, tape: Tape, layer: int) -> tuple[list[int], list[int]]:
    """A layer's rows, keys and values, behind the dummy page."""
    rows = target.raw_contents(layer)
    return rows.keys[tape.config.page_size :], (rows.values or [])[tape.config.page_size :]


def difference(one: Played, other: Played) -> str | None:
    """The first thing in which two plays differ, or None."""
    for name in ("verdict", "events", "hits", "locs", "contents"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            if isinstance(mine, list):
                pairs = enumerate(zip(mine, theirs, strict=False))
                at = next((index for index, (a, b) in pairs if a != b), min(len(mine), len(theirs)))
                mine, theirs = mine[at : at + 1], theirs[at : at + 1]
                name = f"{name}[{at}]"
            return f"{name}: {str(mine)[:600]} on the CPU, {str(theirs)[:600]} on the device\n{other.trace[-3000:]}"
    return None


def compare(index: int, seed: int, device: str) -> dict[str, Any]:
    """Play tape number `index` on both; what to say of it."""
    name, tape = assigned(index), tape_of(index, seed)
    started = time.perf_counter()
    one = play(tape, name, "cpu")
    between = time.perf_counter()
    other = play(tape, name, device)
    return {
        "tape": index,
        "target": name,
        "policy": tape.config.policy,
        "events": one.events,
        "locs": sum(len(slots) for forward in one.locs for slots in forward),
        "forwards": len(one.locs),
        "class": one.verdict and one.verdict["kind"],
        "difference": difference(one, other),
        "seconds": (round(between - started, 4), round(time.perf_counter() - between, 4)),
    }


def work(indices: Iterator[int] | range, seed: int, device: str, file: Path, over: Callable[[], bool]) -> None:
    """Compare tapes until there are no more or time is over, and write what was seen to `file`."""
    torch.set_num_threads(1)
    stale_replays(device)  # loads what a device loads late, which must not pass for an event that hangs
    with file.open("a", encoding="utf-8") as out:
        for count, index in enumerate(indices):
            if over():
                return
            print(json.dumps({"begin": index}), file=out, flush=True)
            print(json.dumps(compare(index, seed, device)), file=out, flush=True)
            if device == "cuda" and count % 20 == 19:
                torch.cuda.empty_cache()  # the memory of graphs that are gone
