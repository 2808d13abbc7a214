"""Tapes of a decode node out of choices: several requests in tiny pools, so that one pool or the other runs short.

The author does not know how the target fares: whether a request got its slots shows only when the tape is played. It
believes that it did; what does not apply then is skipped, and a wrong belief ends with the request's next round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from ....models.config import WRITE_POLICIES, Config
from ....models.disaggregation import CLIP_NEW_TOKENS
from ...core.choices import Choices
from ...core.event import Event
from ...targets.base import Profile
from ..author import Authors, Events, TapeAuthor
from ..engine import events as ee
from ..engine.generate import drawn_results, host_pages
from ..engine.shapes import draw_context, draw_layers
from ..pins import fit_pools, reach
from . import events as de

__all__ = ["AUTHORS", "NodeAuthor", "is_roomy"]


def draw_config(choices: Choices, profile: Profile) -> Config:
    """A cache for a node driven this way."""
    small = tuple(size for size in profile.page_sizes if 1 < size < 16)
    size = choices.pick(small) if small and choices.chance(70) else choices.pick(profile.page_sizes)
    window = choices.pick((1, max(1, size - 1), size, size, size + 1, 2 * size, 2 * size, 8 * size))
    window = profile.pinned("window", window)
    narrow = choices.chance(25)
    roomy = [it for it in profile.page_sizes if it <= 16]
    if choices.chance(5) and roomy:  # room for all that admission looks ahead
        size = max(roomy)
        full_pages = swa_pages = (CLIP_NEW_TOKENS + choices.pick((512, 1024))) // size
    else:
        full_pages = choices.pick({1: (12, 16, 24, 32), 2: (8, 12, 16, 24)}.get(size, (4, 6, 8, 12)))
        tails = choices.pick((1, 2, 3)) * (window // size + 2) if size > 1 else full_pages // 2
        swa_pages = min(full_pages, choices.pick((tails, tails + 1, full_pages)))
        if narrow:  # no room for a whole window
            swa_pages = min(swa_pages, max(2, window // size))
    full_pages, swa_pages = fit_pools(profile, size, window, full_pages, swa_pages)
    config = Config(
        level="engine",
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=full_pages * size,
        swa_size=swa_pages * size,
        layers=draw_layers(choices),
        window=window,
        need_sort=choices.chance(30),
        dtype=choices.pick(profile.dtypes),
        context_len=draw_context(choices, full_pages * size, reach(profile, size, window)),
        features=profile.features,
        reserved_decode=min(choices.pick((1 if narrow else 0, 1, 2, size, 2 * size)), full_pages * size // 6),
        decode_tree=profile.decode_tree and profile.pinned("decode_tree", choices.chance(75 if narrow else 60)),
    )
    return _with_host(choices, config, profile) if profile.host else config


def _with_host(choices: Choices, config: Config, profile: Profile) -> Config:
    """The same node with a tree and a host tier behind it."""
    full, swa = (host_pages(choices, pages, profile) for pages in (config.full_pages, config.swa_pages))
    return replace(
        config,
        decode_tree=True,
        host_full_size=full * config.page_size,
        host_swa_size=swa * config.page_size,
        write_policy=choices.pick(WRITE_POLICIES),
    )


def is_roomy(config: Config) -> bool:
    """Whether a request that may want more than admission looks ahead can be admitted."""
    return config.full_size > CLIP_NEW_TOKENS


def _tail_fits(config: Config) -> bool:
    """Whether no prompt's tail is longer than the SWA pool."""
    return config.page_size > 1 and config.window + config.page_size + config.reserved_decode <= config.swa_size


def _short_resume(choices: Choices, config: Config) -> list[Event]:
    """Two retracted requests, and so little room that the second alone could resume.

    A third one has grown meanwhile. Nothing, where the pool is too small for three or a step takes too long.
    """
    size, pages = config.page_size, config.full_pages
    large = choices.integer(2, 4)
    steps = (pages - large - 1) * size - choices.integer(1, 2)
    if size == 1 or pages < large + 5 or steps + 2 * size > config.most_tokens // 2:
        return []
    prompts = ((1, 2) * size)[:size], (1,) * (large * size), (2,) * size
    wanted = (steps + size, size, size)
    queued: list[Event] = [de.Enqueue(*it) for it in zip(range(3), prompts, wanted, strict=True)]
    placed = [de.Preallocate(), *(de.Transfer(number, de.ALL_PAGES, 1) for number in range(3)), de.Start()]
    retracted = [ee.Decode((0, 1, 2), 1), de.Retract(1), de.Retract(2)]
    grown: list[Event] = []
    for step in range(steps):
        grown += [ee.Decode((0,), 1)] if step % size else [ee.EvictWindow(0), ee.Decode((0,), 1)]
    return [*queued, *placed, *retracted, *grown, de.Resume()]


