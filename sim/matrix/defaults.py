"""What ``staleloc matrix`` measures when nobody says otherwise. Light: the command line's help needs it."""

from __future__ import annotations

__all__ = ["BLIND", "MAX_SECONDS", "MAX_TAPES", "SECONDS", "SEEDS"]

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
