"""A divergence: the first difference between world and target, with the facts that explain it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CLASSES", "MAX_ROWS", "Divergence", "LocRow"]

MAX_ROWS = 8
"""Locs a divergence shows at most."""

CLASSES: dict[str, str] = {
    "stale-translation": "a cached translation was used after the mapping had changed",
    "wrong-mapping": "a mapping entry differs from the expected one",
    "wrong-content": "a slot does not hold the KV that was written for it",
    "mask-asymmetry": "a CPU copy and its load disagree about which rows they hold",
    "alias": "two live locs share one slot",
    "double-free": "a slot is in a free list twice",
    "use-after-free": "a slot is in a free list while a request or the tree owns it",
    "leak": "a slot without an owner is in no free list",
    "out-of-bounds": "a loc lies outside its pool or on the dummy slot",
    "misaligned": "the place of a loc in its page does not fit its token's position",
    "race": "a slot was used again while a copy of it was in flight",
    "graph-pollution": "a captured graph uses a translation from before its capture",
    "over-admission": "a request was admitted, or may be admitted, with slots that do not exist or that others need",
    "starvation": "a request waits although enough slots are free",
    "lost-hit": "a cached prefix was not found again although nothing had evicted it; only a check of hits reports it",
    "crash": "the target raised an exception or its process died",
    "hang": "the target did not return",
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
        calls: the call chain in the target's own code, from the driver's call to the exception or to the change that
            made the state wrong, as ``file:line function``; empty if it is not known. Like `state`, it tells no two
            divergences apart.
        consequences: what other checks find after the same event, each with the check's name; likewise.
    """

    kind: str
    check: str
    event: int
    what: str
    sentence: str = ""
    rows: tuple[LocRow, ...] = ()
    during: tuple[str, ...] = ()
    state: tuple[str, ...] = field(default=(), compare=False)
    calls: tuple[str, ...] = field(default=(), compare=False)
    consequences: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> tuple[str, str]:
        """Class and check."""
        return self.kind, self.check

    @property
    def stale_at(self) -> int | None:
        """Index of the event that made the first stale loc stale, if one is known."""
        return next((row.stale_at for row in self.rows if row.stale_at is not None), None)
