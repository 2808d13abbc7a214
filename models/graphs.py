"""Captured graphs: their captures and runs, where a replay must write, and the origin of a polluted translation.

A graph holds operations on fixed addresses. A capture runs none of them. A replay runs them, and nothing else of the
captured code. A graph may read its static inputs, which are written before every replay; the mapping and the KV
buffers, which change in place; and its own results. It may not hold or wait for a value of the host, nor create a
tensor whose shape depends on values. It also may not read the results of an earlier run: if a translation was a cache
hit during the capture, the graph does not contain it, and every replay uses the translation of another batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["DUMMY", "Draft", "Graphs", "Run", "misplaced", "padded"]

DUMMY = 0
"""The slot for padding rows: rows of a graph beyond its batch."""


class Run(NamedTuple):
    """A forward through a graph, or the warm-up of one.

    Attributes:
        event: the event that ran it.
        runner: the runner's name; ``"draft"`` for the draft's graph of the speculative one.
        captured: the event that captured the graph.
        locs: full locs of its tokens, in order.
        swa: their SWA locs when it ran.
        warm_up: a run over the dummy slot, before the capture.
    """

    event: int
    runner: str
    captured: int
    locs: tuple[int, ...]
    swa: tuple[int, ...]
    warm_up: bool = False


class Draft(NamedTuple):
    """Tokens proposed for a request.

    Attributes:
        event: the event that drafted them.
        tokens: the proposal.
        after: tokens of the request that had KV then.
        locs: where the draft computed them.
        swa: their SWA locs then.
    """

    event: int
    tokens: tuple[int, ...]
    after: int
    locs: tuple[int, ...]
    swa: tuple[int, ...]


class Graphs:
    """Captures, runs and drafts.

    Attributes:
        runs: every run so far, warm-ups included.
        drafts: request -> its unverified proposal.
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.drafts: dict[int, Draft] = {}
        self._captured: dict[tuple[str, int], int] = {}
        self._translated: dict[int, int] = {}

    def capture(self, event: int, runner: str, size: int) -> Run:
        """A runner captured a forward of so many tokens; its runs before and at the capture, as one."""
        self._captured[runner, size] = event
        self.runs.append(Run(event, runner, event, (DUMMY,) * size, (DUMMY,) * size, warm_up=True))
        return self.runs[-1]

    def has(self, runner: str, size: int) -> bool:
        """Whether a runner captured a forward of so many tokens."""
        return (runner, size) in self._captured

    def fitting(self, runner: str, count: int) -> tuple[int, int] | None:
        """Size and capture of the smallest graph of a runner that holds so many tokens; None if there is none."""
        sizes = [(size, event) for (name, size), event in self._captured.items() if name == runner and size >= count]
        return min(sizes, default=None)

    def longest(self, runner: str, captured: int) -> int:
        """Tokens of the largest batch that a graph has run; 0 if none."""
        same = (it for it in self.runs if (it.runner, it.captured, it.warm_up) == (runner, captured, False))
        return max((len(run.locs) for run in same), default=0)

    def ran(self, run: Run) -> bool:
        """A batch ran; whether one of its locs had another SWA loc when a graph ran it last."""
        self.runs.append(run)
        now = dict(zip(run.locs, run.swa, strict=True))
        moved = any(self._translated.get(loc, swa) != swa for loc, swa in now.items())
        self._translated.update(now)
        return moved

    def served(self, run: Run, written: Sequence[int]) -> Run | None:
        """The run whose translation a later one served, as its SWA writes show it.

        A run from before the capture comes first: its translation is in the graph. None if no run matches.
        """
        others = [other for other in self.runs if other.event < run.event]
        early = [other for other in others if other.event <= run.captured]
        late = [other for other in others if other.event > run.captured]
        for other in (*reversed(early), *reversed(late)):
            if list(written) == padded(other.swa, len(written))[: len(written)]:
                return other
        return None

    def left_by(self, run: Run, row: int, slot: int) -> Run | None:
        """The last run before another that had this SWA loc in this row; None if there is none."""
        earlier = (it for it in reversed(self.runs) if it.event < run.event)
        return next((it for it in earlier if it.swa[row : row + 1] == (slot,)), None)


def padded(slots: Sequence[int], size: int) -> list[int]:
    """Slots of a batch in a graph of `size` tokens."""
    return [*slots, *[DUMMY] * (size - len(slots))]


def misplaced(written: Sequence[int], slots: Sequence[int]) -> int | None:
    """The first row that a run wrote to a wrong slot, None if there is none.

    Each token's row goes to its slot, and a row beyond the batch to the dummy slot.

    Args:
        written: slots that the run wrote, row by row.
        slots: slots of the batch's tokens.
    """
    wanted = padded(slots, len(written))
    if len(written) < len(slots):
        return len(written)
    return next((row for row, (slot, want) in enumerate(zip(written, wanted, strict=True)) if slot != want), None)
