"""Keys: n tokens have n keys or, where keys are bigrams, n - 1, and the tree has whole pages of keys.

So what a request takes from the tree, and what it shares with it, ends with its keys and not with its tokens.
"""

from __future__ import annotations

from .....models.speculative import TokenLen
from ....core.divergence import Divergence
from ...check import Check
from ...engine.events import Admit
from ..step import SpecStep

__all__ = ["CHECK"]


def _run(step: SpecStep) -> Divergence | None:
    world, event = step.world, step.event
    config = world.config
    if step.admission is not None and isinstance(event, Admit):
        prompt = TokenLen(world.requests[event.request].prompt)
        most, cached = prompt.keys(config.bigram).pages(config.page_size), step.admission.cached
        if cached > most.count:
            what = f"request {event.request} was given {cached} keys from the cache and can have {most.count}"
            return step.diverges("misaligned", CHECK.name, what, "a length in tokens was taken for one in keys")
    for number, view in step.requests.items():
        request = world.requests[number]
        known = TokenLen(min(len(request.tokens), request.computed + config.bigram))
        keys = known.keys(config.bigram).pages(config.page_size)
        if view.shared > keys.count:
            what = f"request {number} shares {view.shared} keys with the tree and has {keys.count} in whole pages"
            return step.diverges("misaligned", CHECK.name, what, "a length in tokens was taken for one in keys")
    return None


CHECK = Check("keys", _run, order=20)
