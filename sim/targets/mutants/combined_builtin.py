"""Mutants that show where features meet: speculative decode or a host tier on a decode node."""

from __future__ import annotations

from .edits import drop, swap
from .transform import Edit, Mutant

__all__ = ["COMBINED"]

_POLICIES = ("uncached", "memo")


def _node(name: str, story: str, edits: tuple[Edit, ...], events: tuple[str, ...], *features: str) -> Mutant:
    names = tuple(it for it in features if it != "host")
    host = "host" in features
    return Mutant(
        f"node-{name}", "builtin", edits, "hybrid", _POLICIES, story, events, "", "engine", ("disagg", *names), host
    )


def _spec(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return _node(f"spec-{name}", story, edits, events, "spec")


def _host(name: str, story: str, *edits: Edit, events: tuple[str, ...] = ()) -> Mutant:
    return _node(f"host-{name}", story, edits, events, "host")


COMBINED: tuple[Mutant, ...] = (
    _spec(
        "draft-not-received",
        "the sender's rows of the draft model are dropped, so the first draft attends to what the slots held before",
        drop("spec_node", "SpecNodeEngine.receive_draft", "buffer.index_copy_(0, index, rows)"),
        events=("transfer", "draft_tree"),
    ),
    _spec(
        "retract-keeps-surplus",
        "a retraction copies the slots ahead of what is committed, too, and the resumed request is longer than it was",
        drop(
            "spec_node",
            "SpecNodeEngine.retract",
            "self._drop_surplus(self._requests[request], self._progress[request].committed)",
        ),
        events=("prepare_decode", "retract", "resume"),
    ),
    _spec(
        "prebuilt-stay-apart",
        "started requests speculate without joining the running batch, so they can be neither retracted nor counted",
        drop("spec_node", "SpecNodeEngine.prepare_decode", "self._jobs.running += self._jobs.prebuilt"),
        events=("start", "draft_tree"),
    ),
    _host(
        "load-not-charged",
        "tokens that are loaded back are not charged to the budgets, and more is admitted than there is room for",
        swap("host_node", "HostNode._loading_lock", "self._accounts.fits(job, node.end, missing)", "True"),
        events=("preallocate", "evict"),
    ),
    _host(
        "refused-load-keeps-lock",
        "a prefix on the host that there was no room for stays locked, and can not be evicted any more",
        drop("host_node", "HostNode._loading_lock", "self._slots.unlock(lock)"),
        events=("preallocate", "evict"),
    ),
)
"""Mutants of decode nodes with more than one feature."""
