"""The builtin target with speculative decode through captured graphs."""

from __future__ import annotations

from dataclasses import replace

from ....models.config import Config
from ..base import Profile
from .graph_engine import GraphEngine
from .speculative import SPEC, SpecEngine

__all__ = ["SPEC_GRAPHS", "SpecGraphEngine"]

SPEC_GRAPHS = replace(
    SPEC,
    features=("spec", "graphs"),
    policies=("uncached", "side_channel", "memo", "per_forward"),
    events=SPEC.events | {"capture", "replay_chunk"},
)


class SpecGraphEngine(SpecEngine, GraphEngine):
    """`SpecEngine` and `GraphEngine`, and a `SpecGraphTarget` if the config asks for both."""

    profiles: tuple[Profile, ...] = (*GraphEngine.profiles, SPEC, SPEC_GRAPHS)

    def build(self, config: Config) -> None:
        """See `EngineTarget.build`."""
        super().build(config)
        if set(SPEC_GRAPHS.features) <= set(config.features):
            self._draft_pool = self._speculative.draft_pool
            self._draft_pool.register_mapping(self._pool.full_to_swa_index_mapping)

    def replay_draft(self, locs: list[int], tags: list[list[int]]) -> None:
        """See `SpecGraphTarget.replay_draft`."""
        self._speculative.run_draft(locs, tags)
        self._ran = self._draft_pool
