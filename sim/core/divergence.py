"""A divergence: the first difference between world and target, with the facts that explain it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CLASSES", "MAX_ROWS", "Divergence", "LocRow"]

MAX_ROWS = 8
"""Locs a divergence shows at most."""

CLASSES: dict[str, str] = {
    "stale-translation": "a translation that was right once was served after the mapping had changed",
    "wrong-mapping": "an entry of the mapping is not what the events made it",
    "wrong-content": "a slot does not hold the KV that was written for it",
    "mask-asymmetry": "a CPU copy and its load disagree about which rows they hold",
    "alias": "two live locs share one slot",
    "double-free": "a slot is in a free list twice",
    "use-after-free": "a slot is in a free list while somebody owns it",
    "leak": "a slot that nobody owns is in no free list",
    "out-of-bounds": "a loc lies outside its pool or on the dummy slot",
    "misaligned": "a loc sits at another place of its page than its token's position says",
    "race": "a slot was used again while a copy of it was in flight",
    "graph-pollution": "a captured graph serves what was computed before its capture",
    "over-admission": "a request was given, or may be given, slots that others need or that are not there",
    "starvation": "a request waits although there is room for it",
    "crash": "the target raised an exception or its process died",
    "hang": "the target did not come back",
}
"""Class -> its meaning."""


@dataclass(frozen=True)
class LocRow:
    """One loc of a divergence.

    Attributes:
        loc: the full loc in question.
        expected: its SWA loc by the mapping; for contents, the slot.
        actual: the target's answer, or the slot it used; None if unknown.
        stale_at: event (index in the tape) that made `actual` wrong, if it ever was right.
        last_correct: last event whose use of this loc's translation was right.
    """

    loc: int
    expected: int
    actual: int | None
    stale_at: int | None = None
    last_correct: int | None = None


@dataclass(frozen=True)
class Divergence:
    """The first difference of a tape.

    Attributes:
        kind: one of `CLASSES`.
        check: the check that reported it.
        event: index of the event after which it was reported.
        what: the fact, in one line.
        sentence: why, in one sentence with events named by index, ``{3}`` for event 3.
        rows: the locs concerned, at most eight.
        during: decisive situations of the event; see `staleloc.models.situations`.
        state: the relevant state, in lines for people. Divergences that differ only in it are the same.
    """

    kind: str
    check: str
    event: int
    what: str
    sentence: str = ""
    rows: tuple[LocRow, ...] = ()
    during: tuple[str, ...] = ()
    state: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Class and check."""
        return self.kind, self.check

    @property
    def stale_at(self) -> int | None:
        """Index of the event that made the first stale loc stale, if one is known."""
        return next((row.stale_at for row in self.rows if row.stale_at is not None), None)
