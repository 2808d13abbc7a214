"""Every part, and which of them a config or a profile has."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.config import Config
from ..targets.base import Profile
from .check import Check
from .decode_node.part import DECODE_NODE, NODE_HOST
from .engine.part import HOST, LOCAL_PREFILL, PLAIN_DECODE, REQUESTS
from .graphs.part import GRAPHS
from .overlap.part import OVERLAP
from .part import Part
from .scheduler.part import SCHEDULER
from .spec_node.part import SPEC_NODE
from .speculative.part import SPECULATIVE

__all__ = ["ENGINE_CHECKS", "PARTS", "parts_of", "parts_of_profile", "simpler_configs"]

PARTS: tuple[Part, ...] = (
    REQUESTS,
    LOCAL_PREFILL,
    PLAIN_DECODE,
    HOST,
    GRAPHS,
    SPECULATIVE,
    DECODE_NODE,
    NODE_HOST,
    SPEC_NODE,
    SCHEDULER,
    OVERLAP,
)
"""Every part; one that extends another's world or step comes after it."""


ENGINE_CHECKS: tuple[Check, ...] = tuple(
    sorted({check for part in PARTS for check in part.checks}, key=lambda check: check.order)
)
"""Every check of whole requests, in the order in which they are asked."""


def parts_of(config: Config) -> tuple[Part, ...]:
    """The parts of a config of the engine level."""
    return _holding(config.features, config.host_full_size > 0)


def parts_of_profile(profile: Profile) -> tuple[Part, ...]:
    """The parts that tapes for a target driven this way can have."""
    return _holding(profile.features, profile.host)


def _holding(features: tuple[str, ...], host: bool) -> tuple[Part, ...]:
    return tuple(part for part in PARTS if part.holds(frozenset(features), host))


def simpler_configs(config: Config) -> Iterator[Config]:
    """Simpler configs, as far as the values of its parts go."""
    for part in parts_of(config) if config.level == "engine" else ():
        yield from part.simpler_configs(config)
