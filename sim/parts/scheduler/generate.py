"""Tapes of a scheduler out of choices: pools of little more than two windows, prompts in chunks, known prompts again.

The author does not know how the target fares. An event that does not apply is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....models.config import FULL, SWA, WRITE_POLICIES, Config
from ...core.choices import Choices
from ...core.event import Event
from ...core.tape import Tape
from ...targets.base import HOST, Profile
from ..author import Authors, Events, TapeAuthor
from ..engine import events as ee
from ..engine.generate import host_pages
from ..pins import draw_pinned, fit_pools
from . import events as se

__all__ = ["AUTHORS", "SchedulerAuthor", "draw_config"]

_WEIGHTS: dict[str, int] = {
    se.Submit.kind: 5, se.PrefillRound.kind: 10, se.DecodeRound.kind: 10, ee.Finish.kind: 2, ee.Abort.kind: 1,
    ee.TransferDone.kind: 3,
}  # fmt: skip
"""How often an event is drawn."""

_LONGEST = 160
"""Tokens of a prompt at most, unless a pinned window is longer."""


def draw_config(choices: Choices, profile: Profile) -> Config:
    """A cache whose SWA pool has room for two windows and little more, or for many."""
    small = tuple(size for size in profile.page_sizes if size < 16)
    size = choices.pick(small) if small and choices.chance(80) else choices.pick(profile.page_sizes)
    window = choices.pick((1, 2, max(1, size - 1), size, size + 1, 2 * size, 2 * size + 1, 4 * size, 4 * size + 1))
    window = profile.pinned("window", window)
    windows = 2 * -(-max(1, window - 1) // size)
    swa_pages = windows + choices.pick((1, 1, 2, 3, 5, windows, 3 * windows))
    full_pages = choices.pick((swa_pages, swa_pages + 2, 2 * swa_pages, 4 * swa_pages))
    full_pages = max(swa_pages, min(full_pages, 48))
    if "chunk" in profile.pins:  # a server's pools hold more than one chunk
        swa_pages = max(swa_pages, profile.pins["chunk"] // size + windows)
    full_pages, swa_pages = fit_pools(profile, size, window, full_pages, swa_pages)
    chunk = size * choices.pick((0, 0, 1, 2, 4, 8, max(1, swa_pages // 2), swa_pages))
    tree = profile.pinned("prefix_cache", choices.chance(70) or profile.pinned(HOST, False))
    host = tree and profile.host and profile.pinned(HOST, choices.chance(40))
    host_full, host_swa = (host_pages(choices, pages, profile) if host else 0 for pages in (full_pages, swa_pages))
    return Config(
        level="engine",
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=choices.pick(((FULL, SWA), (SWA, FULL))),
        window=window,
        need_sort=choices.chance(30),
        dtype=choices.pick(profile.dtypes),
        host_full_size=host_full * size,
        host_swa_size=host_swa * size,
        write_policy=choices.pick(WRITE_POLICIES) if host else WRITE_POLICIES[0],
        features=profile.features,
        chunk=chunk,
        max_prefill=choices.pick((size, 4 * size, full_pages * size)),
        prefix_cache=tree,
        new_token_ratio=choices.pick((0, 10, 70, 100)),
    )


class SchedulerAuthor(TapeAuthor):
    """Writes the next event.

    Each tape has habits: how many requests there are at a time, how many tokens they want, and how often rounds follow
    a request at once (`eager`), a prompt is a known one (`returning`), or many decode rounds come in a row (`busy`).
    """

    @classmethod
    def choose(cls, choices: Choices, profiles: Sequence[Profile]) -> Profile:
        """See `TapeAuthor.choose`."""
        return choices.pick(profiles)

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """See `TapeAuthor.draw_config`."""
        return draw_config(choices, profile)

    @classmethod
    def tape(cls, choices: Choices, profile: Profile, events: Events) -> Tape:
        """See `TapeAuthor.tape`."""
        config = draw_pinned(profile, lambda: cls.draw_config(choices, profile))
        author = cls(choices, config, events)
        return Tape(config, tuple(author.event() for _ in range(choices.pick((16, 32, 64, 128)))))

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        longest = max(_LONGEST, config.window + 2 * self.size)
        self.longest = max(2, min(longest, config.full_size * choices.pick((1, 2, 4, 4)) // 4))
        self.growth = choices.pick((1, 3, 8, self.longest // self.size + 1))
        self.alphabet = choices.pick((2, 2, 5))
        self.numbers = range(choices.pick((1, 1, 2, 3, 5)))
        self.most = choices.pick((1, 4, self.size + 1, 4 * self.size, 100))
        self.returning = choices.pick((0, 30, 70))
        self.eager = choices.pick((0, 50, 90))
        self.prompts: list[tuple[int, ...]] = []
        self.alive: list[int] = []
        self.busy = choices.pick((0, 5, 20))
        self.rounds = self.steps = 0
        kinds = [kind for kind in _WEIGHTS if choices.chance(85) or kind in (se.Submit.kind, se.PrefillRound.kind)]
        self.kinds = [kind for kind in kinds if config.host_full_size or kind != ee.TransferDone.kind]
        more = [event for event in events if event.weight and event.kind not in _WEIGHTS]
        self.more = {event.kind: event for event in more if choices.chance(85)}

    def event(self) -> Event:
        """The next event."""
        if not self.alive:
            return self.submit()
        if self.rounds:
            self.rounds -= 1
            return self.choices.pick((se.PrefillRound(), se.PrefillRound(), self.decode_round()))
        if self.steps:
            self.steps -= 1
            return self.decode_round()
        if self.choices.chance(self.busy):
            self.steps = self.choices.pick((4, 12, 32))
        kinds = [*self.kinds, *self.more]
        weights = [*(_WEIGHTS[kind] for kind in self.kinds), *(event.weight for event in self.more.values())]
        kind = kinds[self.choices.weighted(weights)]
        return self.more[kind].draw(self) if kind in self.more else _WRITE[kind](self)

    def submit(self) -> Event:
        idle = [number for number in self.numbers if number not in self.alive]
        if not idle:
            return se.PrefillRound()
        number = self.choices.pick(idle)
        self.alive.append(number)
        if self.choices.chance(self.eager):
            self.rounds = self.choices.pick((2, 4, 8))
        most = self.most if self.choices.chance(50) else self.choices.integer(1, self.most)
        return se.Submit(number, self.prompt(), most)

    def prompt(self) -> tuple[int, ...]:
        """A new prompt, which may go on from an earlier one, or an earlier one again."""
        tokens: tuple[int, ...] = ()
        if self.prompts and self.choices.chance(max(20, self.returning)):
            tokens = self.choices.pick(self.prompts)
            if self.choices.chance(50):
                tokens = tokens[: self.choices.integer(1, len(tokens))]
        for _ in range(self.choices.integer(0, self.growth)):
            tokens += (self.token(),) * self.size
        tokens += (self.token(),) * self.choices.integer(0, max(1, self.size - 1))
        tokens = (tokens or (self.token(),))[: self.longest]
        tokens = tokens if len(tokens) > 1 else tokens * 2
        self.prompts.append(tokens)
        return tokens

    def token(self) -> int:
        return self.choices.integer(1, self.alphabet)

    def prefill_round(self) -> Event:
        return se.PrefillRound()

    def decode_round(self) -> Event:
        return se.DecodeRound(self.token())

    def any_request(self) -> int:
        return self.choices.pick(self.alive)

    def batch(self) -> tuple[int, ...]:
        return tuple(self.alive)

    def finish(self) -> Event:
        return ee.Finish(self.gone())

    def abort(self) -> Event:
        return ee.Abort(self.gone())

    def gone(self) -> int:
        """A request that leaves. Those that are done leave by themselves, so a number may be one that is free."""
        number = self.any_request()
        self.alive.remove(number)
        return number

    def transfer_done(self) -> Event:
        return ee.TransferDone(self.choices.integer(1, 4))


_WRITE: dict[str, Callable[[SchedulerAuthor], Event]] = {kind: getattr(SchedulerAuthor, kind) for kind in _WEIGHTS}
"""Event kind -> how the author writes one."""


AUTHORS: Authors = {"scheduler": lambda before: SchedulerAuthor}
"""See `staleloc.sim.parts.author`."""
