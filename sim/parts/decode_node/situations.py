"""Situations that show in the state around an event on a decode node."""

from __future__ import annotations

from ....models.admission import Preallocating
from ....models.budgets import budgets
from ....models.decode_node import DecodeRequest, DecodeWorld, Stage
from ....models.disaggregation import CLIP_NEW_TOKENS
from ...targets.engine import RequestView
from ..engine import events as ee
from ..engine.step import Written
from ..part import Observer
from .rounds import earlier
from .step import DisaggStep

__all__ = ["NodeNoticer"]


class NodeNoticer(Observer):
    """Remembers the last state and counts what is new in the next one."""

    def __init__(self, world: DecodeWorld) -> None:
        self._world = world
        self._requests: dict[int, RequestView] = {}
        self._mapping: list[int] = []
        self._starts: dict[int, int] = {}

    def look(self, step: DisaggStep) -> None:
        """Count the situations that this event brought about."""
        if step.asked is not None and not step.enqueued:
            self._world.saw("rejected")
        self._round(step)
        self._retracted(step)
        for number in step.resumed or ():
            self._resumed(step, number)
        if step.resumed is not None and self._world.queues[Stage.RETRACTED]:
            self._world.saw("resume_put_off")
        self._window(step)
        self._requests, self._mapping = step.requests, step.mapping

    def _round(self, step: DisaggStep) -> None:
        if step.round is None:
            return
        world, admitted = self._world, step.round.admitted
        accounts = world.accounts
        if len(admitted) > 1:
            world.saw("admitted_several")
        if admitted and step.before is not None and len(step.tree) < len(step.before.tree):
            world.saw("evicted_to_admit")
        for item in admitted:
            request = world.job(item.request)
            if accounts.whole(item.cached):
                world.saw("prefix_fallback" if item.cached and accounts.uses_tail else "whole_preallocated")
            elif accounts.tail(request.prompt) < request.prompt:
                world.saw("tail_preallocated")
            if world.config.window > request.prompt:
                world.saw("window_beyond_prompt")
            if request.most > CLIP_NEW_TOKENS:
                world.saw("clipped")
        if admitted and admitted[0].cached:
            self._with_prefix(step, world.job(admitted[0].request))
        if world.queues[Stage.QUEUED]:
            self._exhausted(step, world.at(Stage.QUEUED)[0])

    def _with_prefix(self, step: DisaggStep, first: DecodeRequest) -> None:
        """The first of a round was admitted behind a prefix: would it have fitted without?"""
        assert step.before is not None
        accounts = self._world.accounts
        asked, left = Preallocating(accounts, *earlier(step, step.before)).offers(first, 0)
        if not accounts.fits(asked, left):
            self._world.saw("fitted_with_prefix")

    def _exhausted(self, step: DisaggStep, front: DecodeRequest) -> None:
        """The front of the queue has to wait: for which pool?"""
        accounts, load = self._world.accounts, self._world.load()
        asked = accounts.asked(front, 0, load.running)
        left = budgets(accounts, step.room, load, resuming=False)
        if load.retracted:
            self._world.saw("waited_behind_retracted")
        if accounts.uses_tail and (asked.full > left.full) != (asked.swa > left.swa):
            self._world.saw("full_exhausted" if asked.full > left.full else "swa_exhausted")

    def _retracted(self, step: DisaggStep) -> None:
        retracted = self._world.queues[Stage.RETRACTED]
        for number in retracted:
            if number in self._starts:
                continue
            held = self._world.job(number).held
            self._world.saw("retracted")
            if len(held) % self._world.config.page_size:
                self._world.saw("retracted_inside_page")
            if len(set(held)) == 2:
                self._world.saw("saved_partial_mask")
            self._starts[number] = held.index(True) if True in held else len(held)
        for number in set(self._starts) - set(retracted) - set(step.resumed or ()):
            del self._starts[number]

    def _resumed(self, step: DisaggStep, number: int) -> None:
        held, row = self._world.job(number).held, step.requests[number].row
        mapped = [step.mapping[loc] > 0 for loc in row]
        if len(set(mapped)) == 2:
            self._world.saw("loaded_partial_mask")
        if any(there and not here for there, here in zip(held, mapped, strict=False)):
            self._world.saw("row_skipped")
        start, _ = self._world.job(number).window(self._world.config.window)
        if any(here and not there for there, here in zip(held[:start], mapped, strict=False)):
            self._world.saw("hole_outside_window")
        if self._starts.pop(number) != (mapped.index(True) if True in mapped else len(mapped)):
            self._world.saw("resumed_elsewhere")

    def _window(self, step: DisaggStep) -> None:
        if isinstance(step.event, ee.EvictWindow):
            view = self._requests.get(step.event.request)
            if view is not None and any(self._mapping[loc] and not step.mapping[loc] for loc in view.row):
                self._world.saw("window_evicted_running")
        for span in step.written:
            self._decoded(span)

    def _decoded(self, span: Written) -> None:
        if span.start > self._world.config.window and span.start == self._world.job(span.request).prompt:
            self._world.saw("decoded_behind_tail")
