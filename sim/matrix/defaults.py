"""What ``staleloc matrix`` measures when nobody says otherwise. Light: the command line's help needs it."""

from __future__ import annotations

__all__ = ["BLIND", "MAX_SECONDS", "MAX_TAPES", "RELEASES", "SECONDS", "SEEDS"]

RELEASES = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
"""SGLang releases from the oldest that can be driven to the newest one that was out when this was written."""

SECONDS = 60.0
"""Budget of a hunt."""

MAX_SECONDS = 1e9
"""Largest budget of a hunt, about thirty years."""

MAX_TAPES = 10**9
"""The same in tapes."""

SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the hunts on each release."""

BLIND = ("all", "quiet", "none")
"""Where releases are fuzzed: everywhere, only where no tape diverges, nowhere."""
