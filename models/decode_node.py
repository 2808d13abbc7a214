"""The world of disaggregated decode: requests from the queue to their end, and each token's KV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from .config import Config
from .disaggregation import Accounts, Load, Rules, qualifies
from .engine import EngineWorld
from .requests import Request

__all__ = ["STARTED", "DecodeRequest", "DecodeWorld", "Stage"]


class Stage(Enum):
    """The stage of a request; see `staleloc.sim.targets.disagg`."""

    QUEUED = "queued"
    TRANSFERRING = "transferring"
    WAITING = "waiting"
    PREBUILT = "prebuilt"
    RUNNING = "running"
    RETRACTED = "retracted"


STARTED = (Stage.PREBUILT, Stage.RUNNING)
"""Stages of a request that decodes."""


@dataclass
class DecodeRequest(Request):
    """One request on the decode node. `computed` counts the tokens whose KV is on the node, in any tier.

    Attributes:
        most: output tokens at most.
        stage: its stage.
        cached: prompt tokens that were in the tree when it got its slots.
        received: full pages the sender has written since.
        full, swa: the pages the sender was told.
        held: for each token with KV, whether it had an SWA slot when the request was retracted last.
        holes: tokens whose SWA row was lost in an earlier retraction; the content of their slots is undefined.
    """

    most: int = 1
    stage: Stage = Stage.QUEUED
    cached: int = 0
    received: int = 0
    full: tuple[int, ...] = field(default=())
    swa: tuple[int, ...] = field(default=())
    held: tuple[bool, ...] = field(default=())
    holes: frozenset[int] = frozenset()

    @property
    def outputs(self) -> int:
        """Output tokens so far."""
        return len(self.tokens) - self.prompt

    def copied(self, held: tuple[bool, ...]) -> None:
        """Retract the request; `held` tokens have an SWA slot. Tokens without one last time lost their rows then."""
        self.holes |= {position for position, was in enumerate(self.held) if not was}
        self.held = held

    def window(self, size: int) -> tuple[int, int]:
        """The computed tokens that the next token attends to in a layer with this window. The next token comes after
        the prompt, also while that is on its way."""
        after = max(self.computed, self.prompt)
        return min(max(0, after + 1 - size), self.computed), self.computed


class DecodeWorld(EngineWorld):
    """Everything a tape of disaggregated decode touches.

    Attributes:
        accounts: how the node counts.
        queues: stage -> its requests, in order of arrival.
    """

    request_type: type[DecodeRequest] = DecodeRequest

    def __init__(self, config: Config, rules: Rules, offers_tail: bool = True) -> None:
        super().__init__(config)
        self.accounts = Accounts(
            page_size=config.page_size,
            window=max(1, config.window - 1) if rules.window_before else config.window,
            reserved=config.reserved_decode,
            uses_tail=qualifies(config.page_size, swa_pool=True, offers_tail=offers_tail),
            tree=config.decode_tree,
            rules=rules,
        )
        self.queues: dict[Stage, list[int]] = {stage: [] for stage in Stage}

    def job(self, number: int) -> DecodeRequest:
        """A request that is alive."""
        request = self.requests[number]
        assert isinstance(request, DecodeRequest)
        return request

    def stage(self, number: int) -> Stage | None:
        """The stage of a request, None if it is not alive."""
        return self.job(number).stage if number in self.requests else None

    def at(self, stage: Stage) -> list[DecodeRequest]:
        """The requests at a stage, in order."""
        return [self.job(number) for number in self.queues[stage]]

    def enqueue(self, number: int, tokens: Sequence[int], most: int) -> None:
        """A request waits for slots."""
        request = self.request_type(list(tokens), len(tokens), most=most)
        request.prefixes = self.tags.prefixes(tokens)
        self.requests[number] = request
        self.queues[Stage.QUEUED].append(number)
        if tuple(tokens) in self.aborted:
            self.saw("retried")

    def move(self, number: int, stage: Stage) -> None:
        """A request goes on to another stage."""
        request = self.job(number)
        self.queues[request.stage].remove(number)
        self.queues[stage].append(number)
        request.stage = stage

    def admit(self, number: int, cached: int, full: tuple[int, ...] = (), swa: tuple[int, ...] = ()) -> None:
        """A request got slots; the sender was told these pages."""
        request = self.job(number)
        request.cached = request.computed = cached
        request.full, request.swa = full, swa
        self.move(number, Stage.TRANSFERRING)

    def resumed(self, number: int) -> None:
        """A retracted request has fresh slots and its KV back."""
        self.move(number, Stage.WAITING)

    def arrived(self, number: int, token: int) -> None:
        """A request's prompt has KV, and its first output token is known."""
        self.job(number).computed = self.job(number).prompt
        self.append(number, token)
        self.move(number, Stage.WAITING)

    def decodes(self, number: int) -> bool:
        """Whether a request can decode one more token."""
        return self.stage(number) in STARTED and self.job(number).outputs < self.job(number).most

    def merged(self) -> None:
        """A decode step begins: started requests join the running batch."""
        for number in list(self.queues[Stage.PREBUILT]):
            self.move(number, Stage.RUNNING)

    def may_evict_window(self, number: int) -> bool:
        """Whether a scheduler may evict a request's window now."""
        return self.stage(number) is Stage.RUNNING

    def may_retract(self, number: int) -> bool:
        """Whether a scheduler may retract a request now."""
        return self.stage(number) is Stage.RUNNING

    def may_finish(self, number: int) -> bool:
        """Whether a request may be done now."""
        return self.stage(number) in STARTED

    def result_of(self, number: int) -> str | None:
        """Among the results of which kind of batch a request may be now: of one that was just started ("prebuilt"), or
        of a decode step ("decode"); None if of neither."""
        stage = self.stage(number)
        return {Stage.PREBUILT: "prebuilt", Stage.RUNNING: "decode"}.get(stage) if stage is not None else None

    def may_abort(self, number: int) -> bool:
        """Whether a scheduler may abort a request now: at any stage."""
        return number in self.requests

    def abort(self, number: int) -> None:
        """A request is aborted."""
        stage = self.job(number).stage
        super().abort(number)
        self.saw(f"aborted_{stage.value}")

    def leave(self, number: int, aborted: bool) -> None:
        """A request is gone."""
        self.queues[self.job(number).stage].remove(number)
        super().leave(number, aborted)

    def load(self) -> Load:
        """The requests as admission counts them."""
        active = (Stage.RUNNING, Stage.TRANSFERRING, Stage.WAITING)
        return Load(
            running=self.at(Stage.RUNNING),
            active=sum(len(self.queues[stage]) for stage in active),
            prebuilt=len(self.queues[Stage.PREBUILT]),
            retracted=self.at(Stage.RETRACTED),
        )
