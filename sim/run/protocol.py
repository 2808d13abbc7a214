"""The protocol between this process and its workers: the worker's streams, and divergences and profiles as JSON."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any, TextIO

from ..core.divergence import Divergence, LocRow
from ..targets.base import Profile

__all__ = [
    "divergence_from_json", "divergence_to_json", "end_with_parent", "profile_from_json", "profile_to_json",
    "worker_streams",
]  # fmt: skip

_INTERVAL = 0.25
"""Seconds between two checks of the parent."""


def worker_streams(parent: int) -> tuple[TextIO, TextIO]:
    """Set this process up as a worker and return the streams of its requests and its answers.

    Standard input and output are reserved for the protocol, so that the engine can neither read requests nor write into
    the answers: it reads nothing, and its output goes to standard error, that of C code too. torch gets one thread.

    Args:
        parent: process id of the process that sends the requests. The worker ends with it.
    """
    end_with_parent(parent)
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    import torch

    torch.set_num_threads(1)
    return requests, answers


def end_with_parent(parent: int) -> None:
    """End this process within a second after its parent ends, even during a call of the engine that never returns.

    Call this before anything that takes long.

    Args:
        parent: process id of the parent, from the parent itself: the parent may have ended already.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)


def divergence_to_json(divergence: Divergence) -> dict[str, Any]:
    """Return a divergence as JSON values."""
    return asdict(divergence)


def divergence_from_json(values: dict[str, Any]) -> Divergence:
    """Return the divergence of these JSON values."""
    rows = tuple(LocRow(**row) for row in values["rows"])
    return Divergence(**{**values, "rows": rows, "during": tuple(values["during"]), "state": tuple(values["state"])})


def profile_to_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values."""
    excluded = {" ".join(parts): why for parts, why in profile.excluded.items()}
    return {**asdict(profile), "events": sorted(profile.events), "excluded": excluded}


def profile_from_json(values: dict[str, Any]) -> Profile:
    """Return the profile of these JSON values."""
    lists = {
        name: tuple(values[name])
        for name in (
            *("policies", "page_sizes", "dtypes", "features"),
            *("spec_versions", "spec_chains", "spec_treeless"),
        )
    }
    excluded = {tuple(parts.split()): why for parts, why in values["excluded"].items()}
    return Profile(**{**values, **lists, "events": frozenset(values["events"]), "excluded": excluded})
