"""Speculative decode on a decode node: a prompt and the draft's KV of it come from a sender, then the request speculates.

SGLang: ``DecodePreallocQueue`` with ``spec_algorithm``; the prefill server runs the draft model too, and the draft's KV
pool is registered for the transfer beside the target's.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import Config
from .decode_node import DecodeRequest, DecodeWorld
from .disaggregation import Rules
from .speculative import Rules as SpecRules
from .speculative import SpecRequest, SpecWorld

__all__ = ["SpecNodeRequest", "SpecNodeWorld"]


@dataclass
class SpecNodeRequest(SpecRequest, DecodeRequest):
    """One request.

    Attributes:
        undrafted: tokens of which the draft's pool holds nothing: a copy on the CPU has no rows of the draft.
    """

    undrafted: int = 0


class SpecNodeWorld(SpecWorld, DecodeWorld):
    """Everything a tape of speculative decode on a decode node touches."""

    request_type = SpecNodeRequest

    def __init__(self, config: Config, rules: Rules, spec_rules: SpecRules, offers_tail: bool = True) -> None:
        DecodeWorld.__init__(self, config, rules, offers_tail)
        self.rules = spec_rules

    def speculating(self, number: int) -> SpecNodeRequest:
        """A request that is alive."""
        request = self.requests[number]
        assert isinstance(request, SpecNodeRequest)
        return request

    def admit(self, number: int, cached: int, full: tuple[int, ...] = (), swa: tuple[int, ...] = ()) -> None:
        """A request got slots for its whole prompt; the sender was told these pages."""
        DecodeWorld.admit(self, number, cached, full, swa)
        request = self.speculating(number)
        request.allocated, request.drafted = request.prompt, cached

    def arrived(self, number: int, token: int) -> None:
        """A request's prompt has KV, the draft's included, and its first output token is known."""
        super().arrived(number, token)
        self.speculating(number).drafted = self.draftable(number)

    def resumed(self, number: int) -> None:
        """A retracted request has fresh slots, and the target's KV of its tokens back."""
        super().resumed(number)
        request = self.speculating(number)
        request.allocated = request.computed
        request.undrafted = request.drafted = self.draftable(number)

    def may_retract(self, number: int) -> bool:
        """Whether a scheduler may retract a request now: between two steps, once the last one is committed."""
        return super().may_retract(number) and self.may_leave(number) and not self.speculating(number).uncommitted
