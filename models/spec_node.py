"""Speculative decode on a decode node: a prompt comes from a sender, with the draft's KV of it, and then speculates.

SGLang: ``DecodePreallocQueue`` with ``spec_algorithm``; the prefill server runs the draft model too, and the draft's KV
pool is registered for the transfer beside the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .config import Config
from .decode_node import DecodeRequest, DecodeWorld, Stage
from .disaggregation import Rules
from .draft_tree import Tree
from .speculative import Rules as SpecRules
from .speculative import SpecRequest, SpecWorld

__all__ = ["SpecNodeRequest", "SpecNodeWorld"]


@dataclass
class SpecNodeRequest(SpecRequest, DecodeRequest):
    """One request.

    Attributes:
        undrafted: tokens of which the draft's pool holds nothing: a copy on the CPU has no rows of the draft.
        first: the first output token, until the target has verified it.
    """

    undrafted: int = 0
    first: int | None = None

    @property
    def outputs(self) -> int:
        """Output tokens that the scheduler knows, the one that has no KV yet included."""
        return 0 if self.stage in (Stage.QUEUED, Stage.TRANSFERRING) else self.committed - self.prompt + 1


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
        request = self.speculating(number)
        request.computed, request.first = request.prompt, token
        self.move(number, Stage.WAITING)
        request.drafted = self.draftable(number)

    def rooted(self, number: int, tree: Tree) -> Tree:
        """The tree as it is proposed for a request: its root is the first output token in the first step."""
        first = self.speculating(number).first
        return tree if first is None else replace(tree, tokens=(first, *tree.tokens[1:]))

    def accept(self, number: int, path: Sequence[int]) -> None:
        """A path of the proposed tree was accepted, from node 0 on."""
        super().accept(number, path)
        self.speculating(number).first = None

    def following(self, number: int) -> list[int]:
        """The prefix that ends with a request's next token, if that is known."""
        request = self.speculating(number)
        if request.tree is None and request.first is not None:
            return self.tags.prefixes([request.first], request.prefixes[-1])
        return super().following(number)

    def counted(self, number: int) -> int:
        """What a node counts as committed of a request: the whole prompt from the time on that it has its slots."""
        request = self.speculating(number)
        return request.prompt if request.stage is Stage.TRANSFERRING else request.committed

    def resumed(self, number: int) -> None:
        """A retracted request has fresh slots, and the target's KV of its tokens back.

        Its next step counts as its first (``reset_for_retract`` sets ``decode_batch_idx`` to 0 in 0.5.11 - 0.5.23), so
        that step frees no window.
        """
        super().resumed(number)
        request = self.speculating(number)
        request.steps = 0
        request.allocated = request.computed
        request.undrafted = request.drafted = self.draftable(number)

    def may_retract(self, number: int) -> bool:
        """Whether a scheduler may retract a request now: between two steps, once the last one is committed."""
        return super().may_retract(number) and self.may_leave(number) and not self.speculating(number).uncommitted
