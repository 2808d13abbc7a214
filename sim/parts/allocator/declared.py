"""A declared event of the allocator level: its contracts, from the call to what the world takes over.

Which slots the call handed out is read from the target's table; they are judged like those of any other allocation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from ....models.repack import repack
from ....models.world import Grant
from ...declared import Books, Cache, Model
from ..hooks import FromFile
from .draws import Draws
from .event import OUTSIDE_DRAFT, OUTSIDE_GROUP, AllocatorEvent, Rule, Step, clipped_span
from .ledger import Ledger
from .release import Free, FreeSwa
from .remapping import RegisterMapping, SetMapping

__all__ = ["DeclaredCall", "Repack"]


@dataclass(frozen=True)
class Repack(AllocatorEvent):
    """The SWA slots of live tokens may be others now; their KV went with them. A word of `Model`, in no tape."""

    kind = "repack"
    rules = (
        Rule(
            "the batch was translated once when its forward began; no mapping may change before it ends "
            "(SGLang PRs 24138, 27091, 27617)",
            lambda ledger, event: ledger.forward is None or not ledger.forward.frozen,
        ),
    )

    def follow(self, step: Step) -> None:
        """All tokens of each page of which one has another slot now. Their pages are free for the others."""
        world, size = step.world, step.world.config.page_size
        table = world.mapping.table
        live = list(_live(step))
        pages = {table[grant.loc] // size for grant in live if grant.swa != table[grant.loc]}
        step.grants = [grant for grant in live if table[grant.loc] // size in pages]
        step.moved = [table[grant.loc] for grant in step.grants]
        world.release_swa(step.moved)


def _live(step: Step) -> Iterator[Grant]:
    """Every token that has an SWA slot, with the one that the target's table names."""
    for request, locs in step.world.requests.items():
        for position, loc in enumerate(locs):
            if step.world.mapping.table[loc]:
                yield Grant(request, position, loc, step.slot(loc))


_WORDS: dict[str, type[AllocatorEvent]] = {
    word.kind: word for word in (Free, FreeSwa, SetMapping, RegisterMapping, Repack)
}
"""Word of `Model` -> the event that means the same."""


@dataclass(frozen=True)
class DeclaredCall(FromFile, AllocatorEvent):
    """A call of a method of the allocator or the pool."""

    level = "allocator"
    remaps = True
    reads_books = True
    rules = (OUTSIDE_GROUP, OUTSIDE_DRAFT)

    @classmethod
    def propose(cls, draws: Draws) -> Self | None:
        return cls.drawn(draws.choices, Books(draws.ledger))

    def meaning(self, ledger: Ledger) -> list[AllocatorEvent]:
        """What it means, as events."""
        return [_WORDS[word](**values) for word, values in self.told(Model(ledger))]

    def violation(self, ledger: Ledger) -> str | None:
        """Its own rules, and those of what it means, one part after the other."""
        reason = super().violation(ledger) or self.refusal(Books(ledger))
        if reason is not None:
            return reason
        parts = self.meaning(ledger)
        after = copy.deepcopy(ledger) if len(parts) > 1 else ledger
        for part in parts:
            reason = part.violation(after)
            if reason is not None:
                return reason
            if len(parts) > 1:
                after.apply(part)
        return None

    def enter(self, ledger: Ledger) -> None:
        for part in self.meaning(ledger):
            ledger.apply(part)

    def clip(self, ledger: Ledger) -> Any:
        spans = all(type(getattr(self, name, None)) is int for name in ("request", "start", "stop"))
        return clipped_span(self, ledger) if spans else self

    def perform(self, step: Step) -> None:
        """Run it on the target, enter what it gave up, and note what it handed out."""
        assert step.ledger is not None
        parts = self.meaning(step.ledger)

        def act(allocator: Any, pool: Any, tree: Any) -> None:
            self.act(Cache(allocator, pool, step.world.requests))

        step.world.saw(f"event {self.kind}")
        step.target.declared(self.kind, act)
        step.mapping = step.target.raw_mapping()
        for part in parts:
            part.follow(step)

    def adopt(self, step: Step) -> None:
        """Take over what was handed out."""
        if step.moved is None:
            step.world.remap(step.grants)
            return
        layers = [layer for layer, swa in enumerate(step.world.contents.swa) if swa]
        held = {layer: step.contents(layer).keys for layer in layers}
        repack(step.world, step.grants, step.moved, held, step.mapping)
        step.touched = layers
