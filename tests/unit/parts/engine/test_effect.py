"""What an engine-level tape came to: events that did not apply, and those that asked for more than there was."""

from __future__ import annotations

from staleloc.models.config import Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import (
    Abort,
    Admit,
    Arrive,
    Checkpoint,
    Decode,
    Evict,
    Finish,
    Prefill,
    TransferDone,
)
from staleloc.sim.run.player import Player, replay
from staleloc.sim.targets.builtin import BuiltinEngine

CONFIG = Config(level="engine", policy="uncached", full_size=8, swa_size=8, window=2, host_full_size=8, host_swa_size=8)

GREEDY = Tape(
    CONFIG,
    (
        *(Arrive(0, (1, 1, 2)), Abort(5), Admit(0), Prefill(0, 9), Checkpoint(0), Decode((4, 0, 0, 7), 1)),
        *(Decode((3,), 1), TransferDone(7), TransferDone(1), Finish(0), TransferDone(3), Evict(16, 0)),
    ),
)  # fmt: skip
"""Asks for more than there is, and for what is not there."""

MODEST = (
    *(Arrive(0, (1, 1, 2)), Admit(0), Prefill(0, 3), Checkpoint(0), Decode((0,), 1)),
    *(TransferDone(1), Finish(0), TransferDone(1), Evict(4, 0)),
)
"""The same without."""


def test_a_verdict_says_what_took_effect() -> None:
    """What did not apply is missing, and what asked for too much asks for what it got."""
    verdict = drive_engine(GREEDY, BuiltinEngine())
    assert (verdict.divergence, verdict.effect, verdict.skipped) == (None, MODEST, 3)
    assert verdict.events == len(GREEDY.events)


def test_what_took_effect_has_the_same_effect_again() -> None:
    """And all of it applies."""
    greedy, modest = BuiltinEngine(), BuiltinEngine()
    drive_engine(GREEDY, greedy)
    verdict = drive_engine(Tape(CONFIG, MODEST), modest)
    assert (verdict.divergence, verdict.effect, verdict.skipped) == (None, None, 0)
    assert (modest.raw_tree(), modest.raw_free(), modest.raw_mapping()) == (
        greedy.raw_tree(), greedy.raw_free(), greedy.raw_mapping(),
    )  # fmt: skip


def test_the_worker_tells_it() -> None:
    """A player has the tape that took effect, of the last tape only."""
    with Player("builtin") as player:
        player.play(GREEDY)
        assert (player.effect(), player.skipped) == (Tape(CONFIG, MODEST), 3)
        player.play(Tape(CONFIG, MODEST))
        assert (player.effect(), player.skipped) == (None, 0)


def test_a_replay_counts_what_did_not_apply() -> None:
    """Of all its replays."""
    played = replay(GREEDY, "builtin", times=2)
    assert (played.events, played.skipped) == (2 * len(GREEDY.events), 6)
