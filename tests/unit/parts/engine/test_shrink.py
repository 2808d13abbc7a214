"""A shrink of an engine-level tape leaves no event that did not apply, and none that asks for more than it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import Config
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape, Verdict
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
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.shrink import Shrunk, shrink
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

BARE = Config(level="engine", policy="uncached", page_size=2, full_size=8, swa_size=8, window=2)
HOSTED = replace(BARE, host_full_size=8, host_swa_size=8)


class Here:
    """Judges tapes in this process."""

    def __init__(self, mutant: str) -> None:
        self.target = load_builtin(MUTANTS[mutant])
        self.verdict: Verdict | None = None
        self.tape = Tape(BARE, ())

    def judge(self, tape: Tape) -> Divergence | None:
        self.tape, self.verdict = tape, drive_engine(tape, self.target)
        return self.verdict.divergence

    def effect(self) -> Tape | None:
        assert self.verdict is not None
        return None if self.verdict.effect is None else Tape(self.tape.config, self.verdict.effect)


def shrunk(mutant: str, tape: Tape) -> tuple[Shrunk, Divergence]:
    here = Here(mutant)
    divergence = here.judge(tape)
    assert divergence is not None
    profile = find_violation(tape, here.target.profiles)[0]
    assert profile is not None
    return shrink(tape, divergence, profile, here.judge, effect=here.effect), divergence


def computed(request: int, count: int) -> tuple[Event, ...]:
    """A request whose whole prompt of two tokens is computed in a chunk of `count`."""
    return Arrive(request, (request + 1,) * 2), Admit(request), Prefill(request, count), Checkpoint(request)


@pytest.mark.parametrize("mutant", ["request-leaves-lock", "ack-keeps-lock"])
def test_a_shrunk_tape_asks_for_what_takes_effect(mutant: str) -> None:
    """Its counts and its requests are those that the target played, and class and check are the same."""
    events = (*computed(0, 3), Decode((0, 4), 1), TransferDone(3), Abort(5), Abort(0), TransferDone(3))
    result, divergence = shrunk(mutant, Tape(HOSTED, events))
    assert result.divergence.key == divergence.key
    assert drive_engine(result.tape, load_builtin(MUTANTS[mutant])).effect is None


def test_what_diverges_because_it_asked_for_too_much_goes_on_asking() -> None:
    """An eviction that owes something cannot be told from one that was asked for no more than it gave."""
    events = (*computed(0, 3), Finish(0), *computed(1, 3), Abort(3), Finish(1), Evict(8, 0))
    result, _ = shrunk("evict-stops-after-one-leaf", Tape(BARE, events))
    *_, last = result.tape.events
    assert result.divergence.key == ("leak", "eviction")
    assert isinstance(last, Evict)
    assert [event.count for event in result.tape.events if isinstance(event, Prefill)] == [2, 2]
