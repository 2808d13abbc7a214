"""A tape out of choices, at either level and with any parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.choices import Choices
from ..core.tape import Tape
from ..targets.base import Profile
from .allocator.generate import generate
from .decode_node.generate import generate_disagg
from .engine.declared import with_declared
from .engine.generate import Author, generate_engine
from .graphs.generate import GraphAuthor
from .scheduler.generate import generate_scheduler
from .spec_node.generate import generate_node
from .speculative.generate import generate_spec
from .speculative.generate_graphs import SpecGraphAuthor

__all__ = ["generate_tape"]

_AUTHORS: dict[tuple[str, ...], type[Author]] = {("graphs",): GraphAuthor}
"""Features -> the author of their tapes."""


def generate_tape(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    """A tape for a target with these profiles, which are all of one level."""
    if profiles[0].level != "engine":
        return generate(choices, profiles)
    return with_declared(choices, _of_requests(choices, profiles))


def _of_requests(choices: Choices, profiles: Sequence[Profile]) -> Tape:
    if any({"disagg", "spec", "scheduler"} & set(profile.features) for profile in profiles):
        profiles = [choices.pick(profiles)]
    if "disagg" in profiles[0].asks and len(profiles[0].asks) > 1:
        return generate_node(choices, profiles[0])
    if "disagg" in profiles[0].features:
        return generate_disagg(choices, profiles)
    if "scheduler" in profiles[0].features:
        return generate_scheduler(choices, profiles)
    if "spec" in profiles[0].features:
        return generate_spec(choices, profiles[0], SpecGraphAuthor if "graphs" in profiles[0].features else None)
    return generate_engine(choices, profiles, _AUTHORS)
