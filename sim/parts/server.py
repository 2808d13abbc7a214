"""Settings of a server that change what its prefix tree does with the same requests: they are drawn for a tape that is
written already."""

from __future__ import annotations

from dataclasses import replace

from ..core.choices import Choices
from ..core.tape import Tape
from ..targets.base import Profile

__all__ = ["with_settings"]

_POLICY_PERCENT = 25
_SWITCH_PERCENT = 10


def with_settings(choices: Choices, tape: Tape, profile: Profile) -> Tape:
    """The tape for a server with another eviction policy, or with switches thrown; often the same tape.

    Args:
        choices: those of the settings alone, so that no other draw depends on what a target offers.
        tape: a tape for a target driven this way.
        profile: the way.
    """
    config = tape.config
    if config.keeps_tree and choices.chance(_POLICY_PERCENT) and "eviction_policy" not in profile.pins:
        policy = choices.pick(profile.eviction_policies)
        priorities = tuple(choices.integer(0, 2) for _ in range(3)) if policy == "priority" else ()
        config = replace(config, eviction_policy=policy, priorities=priorities)
    if profile.switches and choices.chance(_SWITCH_PERCENT):
        names = sorted(profile.switches)
        drawn = {choices.pick(names) for _ in range(choices.integer(1, 2))}
        config = replace(config, switches=tuple(sorted(drawn)))
    return replace(tape, config=config)
