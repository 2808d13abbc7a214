"""The protocols of decode nodes whose requests speculate, that have a host tier, or that replay captured graphs.

A request comes in as on any decode node (`DisaggTarget`), and is decoded by the steps of `SpeculativeTarget` once it is
started::

    enqueue -> preallocate -> receive, receive_draft -> arrived -> start
    -> prepare_decode, draft_branches, ..., accept, commit -> retract -> resume -> start -> prepare_decode, ...

*Lengths.* From its preallocation to its first step a request has `computed` = `committed` = `allocated` tokens: its
prompt, or where it resumes the tokens that were committed when it was retracted.

*Tokens.* The token that `arrived` tells is known and has no KV: node 0 of the first step is that token. The tokens of
`accept` are those of the accepted path, node 0 first, so they take the place of whatever was known behind `computed`.

*Counting.* The queues count the output tokens that the scheduler knows: `committed` - prompt + 1 from `arrived` on
(``req.output_ids``, to which a step's tokens come with the commit). Slots ahead of what is committed are taken from the
free ones, and nothing else is reserved for a draft (``num_reserved_decode_tokens``).

*The draft.* The prefill side runs the draft model too and sends its KV of the same tokens to the same pages
(``draft_token_to_kv_pool`` of ``DecodePreallocQueue``); with `Config.bigram` that of the last prompt token depends on
the first output token. A copy on the CPU and a copy on the host hold no rows of the draft: behind a resume or a
load-back its pool has nothing of these tokens, until steps write some.

*Leaving.* `retract`, `finish` and `abort` first give back the slots beyond what is committed, in whole pages. A copy
holds the committed tokens. A step that was accepted and not committed is lost by a retraction.
"""

from __future__ import annotations

from typing import Protocol

from .base import FreeSlots, Rows
from .disagg import DisaggTarget
from .engine import Copying
from .graphs import GraphTarget
from .spec_graphs import SpecGraphTarget
from .speculative import SpeculativeTarget

__all__ = ["GraphNodeTarget", "HostNodeTarget", "SpecGraphNodeTarget", "SpecNodeTarget"]


class HostNodeTarget(DisaggTarget, Protocol):
    """A decode node whose prefix tree has a host tier (`Config.decode_tree` and `Config.host_full_size`).

    `preallocate` matches a prompt as far as device or host have it and starts to load back what is on the host only, if
    the budgets allow that, where a token that is loaded counts like one that is not cached, in both pools. If they do
    not, it takes what the device has of the prompt, and then nothing. Cached tokens, loaded ones too, are not sent.
    `retract` and the calls of a forward wait for what they read.
    """

    def transfer_done(self, count: int) -> None:
        """See `EngineTarget.transfer_done`."""

    def pending(self) -> int:
        """See `EngineTarget.pending`."""

    def raw_host_free(self) -> FreeSlots:
        """See `EngineTarget.raw_host_free`."""

    def raw_host_contents(self, layer: int) -> Rows:
        """See `EngineTarget.raw_host_contents`."""

    def in_flight(self) -> list[Copying]:
        """See `EngineTarget.in_flight`."""


class SpecNodeTarget(DisaggTarget, SpeculativeTarget, Protocol):
    """A `DisaggTarget` and a `SpeculativeTarget` at once.

    A request comes in as on any decode node, and speculates once it is started; `decode` is not called. The calls of a
    step take requests that run or are prebuilt; `prepare_decode` joins the prebuilt ones to the running batch, even if
    there is no room for the step.
    """

    def receive_draft(self, layer: int, slots: list[int], tags: list[int]) -> None:
        """The sender writes rows of the draft's pool, at slots of the layer's own pool; see `DisaggTarget.receive`."""


class GraphNodeTarget(HostNodeTarget, GraphTarget, Protocol):
    """A decode node with captured graphs: `decode` gives the slots, `replay` runs the step."""


class SpecGraphNodeTarget(SpecNodeTarget, SpecGraphTarget, Protocol):
    """All of it: drafts, verifications and whole decode nodes through captured graphs."""
