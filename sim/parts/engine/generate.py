"""Engine-level tapes out of choices: several requests over a tiny alphabet, in tiny pools.

Prompts are built of pages of one repeated token, and new prompts go on from old ones, so prefixes
really collide. Whether a step succeeds is the target's affair; the author assumes that it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ....models.config import WRITE_POLICIES, Config
from ...core.choices import Choices
from ...core.event import Event
from ...targets.base import HOST, Profile
from ..author import Authors, Events, TapeAuthor
from ..pins import fit_pools, reach
from . import events as ee
from .shapes import draw_context, draw_layers, draw_page_size, draw_window

__all__ = ["AUTHORS", "Author", "drawn_results", "host_pages"]


def _draw_config(choices: Choices, profile: Profile) -> Config:
    size = draw_page_size(choices, profile)
    full_pages = choices.pick((4, 5, 6, 8, 12) if size > 1 else (6, 8, 12, 16, 24))
    window = profile.pinned("window", draw_window(choices, size))
    swa_pages = max(4, full_pages - choices.pick((0, full_pages // 4, full_pages // 2)))
    if choices.chance(25):  # about two windows
        swa_pages = min(full_pages, max(3, 2 * -(-window // size) + choices.integer(-1, 1)))
    full_pages, swa_pages = fit_pools(profile, size, window, full_pages, swa_pages)
    host = profile.host and profile.pinned(HOST, choices.chance(80))
    host_full, host_swa = (host_pages(choices, pages, profile) if host else 0 for pages in (full_pages, swa_pages))
    return Config(
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
        host_full_size=host_full * size,
        host_swa_size=host_swa * size,
        write_policy=choices.pick(WRITE_POLICIES) if host else WRITE_POLICIES[0],
        features=profile.features,
    )


def host_pages(choices: Choices, device_pages: int, profile: Profile) -> int:
    """Few enough that nodes on the host must give way to newer ones, or enough for all."""
    small: tuple[int, ...] = (device_pages // 2, device_pages) if profile.small_host else (device_pages + 1,)
    return choices.pick((*small, 2 * device_pages))


def drawn_results(choices: Choices, batch: Sequence[int], ending: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which requests of a batch are finished and which are aborted, if `ending` percent leave."""
    finished: list[int] = []
    aborted: list[int] = []
    for number in batch:
        if choices.chance(ending):
            (finished if choices.chance(80) else aborted).append(number)
    return tuple(finished), tuple(aborted)


@dataclass
class _Draft:
    """What the author believes of a request."""

    tokens: tuple[int, ...]
    computed: int = 0
    admitted: bool = False
    unsaved: bool = False


