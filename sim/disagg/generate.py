"""Tapes of a decode node out of choices: several requests in tiny pools, so that one pool or the other runs short.

The author does not know how the target fares: whether a request got its slots shows only when the tape is played, and
what does not apply then is skipped. It writes what a scheduler does over and over, and each tape has habits of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.choices import Choices
from staleloc.sim.disagg import events as de
from staleloc.sim.engine import events as ee
from staleloc.sim.engine.play import MAX_TOKENS
from staleloc.sim.events import Event
from staleloc.sim.tape import Tape
from staleloc.sim.targets.base import Profile

__all__ = ["generate_disagg"]

_WEIGHTS: dict[str, int] = {
    de.Enqueue.kind: 12, de.Preallocate.kind: 10, de.Transfer.kind: 16, de.Start.kind: 10, ee.Decode.kind: 26,
    de.Retract.kind: 6, de.Resume.kind: 6, ee.EvictWindow.kind: 6, ee.Finish.kind: 4, ee.Abort.kind: 3,
    ee.Evict.kind: 3,
}  # fmt: skip
"""How often an event is tried."""

_RARE = (de.Retract.kind, ee.EvictWindow.kind, ee.Finish.kind, ee.Abort.kind, ee.Evict.kind)
"""Events that some tapes do without."""


def generate_disagg(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape for a decode node driven in one of these ways. It depends on nothing but the choices."""
    config = _draw_config(choices, choices.pick(profiles))
    length = choices.pick((48, 96, 160, 240))
    author = _Author(choices, config)
    return Tape(config, tuple(author.event() for _ in range(length)))


def _draw_config(choices: Choices, profile: Profile) -> Config:
    paged = tuple(size for size in profile.page_sizes if size > 1)
    size = choices.pick(paged) if paged and choices.chance(85) else choices.pick(profile.page_sizes)
    full_pages = choices.pick((4, 5, 6, 8, 12) if size > 1 else (6, 8, 12, 16, 24))
    swa_pages = choices.pick((full_pages, full_pages, max(2, full_pages // 2), max(2, full_pages // 3)))
    windows = (1, max(1, size - 1), size, size + 1, 2 * size, 3 * size, 8 * size)
    return Config(
        level="engine",
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=choices.pick(((FULL, SWA), (FULL, SWA, SWA), (SWA, FULL))),
        window=choices.pick(windows),
        need_sort=choices.chance(30),
        dtype=choices.pick(profile.dtypes),
        features=profile.features,
        reserved_decode=choices.pick((0, 0, 1, 2, size)),
        decode_tree=profile.decode_tree and choices.chance(50),
    )


class _Author:
    """Writes the next event."""

    def __init__(self, choices: Choices, config: Config) -> None:
        self.choices = choices
        self.size = config.page_size
        self.pages = config.full_pages
        self.longest = min(MAX_TOKENS - 1, config.full_size)
        self.prompts: list[tuple[int, ...]] = []
        self.numbers = range(choices.pick((1, 2, 3, 5, 7)))
        self.most = choices.pick((1, 3, 6, 2 * self.size, 24))
        kinds = [kind for kind in _WEIGHTS if kind not in _RARE or choices.chance(75)]
        self.kinds = [kind for kind in kinds if config.decode_tree or kind != ee.Evict.kind]
        self.weights = [_WEIGHTS[kind] for kind in self.kinds]

    def event(self) -> Event:
        """The next event."""
        return _WRITE[self.kinds[self.choices.weighted(self.weights)]](self)

    def number(self) -> int:
        return self.choices.pick(self.numbers)

    def token(self) -> int:
        return self.choices.integer(1, 2)

    def enqueue(self) -> Event:
        return de.Enqueue(self.number(), self.prompt(), self.choices.integer(1, self.most))

    def prompt(self) -> tuple[int, ...]:
        """A new prompt; half of them go on from an earlier one, and few are longer than the pool."""
        tokens: tuple[int, ...] = ()
        if self.prompts and self.choices.chance(50):
            tokens = self.choices.pick(self.prompts)
            tokens = tokens[: self.choices.integer(1, len(tokens))]
        for _ in range(self.choices.integer(0, 1 + self.pages // 3)):
            tokens += (self.token(),) * self.size
        tokens += (self.token(),) * self.choices.integer(0, max(1, self.size - 1))
        if self.choices.chance(3):
            tokens += (self.token(),) * self.longest
        tokens = (tokens or (self.token(),))[: min(MAX_TOKENS, self.longest + 1)]
        tokens = tokens if len(tokens) > 1 else tokens * 2
        self.prompts.append(tokens)
        return tokens

    def preallocate(self) -> Event:
        return de.Preallocate()

    def transfer(self) -> Event:
        pages = MAX_TOKENS if self.choices.chance(70) else self.choices.integer(1, 3)
        return de.Transfer(self.number(), pages, self.token())

    def start(self) -> Event:
        return de.Start()

    def decode(self) -> Event:
        """A step of the whole batch, or of one request."""
        if self.choices.chance(75):
            return ee.Decode(tuple(self.numbers), self.token())
        return ee.Decode((self.number(),), self.token())

    def retract(self) -> Event:
        return de.Retract(self.number())

    def resume(self) -> Event:
        return de.Resume()

    def evict_window(self) -> Event:
        return ee.EvictWindow(self.number())

    def finish(self) -> Event:
        return ee.Finish(self.number())

    def abort(self) -> Event:
        return ee.Abort(self.number())

    def evict(self) -> Event:
        full = self.choices.pick((0, 1, 2, 4, self.pages)) * self.size
        return ee.Evict(full, self.choices.pick((0 if full else 1, 1, 2, 4)) * self.size)


_WRITE: dict[str, Callable[[_Author], Event]] = {kind: getattr(_Author, kind) for kind in _WEIGHTS}
"""Event kind -> how the author writes one."""
