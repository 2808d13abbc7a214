"""How a tape may begin that would hardly come about by chance."""

from __future__ import annotations

from ....models.config import Config
from ...core.choices import Choices
from ...core.event import Event
from ..engine import events as ee
from ..engine.forwards import MAX_TOKENS
from . import events as de

__all__ = ["short_resume"]


def short_resume(choices: Choices, config: Config) -> list[Event]:
    """Two retracted requests, and so little room that the second alone could resume.

    A third one has grown meanwhile. Nothing, where the pool is too small for three or a step takes too long.
    """
    size, pages = config.page_size, config.full_pages
    large = choices.integer(2, 4)
    steps = (pages - large - 1) * size - choices.integer(1, 2)
    if size == 1 or pages < large + 5 or steps + 2 * size > MAX_TOKENS // 2:
        return []
    prompts = ((1, 2) * size)[:size], (1,) * (large * size), (2,) * size
    wanted = (steps + size, size, size)
    queued: list[Event] = [de.Enqueue(*it) for it in zip(range(3), prompts, wanted, strict=True)]
    placed = [de.Preallocate(), *(de.Transfer(number, MAX_TOKENS, 1) for number in range(3)), de.Start()]
    retracted = [ee.Decode((0, 1, 2), 1), de.Retract(1), de.Retract(2)]
    grown: list[Event] = []
    for step in range(steps):
        grown += [ee.Decode((0,), 1)] if step % size else [ee.EvictWindow(0), ee.Decode((0,), 1)]
    return [*queued, *placed, *retracted, *grown, de.Resume()]
