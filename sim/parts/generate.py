"""A tape out of choices, at either level and with any parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from ...models.config import Config
from ..core.choices import Choices
from ..core.event import Event
from ..core.tape import Tape
from ..targets.base import Profile
from .allocator.generate import generate
from .decode_node import events as de
from .decode_node.generate import NodeAuthor, draw_config, generate_disagg, is_roomy
from .engine import events as ee
from .engine.declared import with_declared
from .engine.generate import generate_engine
from .engine.shapes import draw_draft
from .graphs.generate import Capturing, GraphAuthor, SpecGraphAuthor
from .scheduler.generate import generate_scheduler
from .speculative.generate import Speculating, generate_spec, step_pages

__all__ = ["generate_tape"]


def generate_tape(choices: Choices, profiles: Sequence[Profile], checks: tuple[str, ...] = ()) -> Tape:
    """A tape for a target with these profiles, which are all of one level, that asks for some `Config.checks`."""
    if profiles[0].level != "engine":
        return generate(choices, profiles)
    tape = with_declared(choices, _of_requests(choices, profiles))
    return replace(tape, config=replace(tape.config, checks=checks)) if checks else tape


def _of_requests(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    if any({"disagg", "spec", "scheduler"} & set(profile.features) for profile in profiles):
        profiles = [choices.pick(profiles)]
    if "disagg" in profiles[0].asks and len(profiles[0].asks) > 1:
        return _generate_node(choices, profiles[0])
    if "disagg" in profiles[0].features:
        return generate_disagg(choices, profiles)
    if "scheduler" in profiles[0].features:
        return generate_scheduler(choices, profiles)
    if "spec" in profiles[0].features:
        return generate_spec(choices, profiles[0], SpecGraphAuthor if "graphs" in profiles[0].features else None)
    return generate_engine(choices, profiles, {("graphs",): GraphAuthor})


def _generate_node(choices: Choices, profile: Profile) -> Tape:
    """A tape for a decode node with more features than the plain one. It depends on nothing but the choices."""
    config = draw_config(choices, profile)
    speculates = "spec" in config.features
    if speculates:
        config = _with_draft(choices, config, profile)
    length = choices.pick((24, 48) if is_roomy(config) else (48, 96, 160, 240))
    drafts = de.DraftSlots.kind in profile.events
    author = _SpecNodeAuthor(choices, config, profile) if speculates else NodeAuthor(choices, config, drafts)
    writer = Capturing(choices, config, author) if "graphs" in config.features else author
    return Tape(config, tuple(writer.event() for _ in range(length)))


def _with_draft(choices: Choices, node: Config, profile: Profile) -> Config:
    """The same node with a draft, and room for one to three steps more."""
    size = node.page_size
    draft = draw_draft(choices, profile, size)
    keeps = node.decode_tree and draft["spec_version"] not in profile.spec_treeless
    config = replace(node, decode_tree=keeps, **draft)
    more = step_pages(config) * choices.pick((1, 1, 2, 3)) * size
    return replace(config, full_size=node.full_size + more, swa_size=node.swa_size + more)


class _SpecNodeAuthor(Speculating, NodeAuthor):
    """Writes what any author of a decode node does, and a step of speculative decode for each decode step."""

    def __init__(self, choices: Choices, config: Config, profile: Profile) -> None:
        super().__init__(choices, config, drafts=False)
        possible = {*profile.events, ee.Decode.kind}
        drawn = [pair for pair in zip(self.kinds, self.weights, strict=True) if pair[0] in possible]
        self.kinds = [kind for kind, _ in drawn] or [ee.Decode.kind]
        self.weights = [weight for _, weight in drawn] or [1]
        self.draw_steps(config)
        self.coming: deque[Event] = deque()

    def event(self) -> Event:
        """The next event."""
        if self.coming:
            return self.coming.popleft()
        if self.under_way and self.choices.chance(self.pace):
            return self.under_way.popleft()
        event = super().event()
        if isinstance(event, ee.Finish | ee.Abort | ee.Results | de.Retract):
            return self.leave(event)
        if not isinstance(event, ee.Decode):
            return event
        if not self.under_way:
            self.begin(event.requests)
        return self.under_way.popleft()

    def leave(self, event: Event) -> Event:
        """A request leaves once the step that is under way has run."""
        self.coming = deque([*self.under_way, event])
        self.under_way.clear()
        return self.coming.popleft()
