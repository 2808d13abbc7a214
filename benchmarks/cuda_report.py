"""What a conformance run came to, as JSON values and as text."""

from __future__ import annotations

import argparse
import platform
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import torch

KEPT = 20
"""Differences that are kept in full."""


def summary(
    options: argparse.Namespace,
    results: list[dict[str, Any]],
    deaths: list[dict[str, Any]],
    timing: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """All that is known, as JSON values."""
    different = [result for result in results if result["difference"]]
    names = list(dict.fromkeys(result["target"] for result in results))
    return {
        "machine": _machine(options.device),
        "command": f"--tapes {options.tapes} --seed {options.seed} --device {options.device}",
        "conforms": not different and not deaths and len(results) == options.tapes and "error" not in timing,
        "asked": options.tapes,
        "tapes": len(results),
        "events": sum(result["events"] for result in results),
        "forwards": sum(result["forwards"] for result in results),
        "locs": sum(result["locs"] for result in results),
        "different": len(different),
        "targets": {name: _of_target([it for it in results if it["target"] == name]) for name in names},
        "play_seconds": {
            side: round(sum(result["seconds"][index] for result in results), 1)
            for index, side in enumerate(("cpu", options.device + " (second)"))
        },
        "differences": different[:KEPT],
        "deaths": deaths,
        "timing": timing,
        "seconds": round(seconds, 1),
    }


def _of_target(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "tapes": len(results),
        "diverged": sum(result["class"] is not None for result in results),
        "classes": dict(sorted(Counter(result["class"] for result in results if result["class"]).items())),
        "different": sum(result["difference"] is not None for result in results),
    }


def _machine(device: str) -> dict[str, Any]:
    known: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": device,
        "card": None,
        "cuda": torch.version.cuda,
        "driver": None,
    }
    if device == "cuda":
        known["card"] = torch.cuda.get_device_name()
        known["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        known["driver"] = _said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
    known["commit"] = _said(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"])
    return known


def _said(command: list[str]) -> str | None:
    """What a command prints, None if it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def markdown(found: dict[str, Any]) -> str:
    """The same for people."""
    machine, timing = found["machine"], found["timing"]
    real = machine["card"] is not None
    parts = [
        f"# {machine['card'] or 'both sides on the CPU'}",
        f"torch {machine['torch']}, CUDA {machine['cuda']}, driver {machine['driver']}, Python {machine['python']}, "
        f"commit {machine['commit']}; `{found['command']}`, {found['seconds']} s",
        f"## The same tapes on virtual graphs and on {'real ones' if real else 'virtual ones again'}",
        f"{found['tapes']} of {found['asked']} tapes, {found['events']} events, {found['forwards']} forwards, "
        f"{found['locs']} locs: **{found['different']} differences**, {len(found['deaths'])} workers died.",
        _table(
            ("target", "tapes", "diverged", "classes", "differences"),
            [
                (name, it["tapes"], it["diverged"], ", ".join(f"{k} {n}" for k, n in it["classes"].items()),
                 it["different"])
                for name, it in found["targets"].items()
            ],
        ),
    ]  # fmt: skip
    for case in found["differences"][:3]:
        parts.append(f"tape {case['tape']} ({case['target']}):\n```\n{case['difference']}\n```")
    for death in found["deaths"][:3]:
        parts.append(f"a worker died at tape {death['tape']} (code {death['code']}):\n```\n{death['errors']}\n```")
    parts += ["## What caching saves"]
    if "error" in timing:
        return "\n\n".join([*parts, f"```\n{timing['error']}\n```"]) + "\n"
    stale, graph = timing["stale"], "captured" if real else "virtual graph"
    parts += [
        f"{timing['layers']} layers, a table of {timing['slots']} slots. Microseconds a step.",
        _table(
            ("batch", "eager, each layer", "eager, once", "ratio", f"{graph}, each layer", f"{graph}, once", "ratio"),
            [
                (
                    row["batch"],
                    f"{row['eager_per_layer_us']:.1f}", f"{row['eager_once_us']:.1f}", f"{row['eager_ratio']:.1f}",
                    f"{row['captured_per_layer_us']:.1f}", f"{row['captured_once_us']:.1f}",
                    f"{row['captured_ratio']:.1f}",
                )
                for row in timing["savings"]
            ],
        ),
        f"Stale replays of {timing['replays']} behind a warm-up: {stale['invalidated']} with the invalidation before "
        f"the capture, {stale['not_invalidated']} without.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
