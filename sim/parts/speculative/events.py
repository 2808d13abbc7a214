"""What a scheduler does with requests that decode speculatively, beside the engine level's events.

As there, an event that does not apply is skipped. `Arrive`, `Admit`, `Prefill`, `Checkpoint`, `EvictWindow`,
`Finish`, `Abort`, `Evict` and `Flush` are the engine level's. They may come between any two of these, but under V2
no request leaves between its preparation and its verification; a step that is not committed when its request leaves is
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.event import Event

__all__ = ["SPEC_EVENTS", "Commit", "DraftTree", "PrepareDecode", "TargetVerify"]


@dataclass(frozen=True)
class PrepareDecode(Event):
    """V2: running requests evict their windows, and their rows grow to committed + reserve
    (``eagle_prepare_for_decode``)."""

    kind = "prepare_decode"
    requests: tuple[int, ...]


@dataclass(frozen=True)
class DraftTree(Event):
    """The draft proposes these tokens for each of the requests, the bonus first; `parents` are those of the others.

    Under V1 the draft's slots are taken, and the allocator restored, before it (``_draft_preprocess_decode``). The
    tree is the nearest one that the config allows; see `Tree.of`.
    """

    kind = "draft_tree"
    requests: tuple[int, ...]
    tokens: tuple[int, ...]
    parents: tuple[int, ...]


@dataclass(frozen=True)
class TargetVerify(Event):
    """The target computes what was drafted; of each request the path to its node in `accepted` is accepted. A node that
    is not there counts as the last one; nodes are used again from the first where there are too few."""

    kind = "target_verify"
    requests: tuple[int, ...]
    accepted: tuple[int, ...]


@dataclass(frozen=True)
class Commit(Event):
    """V2: the scheduler learns what the oldest verification accepted, with overlap after the next preparation."""

    kind = "commit"
    requests: tuple[int, ...]


SPEC_EVENTS: tuple[type[Event], ...] = (PrepareDecode, DraftTree, TargetVerify, Commit)
"""Every event type of its own."""
