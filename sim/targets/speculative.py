"""The protocols of engines and decode nodes with speculative decode, captured graphs or a host tier, in integers.

A step proposes a tree of tokens for each request and has the target model compute all of it at once. Node 0 is the
token that is already known (the bonus of the previous step); the accepted path leads from it to some node. A request's
next step begins where the accepted tokens end, even if the scheduler does not know them yet.

Three lengths of a request, in tokens: `computed` have KV that is final, `committed` are those that the scheduler knows
of, `allocated` have slots. Outside a step of V1 all three are equal; under V2 committed <= computed <= allocated.

A step is these calls, in this order, for the same requests:

====================  ============================================  ==============================================
call                  V1                                            V2
====================  ============================================  ==============================================
`prepare_decode`      window eviction; back up, allocate the draft  window eviction; each row grows to committed +
                      into the row                                  the reserve, in whole pages where they are so
`draft_branches`      the slots of that draft                       the row beyond computed
`write_draft`,        the draft's forwards, in its own pool         the same
`read_draft`
`drop_draft`          the allocator is restored                     -
`begin_verify`        allocates a slot a node                       the row beyond computed has them
`write`, `read`       the target's forward over all nodes           the same
`accept`              others are freed; accepted KV is moved where  accepted KV is moved to the front (topk > 1);
                      a tree meets pages; commits                   computed grows
`write_draft`         the draft's KV of what was accepted           the same
`commit`              -                                             committed grows, perhaps after the next prepare
====================  ============================================  ==============================================

Under V1 nothing comes between `prepare_decode` and `drop_draft`, so a target may restore at any time between them
(SGLang does it at once, and goes on to use the slots). Sources: SGLang's ``EAGLEWorker`` (V1),
``eagle_prepare_for_decode`` and ``move_accept_tokens_to_target_kvcache`` (V2).

On a decode node:

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .base import Rows
from .disagg import DisaggTarget
from .engine import EngineTarget, GraphTarget, HostTierTarget

__all__ = [
    "SPEC_CALLS", "Branches", "GraphNodeTarget", "HostNodeTarget", "SpecGraphNodeTarget", "SpecGraphTarget",
    "SpecNodeTarget", "SpecRules", "SpeculativeTarget",
]  # fmt: skip

SPEC_CALLS: tuple[str, ...] = ("prepare_decode", "draft_tree", "target_verify", "commit")
"""Kinds of the events that a `SpeculativeTarget` executes beside those of an `EngineTarget`."""


@dataclass(frozen=True)
class SpecRules:
    """An engine's counting rules, and the mapping entries that it leaves behind.

    Attributes:
        whole_pages: under V2 the allocated length is whole pages (SGLang PR 31616, from 0.5.19); where not, it is
            committed + reserve to the token.
        restores_mapping: under V1 a restore puts the mapping back too; where not, locs that it took back keep
            their entries until they are handed out again (SGLang up to 0.5.16).
        claims_bonus: under V2 a preparation counts the bonus as committed at once, so that the next one, where it
            comes before the commit, reserves a token more (SGLang up to 0.5.14).
    """

    whole_pages: bool = True
    restores_mapping: bool = True
    claims_bonus: bool = False


@dataclass(frozen=True)
class Branches:
    """The places of one request's draft tokens.

    Attributes:
        slots: for each of `topk` branches, `steps` full locs: the token at depth d + 1 below the bonus goes to
            ``slots[branch][d]``.
        copied: for each branch, the full locs at which it reads the tokens of the page in which its first slot
            lies, up to that slot: the request's own for branch 0, copies for the others. Empty, all of them, where
            no page is copied (page size 1, topk 1, or a branch that starts a page).
    """

    slots: tuple[tuple[int, ...], ...]
    copied: tuple[tuple[int, ...], ...] = ()


class SpeculativeTarget(EngineTarget, Protocol):
    """An `EngineTarget` with a draft model, whose pool is as large as the target's, has the same layers, and is
    indexed by the same full locs through the same mapping.

    `admit`, `prefill`, `checkpoint`, `evict`, `flush` are as there. `finish` inserts what is committed and gives
    everything else back, the surplus up to `allocated` included; so does `abort`, which inserts nothing. `decode` is
    never called. `raw_requests` tells each row up to what is allocated, and what is committed. `evict_window` goes by
    what is committed; a target whose windows are evicted in preparations alone leaves the event out. With
    `Config.bigram`, n tokens have n - 1 keys, so a node has one slot a key: `NodeView.tokens` are the first tokens of
    its keys, `NodeView.after` the second token of its last one, and `Admission.cached` counts keys.
    """

    def spec_rules(self) -> SpecRules:
        """Its rules."""

    def prepare_decode(self, requests: list[int]) -> bool:
        """Get ready for a step, evicting from the tree if need be. False if there is no room even so: then nothing
        has changed but what the tree gave up."""

    def draft_branches(self, requests: list[int]) -> list[Branches]:
        """Where the draft goes, after copying the last page's rows to the other branches in the draft's pool where a
        tree meets pages."""

    def write_draft(self, locs: list[int], layer: int, tags: list[int]) -> None:
        """One forward of the draft writes a row a token at a layer, at these full locs. It begins at layer 0."""

    def read_draft(self, locs: list[int], layer: int) -> Rows:
        """The rows that the draft's attention reads at these full locs."""

    def drop_draft(self, requests: list[int]) -> None:
        """The draft has run. V1: its slots are free from here on, at the latest."""

    def begin_verify(self, requests: list[int]) -> bool:
        """Get slots for the nodes of each request, as many as `Config.spec_draft_tokens`: afterwards node i is at
        row position computed + i. False if there is no room (V1): then nothing has changed but what the tree
        gave up. `write` and `read` then take row positions up to computed + nodes."""

    def accept(self, requests: list[int], paths: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]) -> None:
        """These nodes of each request are accepted, node 0 first, each a child of the one before: their KV is at
        row positions computed, computed + 1, ... afterwards. `tokens` are theirs."""

    def commit(self, requests: list[int]) -> None:
        """V2: the scheduler learns the accepted tokens of the oldest uncommitted step."""

    def raw_draft_contents(self, layer: int) -> Rows:
        """Every slot's row of one layer of the draft's pool; see `Target.raw_contents`."""


class SpecGraphTarget(SpeculativeTarget, GraphTarget, Protocol):
    """Both, with one draft: `capture` of the speculative runner captures the draft's forward and the target's.

    `replay` of that runner is a verification; `begin_draft`, `draft`, `end_draft`, `append` and `reject` are never
    called.
    """

    def replay_draft(self, locs: list[int], tags: list[list[int]]) -> None:
        """Run a forward of the draft over these full locs through the smallest graph that holds it; `tags` hold, for
        each layer, one tag a token."""


class HostNodeTarget(DisaggTarget, HostTierTarget, Protocol):
    """A decode node whose prefix tree has a host tier (`Config.decode_tree` and `Config.host_full_size`).

    `preallocate` matches a prompt as far as device or host have it and starts to load back what is on the host only, if
    the budgets allow that, where a token that is loaded counts like one that is not cached, in both pools. If they do
    not, it takes what the device has of the prompt, and then nothing. Cached tokens, loaded ones too, are not sent.
    `retract` and the calls of a forward wait for what they read.
    """


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
