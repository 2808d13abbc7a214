"""Admission: what a prompt takes from the cache is whole pages of it, and leaves a token to compute."""

from __future__ import annotations

from ....core.divergence import Divergence
from ...check import Check
from ..events import Admit
from ..step import EngineStep

__all__ = ["CHECK"]


def _run(step: EngineStep) -> Divergence | None:
    event, admission = step.event, step.admission
    if admission is None or not isinstance(event, Admit):
        return None
    prompt, size = step.world.requests[event.request].prompt, step.world.config.page_size
    what = f"request {event.request} of {prompt} tokens was given {admission.cached} from the cache"
    if admission.cached >= prompt:
        return step.diverges("out-of-bounds", CHECK.name, what, "no token is left to compute, so there are no logits")
    if admission.cached % size:
        return step.diverges("misaligned", CHECK.name, what, f"what is cached is whole pages of {size}")
    if admission.loaded > admission.cached:
        return step.diverges("out-of-bounds", CHECK.name, f"{what} and {admission.loaded} from the host alone")
    return None


CHECK = Check("admission", _run, order=40)
