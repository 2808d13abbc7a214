"""Remapping: what changes the mapping of tokens that stay, or the state of the whole allocator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ....models.world import Grant
from .draws import Draws
from .event import (
    FROZEN,
    OUTSIDE_DRAFT,
    OUTSIDE_GROUP,
    SPAN,
    WHOLE_PAGES,
    AllocatorEvent,
    Rule,
    Step,
    all_mapped,
    clipped_pages,
    span_exists,
    span_words,
    swa_pages_free,
)
from .ledger import Ledger

__all__ = ["Backup", "Clear", "RegisterMapping", "Restore", "SetMapping"]

_PAGES_FREE = Rule("the SWA pool must have the pages", swa_pages_free)


@dataclass(frozen=True)
class SetMapping(AllocatorEvent):
    """Give the unmapped whole pages of a span fresh SWA slots, in place (``set_full_to_swa_mapping``)."""

    kind = "set_mapping"
    weight = 6
    remaps = True
    rules = (
        OUTSIDE_DRAFT,
        SPAN,
        WHOLE_PAGES,
        Rule(
            "load-back and recovery map tokens that have no SWA slot",
            lambda le, e: not any(le.mapped(e.request, e.start, e.stop)),
        ),
        _PAGES_FREE,
        FROZEN,
    )
    request: int
    start: int
    stop: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.subject()
        span = draws.pages(request, False) if request is not None else None
        return cls(request, *span) if request is not None and span else None

    def enter(self, ledger: Ledger) -> None:
        state = ledger.requests[self.request]
        for page in ledger.page_range(self.start, self.stop):
            state.swa[page] = True
            ledger.free_swa -= 1

    clip = clipped_pages

    def perform(self, step: Step) -> None:
        swa = step.target.set_mapping(step.world.locs(self.request, self.start, self.stop))
        step.grants = step.world.remap_grants(self.request, self.start, swa)

    def adopt(self, step: Step) -> None:
        step.world.saw("mapped_in_place")
        step.world.remap(step.grants)

    def follow(self, step: Step) -> None:
        step.grants = _granted(step, self)

    def say(self, ledger: Ledger) -> str:
        return f"{span_words(self.request, self.start, self.stop)}: fresh SWA slots, mapped in place"


def _granted(step: Step, event: SetMapping | RegisterMapping) -> list[Grant]:
    """The slots that the target's table has for the event's span now."""
    locs = step.world.locs(event.request, event.start, event.stop)
    return step.world.remap_grants(event.request, event.start, [step.slot(loc) for loc in locs])


@dataclass(frozen=True)
class RegisterMapping(AllocatorEvent):
    """Replace the mapping by a new tensor in which a span's pages have fresh SWA slots (``register_mapping``).

    An empty span registers an equal copy.
    """

    kind = "register_mapping"
    weight = 4
    remaps = True
    rules = (
        OUTSIDE_GROUP,
        OUTSIDE_DRAFT,
        Rule(
            "the re-packed span must lie inside the request's tokens",
            lambda le, e: e.start == e.stop == 0 or span_exists(le, e),
        ),
        WHOLE_PAGES,
        Rule("only mapped pages are re-packed", lambda le, e: e.start == e.stop or all_mapped(le, e)),
        _PAGES_FREE,
        FROZEN,
    )
    request: int
    start: int
    stop: int

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        request = draws.subject()
        if request is None or draws.choices.chance(10):
            return cls(0, 0, 0)
        span = draws.pages(request, True)
        return cls(request, *span) if span else None

    def clip(self, ledger: Ledger) -> RegisterMapping:
        clipped: RegisterMapping = clipped_pages(self, ledger)
        return RegisterMapping(0, 0, 0) if clipped.start == clipped.stop else clipped

    def perform(self, step: Step) -> None:
        swa = step.target.register_mapping(step.world.locs(self.request, self.start, self.stop))
        step.grants = step.world.remap_grants(self.request, self.start, swa)

    def adopt(self, step: Step) -> None:
        world = step.world
        if step.grants:
            world.saw("mapping_replaced")
        old = [world.mapping.table[grant.loc] for grant in step.grants]
        world.remap(step.grants)
        world.release_swa(old)

    def follow(self, step: Step) -> None:
        step.grants = _granted(step, self)
        step.world.release_swa([step.world.mapping.table[grant.loc] for grant in step.grants])

    def say(self, ledger: Ledger) -> str:
        if self.start == self.stop:
            return "new mapping tensor, an equal copy"
        return f"{span_words(self.request, self.start, self.stop)}: new mapping tensor, fresh SWA slots"


@dataclass(frozen=True)
class Backup(AllocatorEvent):
    """Save the allocator's state before drafting (``backup_state``)."""

    kind = "backup"
    weight = 3
    rules = (
        OUTSIDE_GROUP,
        OUTSIDE_DRAFT,
        Rule("the draft starts between forwards", lambda le, e: le.forward is None),
    )

    def enter(self, ledger: Ledger) -> None:
        ledger.backup()

    def perform(self, step: Step) -> None:
        step.target.backup()

    def adopt(self, step: Step) -> None:
        step.world.backup()

    def say(self, ledger: Ledger) -> str:
        return "the allocator's state is saved"


@dataclass(frozen=True)
class Restore(AllocatorEvent):
    """Go back to the saved state; tokens allocated since are gone (``restore_state``)."""

    kind = "restore"
    weight = 5
    follows = Backup
    rules = (
        Rule("there must be a backup to go back to", lambda le, e: le.saved is not None),
        Rule("the draft ends between forwards", lambda le, e: le.forward is None),
    )

    def enter(self, ledger: Ledger) -> None:
        ledger.restore()

    def perform(self, step: Step) -> None:
        step.target.restore()

    def adopt(self, step: Step) -> None:
        step.world.restore()

    def say(self, ledger: Ledger) -> str:
        return "restore the saved state; later allocations are gone"


@dataclass(frozen=True)
class Clear(AllocatorEvent):
    """Flush the cache: every request is gone (``clear``)."""

    kind = "clear"
    weight = 2
    rules = (
        OUTSIDE_GROUP,
        OUTSIDE_DRAFT,
        Rule(
            "a batch translated once is not flushed under its forward (SGLang PRs 24138, 27091, 27617)",
            lambda le, e: le.forward is None or not le.forward.frozen,
        ),
    )

    def enter(self, ledger: Ledger) -> None:
        ledger.clear()

    def perform(self, step: Step) -> None:
        step.target.clear()

    def adopt(self, step: Step) -> None:
        step.world.clear()

    def say(self, ledger: Ledger) -> str:
        return "the cache is flushed, every request is gone"
