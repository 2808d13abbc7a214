"""SWA slots that a running request attends to are locked; what its window left behind need not be.

Host slots are locked while they are read, and no longer.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.models.radix import place, wanted_locks
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import (
    Admit,
    Arrive,
    Checkpoint,
    Evict,
    Finish,
    Prefill,
    TransferDone,
)
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import NodeView

CONFIG = Config(level="engine", policy="memo", page_size=2, full_size=16, swa_size=16, window=2)
TAPE = Tape(CONFIG, (Arrive(0, (1, 1, 1, 1, 2)), Admit(0), Prefill(0, 4), Checkpoint(0)))

HOSTED = replace(CONFIG, host_full_size=16, host_swa_size=16)
OFFLOADED = (*TAPE.events, Prefill(0, 1), Checkpoint(0), Finish(0), TransferDone(9), Evict(16, 0))
LOADING = (*OFFLOADED, Arrive(1, (1, 1, 1, 1, 2)), Admit(1))


class Loose(BuiltinEngine):
    """Shows some number of SWA locks, whatever there are."""

    shown = 0

    def raw_tree(self) -> list[NodeView]:
        """The tree with another number."""
        return [replace(node, swa_locks=self.shown) for node in super().raw_tree()]


def test_a_window_without_its_lock_is_a_use_after_free() -> None:
    """The request's window is in the node, and nothing keeps its SWA slots."""
    divergence = drive_engine(TAPE, Loose()).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check) == ("use-after-free", "locks")
    assert divergence.sentence.endswith("made the node, and did not give it an SWA lock that its slots need")


def test_a_window_with_its_lock_is_right() -> None:
    """The same tape on the engine as it is."""
    assert drive_engine(TAPE, BuiltinEngine()).divergence is None


def test_locks_that_cannot_be_seen_are_not_judged() -> None:
    """A tree core that does not show its SWA locks says -1."""
    unseen = Loose()
    unseen.shown = -1
    assert drive_engine(TAPE, unseen).divergence is None


class Greedy(BuiltinEngine):
    """Shows an SWA lock for each full one: all of a path is locked, and not its window alone."""

    def raw_tree(self) -> list[NodeView]:
        """The tree with other numbers."""
        return [replace(node, swa_locks=node.full_locks) for node in super().raw_tree()]

    def raw_ledgers(self) -> None:
        """It does not count."""


CHUNKS = (Arrive(0, (1, 1, 2, 2, 1)), Admit(0), Prefill(0, 2), Checkpoint(0), Prefill(0, 2), Checkpoint(0))


def test_a_lock_that_reaches_beyond_its_window_is_a_leak() -> None:
    """The first node ends where the window of two tokens begins."""
    divergence = drive_engine(Tape(CONFIG, CHUNKS), Greedy()).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check, divergence.event) == ("leak", "locks", len(CHUNKS) - 1)
    assert divergence.what == "node 1 has 1 SWA locks and ends before the only request's window"


@pytest.mark.parametrize(
    ("config", "events"),
    [
        (CONFIG, CHUNKS[:-1]),
        (replace(CONFIG, window=4), CHUNKS),
        (CONFIG, (Arrive(1, (1, 1)), Admit(1), *CHUNKS)),
        (HOSTED, CHUNKS),
    ],
)
def test_a_lock_beyond_a_window_is_judged_where_it_is_the_only_one(config: Config, events: tuple[Event, ...]) -> None:
    """Not before it is taken, nor where the window reaches further, somebody else may hold it, or a transfer does."""
    assert drive_engine(Tape(config, events), Greedy()).divergence is None


def test_a_lock_ends_with_its_window() -> None:
    """The same tape on the engine as it is."""
    assert drive_engine(Tape(CONFIG, CHUNKS), BuiltinEngine()).divergence is None


class Pinned(BuiltinEngine):
    """Shows its host locks, and some more while a load-back is queued or not; and if `seen`, what will be released."""

    idle, loading, seen = 0, 0, False

    def raw_tree(self) -> list[NodeView]:
        """The tree with other numbers."""
        more = self.loading if any(not copy.to_host for copy in self.in_flight()) else self.idle
        return [
            replace(node, host_locks=(node.host_locks or 0) + more, host_due=node.host_due if self.seen else None)
            for node in super().raw_tree()
        ]


