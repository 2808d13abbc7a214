"""How much a decode node preallocates for one request, with SWA slots for its tail only and for all its tokens.

``python -m staleloc.sim.parts.decode_node.table`` prints the tables of ``docs/DISAGG.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....models.disaggregation import Accounts, Job
from ...targets.disagg import Rules

__all__ = ["LAYERS", "PAGE", "PROMPTS", "ROW_BYTES", "WINDOWS", "Cell", "cell", "main", "tables"]

PAGE = 64
WINDOWS = (128, 4096)
PROMPTS = tuple(1024 << doubling for doubling in range(8))

LAYERS = 18
"""Layers of each kind."""

ROW_BYTES = 2048
"""Bytes of a token's keys and values in one layer: 8 heads of 64 in 16 bits, twice."""


class Cell(NamedTuple):
    """Slots preallocated for one prompt: of the full pool, and of the SWA pool with a tail and without."""

    full: int
    tail: int
    whole: int


class _Prompt(NamedTuple):
    prompt: int
    outputs: int = 0
    most: int = 1


def cell(prompt: int, window: int, page_size: int = PAGE) -> Cell:
    """The slots for a prompt, in whole pages."""
    job: Job = _Prompt(prompt)
    with_tail, without = (
        Accounts(page_size, window, reserved=0, uses_tail=uses_tail, tree=False, rules=Rules()).allocated(job, 0)
        for uses_tail in (True, False)
    )
    return Cell(with_tail.full, with_tail.swa, without.swa)


def tables() -> Iterator[str]:
    """The tables' lines, in Markdown."""
    for window in WINDOWS:
        yield f"### Window {window:,}"
        yield ""
        yield "| prompt | full slots | SWA slots, all | SWA slots, tail | memory, all | memory, tail | saved |"
        yield "|---:|---:|---:|---:|---:|---:|---:|"
        for prompt in PROMPTS:
            full, tail, whole = cell(prompt, window)
            before, after = _mib(full + whole), _mib(full + tail)
            yield (
                f"| {prompt // 1024}k | {full:,} | {whole:,} | {tail:,} | {before:,.1f} MiB | {after:,.1f} MiB "
                f"| {100 * (before - after) / before:.1f} % |"
            )
        yield ""


def _mib(slots: int) -> float:
    """Memory of so many slots, each with a row in every layer of its kind."""
    return slots * LAYERS * ROW_BYTES / (1 << 20)


def main() -> None:
    """Print the tables."""
    print("\n".join(tables()))


if __name__ == "__main__":
    main()
