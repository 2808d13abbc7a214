"""A host tier on a decode node, the pair of parts."""

from __future__ import annotations

from ....models.situations import ENGINE_SITUATIONS
from ..engine.situations import Noticer
from ..part import Axis, Part

__all__ = ["NODE_HOST"]

_HOSTED = (
    *("host_hit", "remapped_load_back", "node_evicted", "host_evicted", "host_short", "offload_in_flight"),
    *("freed_beside_flight", "forward_over_flight"),
)

NODE_HOST = Part(
    Axis.TIERS,
    "host tier of a decode node",
    holds=lambda features, host: host and "disagg" in features,
    situations={name: ENGINE_SITUATIONS[name] for name in _HOSTED},
    reachable=lambda situation, profile: situation != "forward_over_flight" or "spec" not in profile.features,
    observers=(Noticer,),
)
