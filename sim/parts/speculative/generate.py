"""Tapes of speculative decode out of choices: steps of drafts and verifications, and other events between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from ....models.config import WRITE_POLICIES, Config
from ....models.speculative import alloc_len
from ...core.choices import Choices
from ...core.event import Event
from ...targets.base import HOST, Profile
from ..author import Authors, Events
from ..engine import events as ee
from ..engine.generate import Author, host_pages
from ..engine.shapes import draw_context, draw_draft, draw_layers, draw_page_size, draw_window
from ..pins import fit_pools, reach
from . import events as se

__all__ = ["AUTHORS", "SpecAuthor", "Speculating", "step_pages"]


def _draw_config(choices: Choices, profile: Profile) -> Config:
    size = draw_page_size(choices, profile)
    draft = draw_draft(choices, profile, size)
    shape = Config(
        level="engine",
        pool=profile.pool,
        policy=choices.pick(profile.policies),
        page_size=size,
        full_size=size,
        swa_size=size,
        layers=draw_layers(choices),
        window=profile.pinned("window", draw_window(choices, size)),
        need_sort=choices.chance(30),
        dtype=choices.pick(profile.dtypes),
        features=profile.features,
        **draft,
    )
    full, swa = _draw_pages(choices, shape)
    step = alloc_len(shape) * (2 if shape.spec_ahead else 1)
    full, swa = fit_pools(profile, size, shape.window, full, swa, step)
    context = draw_context(choices, full * size - step, reach(profile, size, shape.window))
    shape = replace(shape, full_size=full * size, swa_size=swa * size, context_len=context)
    if not profile.host or not profile.pinned(HOST, choices.chance(40)):
        return shape
    host_full, host_swa = (host_pages(choices, pages, profile) * size for pages in (full, swa))
    return replace(shape, host_full_size=host_full, host_swa_size=host_swa, write_policy=choices.pick(WRITE_POLICIES))


def _draw_pages(choices: Choices, shape: Config) -> tuple[int, int]:
    """Pages of both pools: for one to three requests in the middle of a step, and a little more."""
    step = step_pages(shape)
    requests = choices.pick((1, 2, 3) if shape.page_size < 16 else (1, 2))
    more = choices.pick((2, 4, 8) if shape.page_size > 1 else (8, 16, 24))
    full = step * requests + more
    return full, max(min(full, step + 3), full - choices.pick((0, more // 2, more)))


def step_pages(config: Config) -> int:
    """Pages that a request in the middle of a step has beyond its computed tokens, at most."""
    return config.pages(alloc_len(config) * (2 if config.spec_ahead else 1)) + 1


class Speculating:
    """Writes steps of speculative decode, with the habits of a tape.

    A step may go on soon or late (`pace`), may be committed only after the next one was prepared (`lag`), and accepts
    little or much (`luck`). In some tapes all requests go on `together` and accept the same.
    """

    choices: Choices
    token: Callable[[], int]

    def draw_steps(self, config: Config) -> None:
        """Draw the habits."""
        self.nodes = config.spec_draft_tokens
        self.v2 = config.spec_ahead
        self.pace = self.choices.pick((30, 60, 90))
        self.lag = self.choices.pick((0, 50, 100)) if self.v2 else 0
        self.luck = self.choices.pick((20, 50, 80))
        self.together = self.choices.chance(25)
        self.under_way: deque[Event] = deque()
        self.uncommitted: tuple[int, ...] = ()

    def begin(self, requests: tuple[int, ...]) -> None:
        """A step of these requests; the commit of the last one may be part of it."""
        tokens = tuple(self.token() for _ in range(self.nodes))
        parents = tuple(self.choices.integer(0, node) for node in range(self.nodes - 1))
        accepted = (self.node(),) if self.together else tuple(self.node() for _ in requests)
        steps: list[Event] = [se.DraftTree(requests, tokens, parents), se.TargetVerify(requests, accepted)]
        if self.v2:
            steps.insert(0, se.PrepareDecode(requests))
            if self.uncommitted:
                steps.insert(self.choices.integer(1, 3), se.Commit(self.uncommitted))
            self.uncommitted = requests
            if not self.choices.chance(self.lag):
                steps.append(se.Commit(requests))
                self.uncommitted = ()
        self.under_way.extend(steps)

    def node(self) -> int:
        """A node at which an accepted path ends; node 0 often, and the last one."""
        return self.choices.integer(0, self.nodes - 1) if self.choices.chance(self.luck) else 0


class SpecAuthor(Speculating, Author):
    """Writes what any author does, and a step of speculative decode for each decode step.

    Other requests' events come between the events of a step, as the tape's habits have it: how soon a step goes on
    (`pace`), how often a step is committed after the next one was prepared only (`lag`), and how much is accepted
    (`luck`). In some tapes all requests go on `together` and accept the same, so that one inserts what another has.
    """

    alone = True

    @classmethod
    def choose(cls, choices: Choices, profiles: Sequence[Profile]) -> Profile:
        """See `TapeAuthor.choose`."""
        return profiles[0]

    @classmethod
    def draw_config(cls, choices: Choices, profile: Profile) -> Config:
        """See `TapeAuthor.draw_config`."""
        return _draw_config(choices, profile)

    def __init__(self, choices: Choices, config: Config, events: Events) -> None:
        super().__init__(choices, config, events)
        if self.size >= 16:
            self.most = config.longest_prompt * 3 // 4
        self.requests = min(self.requests, max(1, config.full_pages // (step_pages(config) + 2)) + 1)
        self.draw_steps(config)
        self.pairs = choices.pick((0, 0, 2))
        self.window = config.window

    def event(self) -> Event:
        """The next event."""
        if not self.planned and self.pairs and self.choices.chance(self.pairs):
            self.plan_pair()
        if self.under_way and not self.planned and self.choices.chance(self.pace):
            return self.under_way.popleft()
        event = super().event()
        if isinstance(event, ee.Finish | ee.Abort | ee.Results) and self.under_way:
            return self.leave(event)
        if isinstance(event, ee.Decode) and not any(map(self.runs, event.requests)):
            event = self.step(self.choices.integer(0, self.requests - 1))
        if not isinstance(event, ee.Decode):
            return event
        if not self.under_way:
            batch = sorted(self.drafts) if self.together else event.requests
            self.begin(tuple(filter(self.runs, batch)))
        return self.under_way.popleft()

    def plan_pair(self) -> None:
        """All requests leave; then two with one prompt decode the same tokens, one goes a step further and finishes,
        and the other finishes into what it left in the tree."""
        self.planned.extend(self.under_way)
        self.under_way.clear()
        self.uncommitted = ()
        for number in sorted(self.drafts):
            self.planned += [ee.Checkpoint(number)] * self.drafts.pop(number).unsaved
            self.planned.append(ee.Abort(number))
        prompt = tuple(self.token() for _ in range(self.choices.integer(2, 3)))
        for number in (0, 1):
            self.planned += [ee.Arrive(number, prompt), ee.Admit(number), ee.Prefill(number, 3), ee.Checkpoint(number)]
        for _ in range(self.choices.integer(2, 4 + self.window // 2)):
            self.plan_step((0, 1))
        for _ in range(2):
            self.plan_step((0,))
        self.planned += [ee.Finish(0), ee.Finish(1)]

    def plan_step(self, requests: tuple[int, ...]) -> None:
        """A whole step with nothing in between, in which all accept the same."""
        prepared = [se.PrepareDecode(requests)] if self.v2 else []
        draft = se.DraftTree(requests, tuple(self.token() for _ in range(self.nodes)), ())
        verified = se.TargetVerify(requests, (self.choices.integer(0, self.nodes - 1),))
        self.planned += [*prepared, draft, verified, *([se.Commit(requests)] if self.v2 else [])]

    def leave(self, event: Event) -> Event:
        """A request leaves once the step that is under way has run, perhaps before its commit."""
        rest = [*self.under_way, event]
        if isinstance(rest[-2], se.Commit) and self.choices.chance(50):
            rest[-2:] = reversed(rest[-2:])
        self.under_way.clear()
        self.planned.extend(rest)
        return self.planned.popleft()

    def runs(self, number: int) -> bool:
        """Whether the author believes that a request decodes."""
        draft = self.drafts.get(number)
        return draft is not None and draft.computed >= len(draft.tokens) and not draft.unsaved


AUTHORS: Authors = {"speculative": lambda before: SpecAuthor if before is Author else before}
"""See `staleloc.sim.parts.author`."""
