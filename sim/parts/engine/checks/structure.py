"""Structure: the tree's keys are whole pages, siblings differ, and no node has slots that do not fit its key."""

from __future__ import annotations

from .....models.radix import structure_fault
from ....core.divergence import Divergence
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    fault = structure_fault([item.node for item in step.keyed], step.world.config.page_size)
    return None if fault is None else step.diverges("misaligned", CHECK.name, fault)


CHECK = Check("structure", _run, order=10)