_WEIGHTS: dict[type[ee.EngineEvent], int] = {
    de.Preallocate: 3, de.Transfer: 3, de.Start: 3, ee.Decode: 14, de.Retract: 9, de.Resume: 6, ee.EvictWindow: 9,
    ee.Finish: 4, ee.Abort: 4, ee.Evict: 5, de.DraftSlots: 8, ee.Results: 4,
}  # fmt: skip
"""How often an event is tried that is not simply the next step of a request; others have their own weight."""


_FAR = (6, 100, CLIP_NEW_TOKENS, CLIP_NEW_TOKENS + 1, 2 * CLIP_NEW_TOKENS)
"""New tokens at most of requests in a roomy node: fewer and more than admission looks ahead."""


class _Belief(Enum):
    """How far the author believes a request has come."""

    QUEUED = "queued"
    SENT = "sent"
    ARRIVED = "arrived"
    STARTED = "started"
    RETRACTED = "retracted"


class NodeAuthor(TapeAuthor):
    """Writes the next event: mostly the next step of some request, sometimes something else.

    Few requests are too long for their share of the pools: one that waits for ever keeps all others waiting. Too long
    is one whose prompt and new tokens do not fit the full pool, or whose tail and new tokens do not fit the SWA pool.
    """

    @classmethod
    def choose(cls, choices: Choices, profiles: Sequence[Profile]) -> Profile:
        """See `TapeAuthor.choose`."""
        return choices.pick(profiles) if len(profiles[0].asks) == 1 else profiles[0]

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """See `TapeAuthor.draw_config`."""
        return draw_config(choices, profile)

    @classmethod
    def lengths(cls, config: Config) -> tuple[int, ...]:
        """See `TapeAuthor.lengths`."""
        return (24, 48) if is_roomy(config) else super().lengths(config)

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        self.window = config.window
        self.full, self.swa = config.full_size, config.swa_size
        self.context = config.context_len
        self.most_tokens = config.most_tokens
        self.longest = min(config.longest_prompt - 1, config.full_size)
        room = config.full_size if _tail_fits(config) else config.swa_size
        self.twins = choices.pick((0, 40, 80)) if config.decode_tree else 0
        share = choices.pick((1, 2, 3, 4)) if not self.twins else 1
        spare = choices.pick((config.reserved_decode, config.reserved_decode, 0))
        self.fitting = max(3, (min(self.longest, room) - spare) // share)
        self.fitting_swa = max(self.size + 1, (config.swa_size - spare) // share)
        self.longest_prompt = max(2, self.fitting * choices.pick((2, 3) if self.twins else (1, 2, 3)) // 4)
        self.prompts: list[tuple[int, ...]] = []
        self.beliefs: dict[int, _Belief] = {}
        self.decodes: dict[int, int] = {}
        self.needs: dict[int, tuple[int, int]] = {}
        self.numbers = range(choices.pick((1, 2, 3, 4, 6)))
        self.most = choices.pick((3, 6, 2 * self.size, 24, 48))
        self.outgrows = 1 if _tail_fits(config) else 30
        self.far = _FAR if is_roomy(config) else ()
        self.leaving = choices.pick((0, 2, 10))
        self.batched = choices.pick((0, 40, 100))
        self.ending = choices.pick((30, 60, 100))
        self.brisk = choices.pick((10, 60))
        self.crowded = choices.pick((0, 15, 40))
        self.planned: list[Callable[[], Event]] = []
        self.eager = choices.pick((10, 50))
        self.others = self.draw_others(config, events)

    def draw_others(self, config: Config, events: Events) -> list[type[ee.EngineEvent]]:
        """Events of this tape that are not simply the next step of a request."""
        plain = [event for event in _WEIGHTS if event is not de.DraftSlots]
        drawn = [it for it in plain if self.choices.chance(75) and (config.decode_tree or it is not ee.Evict)]
        if de.DraftSlots in events and self.choices.chance(50):
            drawn.append(de.DraftSlots)
        if config.host_full_size:
            drawn += [ee.TransferDone, ee.Evict]
        more = [it for it in events if it.weight and it not in _WEIGHTS and it is not ee.TransferDone]
        drawn += [event for event in more if self.choices.chance(75)]
        return drawn or [ee.Decode]

    def opening(self, config: Config) -> list[Event]:
        """See `TapeAuthor.opening`. It is one of decode nodes without other parts."""
        plain = config.features == ("disagg",) and not config.host_full_size
        return _short_resume(self.choices, config) if plain and self.choices.chance(5) else []

    def event(self) -> Event:
        """The next event."""
        if self.planned:
            return self.planned.pop()()
        if self.choices.chance(self.brisk):
            for belief in (_Belief.SENT, _Belief.ARRIVED):
                if belief in self.beliefs.values():
                    return _NEXT[belief](self)
        if self.choices.chance(65):
            return self.step(self.number())
        weights = [_WEIGHTS.get(event, event.weight) for event in self.others]
        event = self.others[self.choices.weighted(weights)]
        return _WRITE[event](self) if event in _WRITE else event.draw(self)

    def step(self, number: int) -> Event:
        """What a request does next."""
        belief = self.beliefs.get(number)
        if belief is None:
            return self.enqueue(number)
        if belief is _Belief.STARTED:
            if self.decodes[number] <= 0 or self.choices.chance(self.leaving):
                if self.choices.chance(self.batched):
                    return self.results()
                del self.beliefs[number]
                return ee.Finish(number)
            return self.crowd() if self.choices.chance(self.crowded) else self.decode()
        if belief is _Belief.QUEUED and self.choices.chance(85) and not self.has_room(number):
            placed = [it for it, belief in self.beliefs.items() if belief is not _Belief.QUEUED]
            return self.step(self.choices.pick(placed)) if placed else self.abort()
        if belief is _Belief.RETRACTED and not self.choices.chance(self.eager):
            return self.busy()
        return _NEXT[belief](self)

    def busy(self) -> Event:
        """Something that fills the pools while retracted requests wait."""
        idle = [number for number in self.numbers if number not in self.beliefs]
        return self.enqueue(self.choices.pick(idle)) if idle else self.decode()

    def believe(self, old: _Belief, new: _Belief) -> None:
        """All requests at one point go on to another."""
        for number, belief in self.beliefs.items():
            if belief is old:
                self.beliefs[number] = new

    def any(self, belief: _Belief) -> int:
        """A request at this point, if there is one."""
        fitting = [number for number, it in self.beliefs.items() if it is belief]
        return self.choices.pick(fitting) if fitting else self.number()

    def number(self) -> int:
        return self.choices.pick(self.numbers)

    def token(self) -> int:
        return self.choices.integer(1, 2)

    def enqueue(self, number: int) -> Event:
        tokens = self.prompt()
        tail = min(len(tokens), self.window + self.size)
        left = min(self.fitting - len(tokens), self.fitting_swa - tail)
        most = self.most if self.choices.chance(self.outgrows) else max(2, min(self.most, left))
        most = most if self.choices.chance(50) else self.choices.integer(1, most)
        most = self.choices.pick(self.far) if self.far else most
        most = self.clipped(tokens, most)
        self.beliefs[number], self.decodes[number] = _Belief.QUEUED, min(most, self.most_tokens) - 1
        self.needs[number] = len(tokens), tail
        return de.Enqueue(number, tokens, most)

    def clipped(self, tokens: tuple[int, ...], most: int) -> int:
        """As many new tokens as the context length leaves."""
        return max(1, min(most, self.most_tokens - len(tokens))) if self.context else most

    def twin(self) -> Event:
        """A request that goes on from the prompt of another, which runs, and may want all that is left."""
        idle = [number for number in self.numbers if number not in self.beliefs]
        if not idle or not self.prompts:
            return self.decode()
        number, tokens = self.choices.pick(idle), self.choices.pick(self.prompts)
        tokens += (self.token(),) * self.choices.integer(1, self.size)
        tokens, most = tokens[: self.longest], self.choices.integer(1, self.choices.pick((self.size, self.longest)))
        most = self.clipped(tokens, most)
        self.beliefs[number], self.decodes[number] = _Belief.QUEUED, most - 1
        self.needs[number] = len(tokens), min(len(tokens), self.window + self.size)
        return de.Enqueue(number, tokens, most)

    def prompt(self) -> tuple[int, ...]:
        """A new prompt; half of them go on from an earlier one, and few are longer than the pool."""
        tokens: tuple[int, ...] = ()
        if self.prompts and self.choices.chance(50):
            tokens = self.choices.pick(self.prompts)
            tokens = tokens[: self.choices.integer(1, len(tokens))]
        for _ in range(self.choices.integer(0, 1 + self.pages // 3)):
            tokens += (self.token(),) * self.size
        tokens += (self.token(),) * self.choices.integer(0, max(1, self.size - 1))
        if self.choices.chance(2):
            tokens = (*tokens, *(self.token(),) * self.longest)[: self.longest + 1]
        else:
            tokens = (tokens or (self.token(),))[: self.longest_prompt]
        tokens = tokens if len(tokens) > 1 else tokens * 2
        self.prompts.append(tokens)
        return tokens

    def preallocate(self) -> Event:
        for number, belief in self.beliefs.items():
            if belief is _Belief.QUEUED:
                if not self.has_room(number):
                    break
                self.beliefs[number] = _Belief.SENT
        return de.Preallocate()

    def has_room(self, number: int) -> bool:
        """Whether a request is likely to get its slots beside those that have theirs."""
        away = (_Belief.QUEUED, _Belief.RETRACTED)
        held = [self.needs[it] for it, belief in self.beliefs.items() if belief not in away]
        full = sum(need for need, _ in held) + self.needs[number][0] + self.decodes[number]
        swa = sum(need for _, need in held) + self.needs[number][1]
        return full < self.full and swa < self.swa

    def transfer(self) -> Event:
        number, pages = self.any(_Belief.SENT), max(de.ALL_PAGES, self.context)
        if self.choices.chance(25):
            pages = self.choices.integer(1, 3)
        elif number in self.beliefs:
            self.beliefs[number] = _Belief.ARRIVED
        return de.Transfer(number, pages, self.token())

    def start(self) -> Event:
        self.believe(_Belief.ARRIVED, _Belief.STARTED)
        if self.choices.chance(self.twins):
            self.planned += [self.preallocate, self.twin]
        self.planned += [self.retract] * self.choices.chance(self.outgrows)
        self.planned += [self.decode] * self.choices.pick((0, 1, self.size, 2 * self.size))
        return de.Start()

    def decode(self) -> Event:
        """A step of the whole batch, or of one request."""
        numbers = tuple(self.numbers) if self.choices.chance(75) else (self.any(_Belief.STARTED),)
        for number in numbers:
            self.decodes[number] = self.decodes.get(number, 0) - 1
        return ee.Decode(numbers, self.token())

    def crowd(self) -> Event:
        """Fill the pools, retract some requests, and let the others use their slots before they resume."""
        self.planned.append(self.resume)
        self.planned += [self.decode] * self.choices.pick((0, self.size, 2 * self.size))
        self.planned += [self.retract] * self.choices.pick((1, 2, 4))
        self.planned += [self.decode] * self.choices.pick((0, self.size, 2 * self.size))
        return self.planned.pop()()

    def retract(self) -> Event:
        number = self.any(_Belief.STARTED)
        if number in self.beliefs:
            self.beliefs[number] = _Belief.RETRACTED
        return de.Retract(number)

    def draft_slots(self) -> Event:
        return de.DraftSlots(tuple(self.numbers), self.choices.integer(1, 2 * self.size))

    def resume(self) -> Event:
        self.believe(_Belief.RETRACTED, _Belief.ARRIVED)
        return de.Resume()

    def any_request(self) -> int:
        """A request that was started, if there is one."""
        return self.any(_Belief.STARTED)

    def batch(self) -> tuple[int, ...]:
        """Requests that may run."""
        return tuple(self.numbers)

    def gone(self) -> int:
        """A request that was started, and leaves."""
        number = self.any_request()
        self.beliefs.pop(number, None)
        return number

    def results(self) -> Event:
        """The results of a batch of all requests that were started."""
        batch = [number for number in self.numbers if self.beliefs.get(number) is _Belief.STARTED]
        finished, aborted = drawn_results(self.choices, batch, self.ending)
        for number in (*finished, *aborted):
            del self.beliefs[number]
        return ee.Results(tuple(batch) or (0,), finished, aborted)

    def abort(self) -> Event:
        number = self.number()
        self.beliefs.pop(number, None)
        return ee.Abort(number)


_WRITE: dict[type[ee.EngineEvent], Callable[[NodeAuthor], Event]] = {
    de.Preallocate: NodeAuthor.preallocate,
    de.Transfer: NodeAuthor.transfer,
    de.Start: NodeAuthor.start,
    ee.Decode: NodeAuthor.decode,
    de.Retract: NodeAuthor.retract,
    de.Resume: NodeAuthor.resume,
    ee.Abort: NodeAuthor.abort,
    de.DraftSlots: NodeAuthor.draft_slots,
}
"""Event -> how the author writes one, if not as the event itself is drawn."""

_NEXT: dict[_Belief, Callable[[NodeAuthor], Event]] = {
    _Belief.QUEUED: NodeAuthor.preallocate,
    _Belief.SENT: NodeAuthor.transfer,
    _Belief.ARRIVED: NodeAuthor.start,
    _Belief.RETRACTED: NodeAuthor.resume,
}
"""How far a request has come -> what takes it on."""


AUTHORS: Authors = {"decode node": lambda before: NodeAuthor}
"""See `staleloc.sim.parts.author`."""
