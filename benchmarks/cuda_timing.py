"""What caching a translation saves: once a layer against once a forward, eager and captured, and what a capture
keeps that was not invalidated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.builtin.virtual_graph import VirtualGraph
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

LAYERS = 43
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
SLOTS = 1 << 20

REPLAYS = 20

_ROUNDS = 7


def timing(device: str) -> dict[str, Any]:
    """Everything that is measured, as JSON values."""
    return {
        "layers": LAYERS,
        "slots": SLOTS,
        "savings": savings("cuda", BATCHES, repeats=100)
        if device == "cuda"
        else savings("cpu", BATCHES[:2], repeats=2),
        "replays": REPLAYS,
        "stale": stale_replays(device),
    }


def seconds_of(call: Callable[[], object], repeats: int, device: str) -> float:
    """Median over some rounds of the seconds that one call takes until its work on the device is done."""
    rounds = []
    for _ in range(_ROUNDS):
        _wait(device)
        started = time.perf_counter()
        for _ in range(repeats):
            call()
        _wait(device)
        rounds.append((time.perf_counter() - started) / repeats)
    return sorted(rounds)[_ROUNDS // 2]


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def savings(device: str, batches: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """For each batch size: microseconds of a step's translations, a layer and once, eager and captured."""
    rows = []
    with torch.device(device):
        table = torch.randint(1, SLOTS, (SLOTS + 1,))
        for batch in batches:
            locs = torch.randint(1, SLOTS, (batch,))

            def per_layer(locs: Tensor = locs) -> None:
                for _ in range(LAYERS):
                    table[locs]

            def once(locs: Tensor = locs) -> None:
                table[locs]

            row: dict[str, Any] = {"batch": batch}
            for name, step in (("per_layer", per_layer), ("once", once)):
                step()
                row[f"eager_{name}_us"] = 1e6 * seconds_of(step, repeats, device)
                row[f"captured_{name}_us"] = 1e6 * seconds_of(_captured(step, device), repeats, device)
            for kind in ("eager", "captured"):
                row[f"{kind}_ratio"] = row[f"{kind}_per_layer_us"] / row[f"{kind}_once_us"]
                row[f"{kind}_layer_us"] = row[f"{kind}_per_layer_us"] / LAYERS
            rows.append(row)
    return rows


def _captured(step: Callable[[], None], device: str) -> Callable[[], None]:
    """The replay of a graph of some work, on the current stream."""
    if device == "cpu":
        virtual = VirtualGraph()
        with virtual.capture():
            step()
        return virtual.replay
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def stale_replays(device: str) -> dict[str, int]:
    """How many of so many replays wrote elsewhere than the mapping says, with and without the invalidation between
    warm-up and capture."""
    return {
        "invalidated": _stale(BuiltinEngine(), device),
        "not_invalidated": _stale(load_builtin(MUTANTS["graph-keeps-warm-up"]), device),
    }


def _stale(engine: Any, device: str) -> int:
    layers = ("full", *("swa",) * 4)
    config = Config(
        level="engine", features=("graphs",), policy="memo", full_size=256, swa_size=128, layers=layers, window=64
    )
    stale = 0
    with torch.device(device):
        engine.build(config)
        engine.capture("standard", 4)
        engine.admit(0, [1, 2, 3, 4])
        engine.prefill(0, 4)
        engine.checkpoint(0)
        for step in range(REPLAYS):
            engine.decode([0], [step])
            engine.replay("standard", [(0, 4 + step, 5 + step)], [[step]] * len(layers))
            loc = engine.raw_requests()[0].row[-1]
            swa = engine.raw_mapping()[loc]
            stale += any(slots[0] != swa for slots in engine.raw_run().locs[1:])
    return stale
