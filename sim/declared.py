"""Teach the harness a new method of an allocator or a pool: what a file for ``--events`` is made of.

    from staleloc.sim.declared import Cache, Declared, Model

    class Compact(Declared):
        \"\"\"re-packs the SWA pool\"\"\"

        kind = "compact"

        def call(self, cache: Cache) -> None:
            cache.allocator.compact()

        def apply(self, model: Model) -> None:
            model.repack()

``docs/EVENTS.md`` has the whole story. Such an event is one of the allocator level. Requests and positions name
tokens, never slots, so that a tape runs on any target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

from .core.event import Event, Span

__all__ = ["Books", "Cache", "Declared", "Model"]


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Declared(Event):
    """An event of your own: subclass it, give it a `kind`, and say how to call it and what it means.

    Annotated names are the event's parameters, as in a dataclass: ``int``, ``bool``, or a ``tuple`` of them. They stand
    in the tape. Shrinking makes them smaller and knows what `request`, `start`, `stop` and `count` are. The first line
    of the class's docstring is what reports say of the event.

    Attributes:
        kind: its name in tapes: small letters, digits, ``_`` and ``-``.
        level: the level of the tapes that have it.
        weight: how often it is tried, beside 10 for an allocation and 24 for a write of a layer.
    """

    level: ClassVar[str] = "allocator"
    weight: ClassVar[int] = 4

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        said = cls.__doc__ or ""
        dataclass(frozen=True)(cls)
        cls.__doc__ = said  # and not a signature where there was none

    @classmethod
    def draw(cls, choices: Any, books: Books) -> Declared | None:
        """An event with parameters for this moment, or None if none comes to mind.

        Ask only `choices` for random decisions: ``choices.integer(low, high)`` (both included),
        ``choices.pick(options)``, ``choices.chance(percent)``. One tape number then is one tape.
        """
        return cls()

    def legal(self, books: Books) -> bool:
        """Whether a scheduler would do this now.

        What the words of `apply` ask for is looked after already: their spans exist, no free group and no draft is
        open, and no batch that was translated up front loses its mapping.
        """
        return True

    def call(self, cache: Cache) -> None:
        """Do it to the real cache."""
        raise NotImplementedError

    def apply(self, model: Model) -> None:
        """Say what it means, in the words of `Model`. This is asked without any cache, too.

        At the engine level there is nothing that must be said: the state after the event is looked at.
        """


class Books:
    """What a scheduler knows at this point of a tape. To look at only."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    @property
    def config(self) -> Any:
        """The cache's shape: `page_size`, `full_size`, `swa_size`, `window`, `layers`, `pool`, `policy`, ..."""
        return self._ledger.config

    @property
    def requests(self) -> tuple[int, ...]:
        """The requests that have tokens."""
        return tuple(sorted(request for request, state in self._ledger.requests.items() if state.length))

    def length(self, request: int) -> int:
        """Tokens of a request."""
        length: int = self._ledger.length(request)
        return length

    def mapped(self, request: int) -> tuple[bool, ...]:
        """For each page of a request, whether it has SWA slots."""
        state = self._ledger.requests.get(request)
        return tuple(state.swa) if state else ()

    @property
    def free_full_pages(self) -> int:
        """Full pages that are free."""
        pages: int = self._ledger.free_full
        return pages

    @property
    def free_swa_pages(self) -> int:
        """SWA pages that are free."""
        pages: int = self._ledger.free_swa
        return pages

    @property
    def pending(self) -> int:
        """Transfers between device and host that are queued; there are some at the engine level only."""
        return 0

    @property
    def forward(self) -> tuple[Span, ...]:
        """The batch of the running forward as ``(request, start, stop)``; empty if none is running."""
        return self._ledger.forward.spans if self._ledger.forward is not None else ()


class Model(Books):
    """Words for what an event means, beside what there is to look at.

    First say what is given up, then at most one of the other three. Locs are the target's business: where it put what,
    the model reads from its table, and then every slot must be in the pool and nobody else's, every token that had an
    SWA slot must have one, the free lists must add up, and every row must be where it belongs.

    Attributes:
        said: what was said: words with their values.
    """

    def __init__(self, ledger: Any) -> None:
        super().__init__(ledger)
        self.said: list[tuple[str, dict[str, int]]] = []

    def free(self, request: int, start: int) -> None:
        """The request's tokens from `start` on are gone, in both pools."""
        self._gives_up("free", request=request, start=start)

    def free_swa(self, request: int, start: int, stop: int) -> None:
        """The tokens of a span have no SWA slots any more."""
        self._gives_up("free_swa", request=request, start=start, stop=stop)

    def repack(self) -> None:
        """Any live token may have another SWA slot than before, which holds what the old one held."""
        self._hands_out("repack")

    def set_mapping(self, request: int, start: int, stop: int) -> None:
        """The tokens of a span, which had no SWA slots, have fresh ones; nothing was written there."""
        self._hands_out("set_mapping", request=request, start=start, stop=stop)

    def register_mapping(self, request: int, start: int, stop: int) -> None:
        """The tokens of a span have fresh SWA slots, the old ones are free; KV stayed where it was."""
        self._hands_out("register_mapping", request=request, start=start, stop=stop)

    def _gives_up(self, word: str, **values: int) -> None:
        if self._handed_out():
            raise ValueError("declare freed slots before allocated ones")
        self._say(word, values)

    def _hands_out(self, word: str, **values: int) -> None:
        if self._handed_out():
            raise ValueError("an event hands out slots in one way only: repack, set_mapping or register_mapping")
        self._say(word, values)

    def _handed_out(self) -> bool:
        return bool(self.said) and self.said[-1][0] not in ("free", "free_swa")

    def _say(self, word: str, values: dict[str, int]) -> None:
        for name, value in values.items():
            if type(value) is not int:
                raise TypeError(f"{word}: {name} is {value!r}, not an integer")
        self.said.append((word, values))


class Cache:
    """The real cache that an event is called on.

    Attributes:
        allocator: the target's allocator, such as SGLang's ``SWATokenToKVPoolAllocator``.
        pool: the KV pool behind it.
        tree: at the engine level the prefix tree, such as SGLang's ``UnifiedRadixCache``; else None.
    """

    def __init__(self, allocator: Any, pool: Any, requests: Mapping[int, list[int]], tree: Any = None) -> None:
        self.allocator = allocator
        self.pool = pool
        self.tree = tree
        self._requests = requests

    def locs(self, request: int, start: int = 0, stop: int | None = None) -> list[int]:
        """Full locs of a span of a request."""
        return list(self._requests.get(request, ()))[start:stop]

    def tensor(self, values: list[int]) -> Any:
        """An int64 tensor in new memory."""
        import torch

        return torch.tensor(values, dtype=torch.int64)
