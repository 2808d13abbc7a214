"""Which code made a state wrong, what the event did, and what else is wrong then: by mutants of the embedded target."""

from __future__ import annotations

import pytest

from staleloc.models.config import SWA, Config
from staleloc.sim.core import timeouts
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.event import Event
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.drive import drive_engine
from staleloc.sim.parts.engine.events import Abort, Admit, Arrive, Checkpoint, Decode, EvictWindow, Finish, Prefill
from staleloc.sim.parts.locate import locate
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin

CONFIG = Config(level="engine", policy="uncached", page_size=2, full_size=16, swa_size=16, layers=(SWA,), window=4)
PROMPT = (1, 2, 3, 4)
RUNNING = (Arrive(0, PROMPT), Admit(0), Prefill(0, 4), Checkpoint(0))
AGAIN = (*RUNNING[:2], Arrive(1, PROMPT), Admit(1), Prefill(1, 4), Checkpoint(1), Prefill(0, 4), Checkpoint(0))
SHORT = (Arrive(0, PROMPT[:3]), Admit(0), Prefill(0, 3), Checkpoint(0), Finish(0))
LATER = (*RUNNING, *(Decode((0,), (5,)) for _ in range(6)), EvictWindow(0))


def located(mutant: str, events: tuple[Event, ...]) -> Divergence:
    tape, target = Tape(CONFIG, events), load_builtin(MUTANTS[mutant])
    found = drive_engine(tape, target).divergence
    assert found is not None
    return locate(tape, target, found)


@pytest.mark.parametrize(
    ("mutant", "events", "function", "why"),
    [
        ("request-leaves-lock", (*RUNNING, Finish(0)), "BuiltinEngine._release", "a lock was never released"),
        ("dedupe-frees-tree-copy", AGAIN, "Insertion._overlap", "[7] at event {7} freed full page 1, and node 1 still"),
        ("dedupe-keeps-row", AGAIN, "Insertion._overlap", "page 3 of request 0 as the tree's, and no"),
        ("request-leaks-tail", SHORT, "BuiltinEngine._release", "took full page 2 from request 0 and did not free it"),
        ("window-frees-shared", LATER, "BuiltinEngine.evict_window", "freed SWA page 1, and node 1 still has it"),
    ],
)
def test_the_function_with_the_defect_is_in_the_call_chain(
    mutant: str, events: tuple[Event, ...], function: str, why: str
) -> None:
    """And the sentence says what the event did."""
    found = located(mutant, events)
    assert any(call.endswith(f" {function}") for call in found.calls), found
    assert why in found.sentence, found


def test_what_other_checks_find_is_a_consequence() -> None:
    """A window that is freed twice over leaves a node with a slot that nothing maps to."""
    found = located("window-frees-shared", LATER)
    assert found.check == "owners"
    assert any(it.startswith("stale-translation (values): node 1 keeps SWA loc") for it in found.consequences)


def test_a_tape_that_does_not_diverge_any_more_says_nothing() -> None:
    divergence = Divergence("leak", "owners", 3, "full page 1 has no owner and is in no free list")
    target = load_builtin(MUTANTS["request-leaks-tail"])
    assert locate(Tape(CONFIG, RUNNING), target, divergence) is divergence


class Looping(BuiltinEngine):
    """Never comes back from an abort, in a function that calls others."""

    def abort(self, request: int) -> None:
        self._until_nothing_is_left()

    def _until_nothing_is_left(self) -> None:
        while self.raw_requests():
            pass


def test_a_hang_is_told_by_the_function_that_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its definition, for the line at which it is stopped is chance."""
    monkeypatch.setattr(timeouts, "_patience", 0.2)
    monkeypatch.setattr(timeouts, "AGAIN", 0.2)
    tape, target = Tape(CONFIG, (*RUNNING, Abort(0))), Looping()
    found = drive_engine(tape, target).divergence
    assert found is not None
    assert found.kind == "hang"
    again = [locate(tape, target, found).calls for _ in range(2)]
    assert again[0] == again[1]
    assert again[0][-1].endswith(" Looping._until_nothing_is_left")
    assert f":{Looping._until_nothing_is_left.__code__.co_firstlineno} " in again[0][-1]