class Author(TapeAuthor):
    """Writes the next event: mostly the next step of some request, sometimes something else.

    Each tape has habits of its own: how soon a request leaves (`leaving`, in percent of its steps once its
    prompt is in), how often it is given up between two chunks, its load-back perhaps still queued (`hasty`),
    how often a prompt is a known one again (`returning`), how often traffic pauses (`lulls`), and whether
    prompts come near the context length (`limit`). Requests may leave one at a time or with the results of a whole
    batch (`batched`), of which few or many are done (`ending`).
    """

    alone = False

    @classmethod
    def choose(cls, choices: Choices, profiles: Sequence[Profile]) -> Profile:
        """See `TapeAuthor.choose`. A tree without a host tier is the older one of a release that has two."""
        return profiles[choices.weighted([3 if it.host else 1 for it in profiles])]

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """See `TapeAuthor.draw_config`."""
        return _draw_config(choices, profile)

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        large = choices.chance(40)  # prompts of which one or two fill the device
        self.growth = self.pages if large else 3
        longest = config.longest_prompt if config.context_len else config.most_tokens // 2
        self.most = max(2, min(longest, config.full_size if large else config.full_size * 2 // 3))
        self.drafts: dict[int, _Draft] = {}
        self.prompts: list[tuple[int, ...]] = []
        self.planned: deque[Event] = deque()
        self.requests = choices.pick((1, 2, 3, 4, 6))
        self.alphabet = choices.pick((2, 2, 5))
        self.limit = config.longest_prompt if config.context_len and choices.chance(70) else 0
        self.chunk = choices.pick((1, 2, 3)) * self.size
        self.leaving = choices.pick((3, 15, 40))
        self.hasty = choices.pick((0, 0, 5, 25))
        self.returning = choices.pick((0, 30, 70))
        self.lulls = choices.pick((0, 2, 5)) if config.host_full_size else 0
        self.batched = choices.pick((0, 40, 100))
        self.ending = choices.pick((30, 60, 100))
        self.others = self.draw_others(config, events)
        self.weights = [event.weight for event in self.others]

    def draw_others(self, config: Config, events: Events) -> list[type[ee.EngineEvent]]:
        """Events of this tape that are not simply the next step of a request; parts write their steps as `Decode`.

        Whether one is left out is drawn even if the target lacks it, so that a seed gives similar tapes everywhere.
        """
        known = dict.fromkeys((*ee.ENGINE_EVENTS, *events))
        drawn = [event for event in known if event.weight and self.choices.chance(75)]
        possible = {ee.Decode, *(it for it in events if config.host_full_size or it.part != ee.HOST)}
        return [event for event in drawn if event in possible] or [ee.Decode]

    def event(self) -> Event:
        """The next event."""
        if not self.planned and self.lulls and self.choices.chance(self.lulls):
            self.plan_lull()
        if self.planned:
            return self.planned.popleft()
        if self.choices.chance(60):
            return self.step(self.choices.integer(0, self.requests - 1))
        return self.others[self.choices.weighted(self.weights)].draw(self)

    def step(self, number: int) -> Event:
        """What a request does next."""
        draft = self.drafts.get(number)
        if draft is None:
            draft = self.drafts[number] = _Draft(self.prompt())
            return ee.Arrive(number, draft.tokens)
        if not draft.admitted:
            draft.admitted = True
            return ee.Admit(number)
        if draft.unsaved:
            if draft.computed >= len(draft.tokens) and self.choices.chance(self.batched):
                return self.results()
            draft.unsaved = False
            return ee.Checkpoint(number)
        if draft.computed < len(draft.tokens):
            if self.choices.chance(self.hasty):
                del self.drafts[number]
                return ee.Abort(number)
            count = self.chunk if self.choices.chance(70) else len(draft.tokens)
            draft.computed += count
            draft.unsaved = True
            return ee.Prefill(number, count)
        if self.choices.chance(self.leaving):
            if self.choices.chance(self.batched):
                return self.results()
            del self.drafts[number]
            return ee.Finish(number) if self.choices.chance(80) else ee.Abort(number)
        return ee.Decode((number,), self.token())

    def token(self) -> int:
        return self.choices.integer(1, self.alphabet)

    def prompt(self) -> tuple[int, ...]:
        """A new prompt; most go on from a part of an earlier one."""
        if self.prompts and self.choices.chance(self.returning):
            return self.known_prompt()
        tokens: tuple[int, ...] = ()
        if self.prompts and self.choices.chance(85):
            tokens = self.choices.pick(self.prompts)
            if self.choices.chance(40):
                tokens = tokens[: self.choices.integer(1, len(tokens))]
        for _ in range(self.choices.integer(0, self.growth)):
            tokens += (self.token(),) * self.size
        tokens += (self.token(),) * self.choices.integer(0, max(1, self.size - 1))
        if self.limit and self.choices.chance(40):
            tokens += (self.token(),) * (self.limit - len(tokens) - self.choices.integer(0, 2))
        tokens = (tokens or (self.token(),))[: self.limit or self.most]
        tokens = tokens if len(tokens) > 1 else tokens * 2
        self.prompts.append(tokens)
        return tokens

    def known_prompt(self) -> tuple[int, ...]:
        """An earlier prompt again, or whole pages of its start and one more token."""
        known = self.choices.pick(self.prompts)
        pages = len(known) // self.size
        if pages and self.choices.chance(50):
            return (*known[: self.choices.integer(1, pages) * self.size], self.token())
        return known

    def plan_lull(self) -> None:
        """All requests leave, all that is cached goes to the host, and known prompts come back at once."""
        for number in sorted(self.drafts):
            draft = self.drafts.pop(number)
            self.planned += [ee.Checkpoint(number)] * draft.unsaved
            self.planned.append(ee.Finish(number) if draft.computed >= len(draft.tokens) else ee.Abort(number))
        self.planned += [ee.Evict(self.pages * self.size, self.pages * self.size), ee.TransferDone(2 * self.pages)]
        for number in range(min(self.requests, 3)):
            draft = self.drafts[number] = _Draft(self.known_prompt() if self.prompts else self.prompt(), admitted=True)
            self.planned += [ee.Arrive(number, draft.tokens), ee.Admit(number)]

    def any_request(self) -> int:
        return self.choices.pick(sorted(self.drafts)) if self.drafts else 0

    def results(self) -> Event:
        """The results of a batch of all requests whose prompts are in."""
        batch = [number for number, it in sorted(self.drafts.items()) if it.computed >= len(it.tokens)]
        if self.choices.chance(30):
            batch.reverse()
        finished, aborted = drawn_results(self.choices, batch, self.ending)
        for number in batch:
            self.drafts[number].unsaved = False
        for number in (*finished, *aborted):
            del self.drafts[number]
        return ee.Results(tuple(batch) or (0,), finished, aborted)

    def gone(self) -> int:
        """A request that leaves. Its tokens, those decoded included, may come back as the start of a prompt."""
        number = self.any_request()
        draft = self.drafts.get(number)
        if draft is not None and draft.computed >= len(draft.tokens) and not draft.unsaved:
            del self.drafts[number]
        return number

    def batch(self) -> tuple[int, ...]:
        """Requests that may run."""
        return tuple(sorted(self.drafts))


AUTHORS: Authors = {ee.REQUESTS: lambda before: Author}
"""See `staleloc.sim.parts.author`."""
