"""The protocol of an engine with speculative decode, in integers.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .base import Rows
from .engine import EngineTarget

__all__ = ["SPEC_CALLS", "Branches", "SpecRules", "SpeculativeTarget"]

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
