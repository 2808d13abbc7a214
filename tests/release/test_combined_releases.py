"""Tapes that combine a decode node with speculative decode, on real releases: the verdict of each is a known one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LONG

from staleloc.models.config import Config
from staleloc.sim.core.choices import seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.decode_node import events as de
from staleloc.sim.parts.engine.events import Finish
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.parts.speculative import events as se
from staleloc.sim.run.player import Player
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.sglang.fetch import Release

Probe = Callable[..., dict[str, Any]]

BOTH = Scope("engine", ("disagg", "spec"), together=True)
TAPES = 64

SURPLUS = ("wrong-mapping", "leftovers")
"""PR 27779 (fixed in 0.5.14)."""

RECYCLED = {("use-after-free", "owners"), ("alias", "owners")}
"""PR 25805: V1's draft leaves entries behind, and the head of a tail keeps them."""

MOVED = ("stale-translation", "rows")
"""`unsent-freed-before-the-move`."""

COPIED = ("mask-asymmetry", "masks")
"""The same in a row that no attention has read before the copy of a retracted request."""

UNSENT = ("wrong-content", "rows")
"""`unsent-page-before-the-window`, `unsent-rows-before-the-window`."""

TAIL = ("over-admission", "over-admission")
"""PR 33794 (fixed in 0.5.18)."""

SHOWS: dict[str, set[tuple[str, str]]] = {
    "0.5.12": {SURPLUS, MOVED, *RECYCLED},
    "0.5.12.post1": {SURPLUS, MOVED, COPIED},
    "0.5.13": {SURPLUS},
    "0.5.14": {TAIL},
    "0.5.16": {TAIL},
    "0.5.18": set(),
    "0.5.19": set(),
    "0.5.20": set(),
    "0.5.21": set(),
    "0.5.22": set(),
    "0.5.23": {UNSENT},
}
"""Release -> class and check of all that the tapes show. Only 0.5.23 keeps a tree on such a node."""


@pytest.mark.parametrize("version", [it for it in SHOWS if LONG or it in ("0.5.22", "0.5.23")])
def test_the_combination_shows_the_known_bugs_and_no_other(available: Callable[[str], Release], version: str) -> None:
    """Bugs of decode nodes and of speculative decode, in the releases that have them alone."""
    available(f"sglang=={version}")
    with Player(f"sglang=={version}") as player:
        profiles = BOTH.of(player.profiles)
        found = [player.play(generate_tape(seeded(0, index), profiles)) for index in range(TAPES)]
    assert {(one.kind, one.check) for one in found if one is not None} == SHOWS[version]


def test_the_newest_release_is_silent_when_the_sender_is_told_all(probe: Probe) -> None:
    """So each of these tapes of 0.5.23 shows the unsent page or rows, and nothing besides."""
    assert probe("spec_node_probe.py", "sglang==0.5.23", "whole_tail", str(TAPES)) == {"diverge": []}


STEP = (se.PrepareDecode((0,)), se.DraftTree((0,), (1,), (0,)), se.TargetVerify((0,), (0,)), se.Commit((0,)))
"""One step that accepts the bonus token alone."""

RESUMED = (
    *(de.Enqueue(0, (1, 1), 30), de.Preallocate(), de.Transfer(0, 9, 1), de.Start()),
    *(*STEP * 3, de.Retract(0), de.Resume(), de.Start()),
)
"""A request whose whole prompt was sent resumes with tokens in front of its window."""


def node(bigram: bool) -> Config:
    """A node of single slots with a prefix tree, and a window of three tokens."""
    return Config(
        level="engine", features=("disagg", "spec"), policy="python-core", full_size=96, swa_size=96, window=3,
        decode_tree=True, bigram=bigram, spec_steps=1, spec_draft_tokens=2,
    )  # fmt: skip


def test_a_resume_with_pair_keys_inserts_a_row_that_nothing_restored(available: Callable[[str], Release]) -> None:
    """The insertion keeps a token more than the last preparation; with plain keys it does not."""
    available("sglang==0.5.23")
    with Player("sglang==0.5.23") as player:
        found = player.play(Tape(node(True), RESUMED))
        assert player.play(Tape(node(False), RESUMED)) is None
    assert found is not None
    assert (found.kind, found.check, found.event) == ("wrong-content", "rows", len(RESUMED) - 1)
    assert found.what.endswith("which request 0 resumed without")


def test_a_token_that_was_not_known_at_a_resume_is_inserted_as_it_is(available: Callable[[str], Release]) -> None:
    """The release copies a request's tokens when it resumes, and its adapter names the newest one later."""
    available("sglang==0.5.23")
    with Player("sglang==0.5.23") as player:
        assert player.play(Tape(node(False), (*RESUMED, *STEP, Finish(0)))) is None