def test_a_host_lock_without_a_load_back_is_a_leak() -> None:
    """Nothing reads the host slots, and they stay taken. The backup that is queued does not explain it."""
    pinned = Pinned()
    pinned.idle = 1
    divergence = drive_engine(Tape(HOSTED, LOADING), pinned).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check) == ("leak", "locks")
    assert divergence.what == "node 1 is locked 1 times on the host, and nothing is being loaded back"
    assert divergence.event == TAPE.events.index(Checkpoint(0))


def test_a_load_back_whose_locks_are_unknown_may_lock_what_it_reads_as_often_as_it_likes() -> None:
    """How many nodes an engine locks for it, and how often, is its own affair."""
    pinned = Pinned()
    pinned.loading = 3
    assert drive_engine(Tape(HOSTED, (*LOADING, TransferDone(9))), pinned).divergence is None


@pytest.mark.parametrize(
    ("more", "kind", "why"),
    [
        (1, "leak", "a host lock will never be released: its host slots stay taken"),
        (-1, "use-after-free", "a node that is being read on the host lost its lock"),
    ],
)
def test_a_node_has_as_many_host_locks_as_load_backs_will_release(more: int, kind: str, why: str) -> None:
    """One more is never released, and one less lets the host slots go while they are read."""
    pinned = Pinned()
    pinned.loading, pinned.seen = more, True
    divergence = drive_engine(Tape(HOSTED, LOADING), pinned).divergence
    assert divergence is not None
    assert (divergence.kind, divergence.check, divergence.sentence) == (kind, "locks", why)
    assert divergence.what.endswith(" times on the host, and the load-backs in flight will unlock it 1 times")


def test_a_split_leaves_both_halves_locked_for_a_load_back() -> None:
    """The second request shares a page of the node that the first one loads back."""
    engine = BuiltinEngine()
    events = (*LOADING, Arrive(2, (1, 1, 2)), Admit(2))
    assert drive_engine(Tape(HOSTED, events), engine).divergence is None
    assert [(len(node.tokens), node.host_locks, node.host_due) for node in engine.raw_tree()] == [(2, 1, 1), (2, 1, 1)]


def test_a_load_back_locks_what_it_reads_until_it_is_over() -> None:
    """In the builtin, on its whole path."""
    engine = BuiltinEngine()
    assert drive_engine(Tape(HOSTED, LOADING), engine).divergence is None
    assert {node.host_locks for node in engine.raw_tree()} == {1}
    engine.transfer_done(engine.pending())
    assert {node.host_locks for node in engine.raw_tree()} == {0}


def test_host_locks_that_cannot_be_seen_are_not_judged() -> None:
    """A tree core that does not show them says None."""

    class Blind(BuiltinEngine):
        def raw_tree(self) -> list[NodeView]:
            return [replace(node, host_locks=None) for node in super().raw_tree()]

    assert drive_engine(Tape(HOSTED, LOADING), Blind()).divergence is None


def test_a_node_that_ends_before_a_window_is_not_wanted() -> None:
    """Of two nodes on a path only the second reaches into the window."""
    nodes = [
        NodeView(1, None, (1, 1), (2, 3), (2, 3), None, None, 1, 0),
        NodeView(2, 1, (1, 2), (4, 5), (4, 5), None, None, 1, 1),
    ]
    shared = {7: (1, 1, 1, 2)}
    assert wanted_locks(place(nodes), shared) == {1: 1, 2: 1}
    assert wanted_locks(place(nodes), shared, {7: 2}) == {1: 0, 2: 1}
    assert wanted_locks(place(nodes), shared, {7: 1}) == {1: 1, 2: 1}


def test_what_a_request_does_not_share_of_a_node_is_not_wanted_for_its_window() -> None:
    """A decode node may take a part of a node as a prefix, and have all that its window reaches in slots of its own."""
    nodes = [NodeView(1, None, (1, 1, 1, 1), (2, 3, 4, 5), (2, 3, 4, 5), None, None, 2, 1)]
    shared = {7: (1, 1, 1, 1), 8: (1, 1)}
    assert wanted_locks(place(nodes), shared) == {1: 2}
    assert wanted_locks(place(nodes), shared, {7: 2, 8: 2}) == {1: 1}
    assert wanted_locks(place(nodes), shared, {7: 2, 8: 1}) == {1: 2}
