"""Situations that show in the state around an event of speculative decode."""

from __future__ import annotations

from collections.abc import Callable

from ....models.speculative import SpecWorld, TokenLen
from ...targets.engine import RequestView
from ..engine import events as ee
from ..part import Observer
from . import events as se
from .step import SpecStep

__all__ = ["SpecNoticer"]


class SpecNoticer(Observer):
    """Counts what is new in the state of steps and drafts."""

    def __init__(self, world: SpecWorld) -> None:
        self._world = world
        self._requests: dict[int, RequestView] = {}
        self._drafted: dict[int, set[int]] = {}
        self._nodes: set[int] = set()

    def before(self, step: SpecStep) -> None:
        """An event is about to be played: what it does to a request that leaves."""
        event = step.event
        if isinstance(event, ee.Finish):
            self._leaves(event.request, "finish", self._world.may_finish)
        elif isinstance(event, ee.Abort):
            self._leaves(event.request, "abort", self._world.may_leave)
        elif isinstance(event, ee.Results):
            for how, numbers in (("finish", event.finished), ("abort", event.aborted)):
                for number in numbers:
                    self._leaves(number, how, self._world.may_finish)

    def _leaves(self, number: int, how: str, may: Callable[[int], bool]) -> None:
        """A request leaves, if it may."""
        if not self._world.decodes(number) or not may(number):
            return
        spec = self._world.speculating(number)
        if self._world.config.pages(spec.committed) < self._world.config.pages(spec.allocated):
            self._world.saw(f"surplus_at_{how}")
        if spec.uncommitted:
            self._world.saw("left_uncommitted")

    def look(self, step: SpecStep) -> None:
        """Count the situations that this event brought about."""
        event = step.event
        if isinstance(event, se.PrepareDecode | se.DraftTree):
            self._prepared(step)
        if isinstance(event, se.DraftTree):
            self._branches(step)
        if isinstance(event, se.TargetVerify):
            self._verified(step)
        if isinstance(event, ee.Admit) and any(self._tree(number) for number in self._world.requests):
            self._world.saw("admitted_between")
            if step.admission is not None and step.admission.loaded:
                self._world.saw("loaded_between")
        if isinstance(event, ee.Checkpoint):
            self._checkpointed(event.request)
        self._siblings(step)
        self._reused(step)
        self._requests, self._nodes = step.requests, {node.node for node in step.tree}

    def _tree(self, number: int) -> bool:
        return self._world.speculating(number).tree is not None

    def _prepared(self, step: SpecStep) -> None:
        if self._nodes - {node.node for node in step.tree}:
            self._world.saw("evicted_to_prepare")
        for number, view in step.requests.items():
            before, uncommitted = self._requests.get(number), self._world.speculating(number).uncommitted
            if before is None or len(view.row) <= len(before.row):
                continue
            self._world.saw("prepared_before_commit" if uncommitted else "prepared_after_commit")
            if uncommitted and view.evicted > before.evicted:
                self._world.saw("window_evicted_uncommitted")

    def _branches(self, step: SpecStep) -> None:
        for number, branches in step.branches.items():
            if any(branches.copied):
                self._world.saw("page_copied")
            if not self._world.config.spec_ahead:
                self._drafted[number] = {loc for slots in branches.slots for loc in slots}

    def _reused(self, step: SpecStep) -> None:
        """V1: somebody else was given slots of a draft that is not verified yet."""
        for number in list(self._drafted):
            if number not in step.requests or not self._tree(number):
                del self._drafted[number]
                continue
            for other, view in step.requests.items():
                if other != number and not self._drafted[number].isdisjoint(view.row):
                    before = self._requests.get(other)
                    if before is None or self._drafted[number].isdisjoint(before.row):
                        self._world.saw("draft_slots_reused")

    def _verified(self, step: SpecStep) -> None:
        world, config = self._world, self._world.config
        for number, path in step.accepted.items():
            spec = world.speculating(number)
            start = spec.computed - len(path)
            most = min(config.spec_steps + 1, config.spec_draft_tokens)
            world.saw("accepted_none" if len(path) == 1 else "accepted_all" if len(path) == most else "accepted_some")
            if path != list(range(len(path))):
                world.saw("accepted_off_front")
                if set(path[1:]) & set(range(1, len(path))):
                    world.saw("move_overlaps")
            if start // config.page_size != (spec.computed - 1) // config.page_size and config.page_size > 1:
                world.saw("accepted_across_pages")
            if spec.computed % config.page_size and len(path) < config.spec_draft_tokens:
                world.saw("rejected_in_page")
            if config.spec_ahead and spec.uncommitted[:-1]:
                world.saw("verified_before_commit")

    def _checkpointed(self, number: int) -> None:
        config = self._world.config
        computed = TokenLen(self._world.requests[number].computed)
        if computed.keys(config.bigram).pages(config.page_size) < computed.keys(False).pages(config.page_size):
            self._world.saw("page_short_of_keys")

    def _siblings(self, step: SpecStep) -> None:
        """Two children of one node differ in nothing but the token after their last one."""
        if not self._world.config.bigram:
            return
        size = self._world.config.page_size
        first: set[tuple[int | None, tuple[int, ...]]] = set()
        for node in step.tree:
            key = (node.parent, node.tokens[:size])
            if key in first:
                self._world.saw("same_tokens_other_keys")
                return
            first.add(key)
