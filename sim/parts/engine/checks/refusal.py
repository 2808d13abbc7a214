"""Refusal: a step that fits is not refused."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    need = step.refused
    if need is None or need > min(len(step.free.full), len(step.free.swa)):
        return None
    full, swa = len(step.free.full), len(step.free.swa)
    what = f"a step that needs {need} pages was refused; {full} full and {swa} SWA are free"
    return step.diverges("leak", CHECK.name, what)


CHECK = Check("refusal", _run, order=230)
